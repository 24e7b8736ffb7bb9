#include "agent/access/token.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/private.h"
#include "shared/base/proof.h"

enum { TOKEN_MIN = 16, TOKEN_MAX = 255 };

static const char token_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const char *scope_name(enum scope s)
{
    static const char *const names[] = {"read", "submit", "admin"};

    return names[s];
}

bool stamp_differs(struct stamp *s, const char *path)
{
    struct stamp now = {0};
    struct stat st;
    bool differs;

    if (stat(path, &st) == 0)
        now = (struct stamp){st.st_ino, st.st_size, st.st_mtim};
    differs = now.inode != s->inode || now.bytes != s->bytes || now.changed.tv_sec != s->changed.tv_sec ||
              now.changed.tv_nsec != s->changed.tv_nsec;
    *s = now;
    return differs;
}

void token_make(char out[BASE64_TEXT], uint8_t digest[SHA256_BYTES])
{
    uint8_t raw[SHA256_BYTES];

    random_bytes(raw, sizeof raw);
    base64url(out, raw);
    explicit_bzero(raw, sizeof raw);
    sha256(digest, out, BASE64_TEXT - 1);
}

int token_write(const char *path, struct err *e)
{
    char line[BASE64_TEXT + 1];
    uint8_t unused[SHA256_BYTES];
    int rc;

    token_make(line, unused);
    memcpy(line + BASE64_TEXT - 1, "\n", 2);
    rc = file_write(path, line, BASE64_TEXT, 0600, e);
    explicit_bzero(line, sizeof line);
    return rc;
}

int token_load(struct token *t, bool may_make, struct err *e)
{
    char *text = NULL;
    size_t len, n;
    int rc = 0;

    t->is_valid = t->is_long = false;
    if (may_make && access(t->path, F_OK) < 0 && token_write(t->path, e) < 0)
        return e->code;
    stamp_differs(&t->seen, t->path);
    if (private_read(&text, &len, t->path, 4096, e) < 0)
        return err_at(e, "token file");
    n = strspn(text, token_characters);
    if (n < TOKEN_MIN || n > TOKEN_MAX || strcspn(text + n, "\r\n") != 0) {
        rc = err_set(e, ERR_CONFIG, "%s holds no token: %d to %d of A-Z a-z 0-9 - _ on one line", t->path,
                     TOKEN_MIN, TOKEN_MAX);
        err_hint(e, "Remove the file; the agent then creates a new one.");
    } else {
        sha256(t->digest, text, n);
        t->is_valid = true;
        t->is_long = n >= PROOF_TOKEN_MIN;
    }
    secret_free(text);
    return rc;
}

int token_refresh(struct token *t, struct err *e)
{
    return t->path[0] && stamp_differs(&t->seen, t->path) ? token_load(t, false, e) : 0;
}

bool token_is(const struct token *t, const uint8_t digest[SHA256_BYTES])
{
    return t->is_valid && equal_in_constant_time(digest, t->digest, SHA256_BYTES);
}

static int link_path(char *out, size_t size, int port, const char *what, bool make, struct err *e)
{
    char state[PATH_MAX], agents[PATH_MAX], name[32];

    if (file_state_dir(state, sizeof state, e) < 0 ||
        file_join(agents, sizeof agents, state, "agents", e) < 0 ||
        (make && file_mkdirs(agents, 0700, e) < 0))
        return e->code;
    if (make)
        file_sweep(agents);
    snprintf(name, sizeof name, "%d.%s", port, what);
    return file_join(out, size, agents, name, e);
}

int token_link(const char *token_path, const char *pin, int port, struct err *e)
{
    char link[PATH_MAX], pin_path[PATH_MAX], absolute[PATH_MAX], tmp[PATH_MAX];

    if (link_path(link, sizeof link, port, "token", true, e) < 0 ||
        link_path(pin_path, sizeof pin_path, port, "pin", true, e) < 0)
        return e->code;
    if (pin[0] && file_write(pin_path, pin, strlen(pin), 0600, e) < 0)
        return e->code;
    if (!pin[0])
        unlink(pin_path);
    if (!token_path[0]) {
        unlink(link);
        return 0;
    }
    if (!realpath(token_path, absolute))
        return err_errno(e, ERR_IO, "%s", token_path);
    if (file_temporary(tmp, sizeof tmp, link, e) < 0)
        return e->code;
    unlink(tmp);
    if (symlink(absolute, tmp) < 0 || rename(tmp, link) < 0) {
        err_errno(e, ERR_IO, "%s", link);
        unlink(tmp);
        return e->code;
    }
    return 0;
}

void token_unlink(const char *token_path, int port)
{
    char link[PATH_MAX], pin_path[PATH_MAX], target[PATH_MAX], absolute[PATH_MAX];
    struct err e;
    ssize_t n;

    if (link_path(link, sizeof link, port, "token", false, &e) < 0 ||
        link_path(pin_path, sizeof pin_path, port, "pin", false, &e) < 0 || !realpath(token_path, absolute))
        return;
    n = readlink(link, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    if (strcmp(target, absolute) != 0)
        return;
    unlink(link);
    unlink(pin_path);
}
