#include "agent/access/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/private.h"

enum { TOKEN_MIN = 16, TOKEN_MAX = 255 };

static const char token_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int token_write(const char *path, struct err *e)
{
    char line[BASE64_TEXT + 1];
    uint8_t unused[SHA256_BYTES];
    int rc;

    members_make_secret(line, unused);
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
        file_remove_temporary(agents);
    snprintf(name, sizeof name, "%d.%s", port, what);
    return file_join(out, size, agents, name, e);
}

int token_link(const char *token_path, const char *pin, int port, struct err *e)
{
    char link[PATH_MAX], pin_path[PATH_MAX], absolute[PATH_MAX], tmp[PATH_MAX];
    struct iovec part;

    if (link_path(link, sizeof link, port, "token", true, e) < 0 ||
        link_path(pin_path, sizeof pin_path, port, "pin", true, e) < 0)
        return e->code;
    /* Not synced, as each start writes it anew. */
    part = (struct iovec){.iov_base = (void *)(uintptr_t)pin, .iov_len = strlen(pin)};
    if (pin[0] && file_write_parts(pin_path, &part, 1, 0600, false, e) < 0)
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

/* The folders above a token file are checked, too. */
static int load_token(struct token *t, const char *file, const char *name, enum scope scope, bool may_make,
                      struct err *e)
{
    char whole[PATH_MAX], *slash;

    *t = (struct token){.name = name, .scope = scope};
    snprintf(t->path, sizeof t->path, "%s", file);
    if (token_load(t, may_make, e) < 0)
        return e->code;
    if (!realpath(file, whole))
        return err_errno(e, ERR_IO, "%s", file);
    slash = strrchr(whole, '/');
    slash[slash == whole] = '\0';
    return private_folder(whole, e) < 0 ? err_at(e, "token file %s", file) : 0;
}

static int load_tokens(struct auth *a, struct agent_options *o, struct err *e)
{
    bool may_make = !o->token_file[0];

    if (may_make && file_join(o->token_file, sizeof o->token_file, o->dir, "token", e) < 0)
        return e->code;
    if (!o->no_token && load_token(&a->token, o->token_file, "owner", SCOPE_ADMIN, may_make, e) < 0)
        return e->code;
    return o->cluster_token[0] &&
                   load_token(&a->cluster, o->cluster_token, "cluster", SCOPE_SUBMIT, false, e) < 0
               ? e->code
               : 0;
}

static int load_identity(struct auth *a, const struct agent_options *o, struct err *e)
{
    int rc = o->tls_cert[0] ? identity_read(&a->identity, o->tls_cert, o->tls_key, e)
                            : identity_load(&a->identity, o->dir, e);

    return rc == 0 && o->client_ca[0] ? identity_read_client_ca(&a->identity, o->client_ca, e) : rc;
}

void auth_refresh(struct auth *a)
{
    struct err e;

    if (token_refresh(&a->token, &e) < 0 || token_refresh(&a->cluster, &e) < 0 ||
        members_refresh(&a->members, &e) < 0)
        log_line(LOG_LEVEL_ERROR, "agent", NULL, "tokens: %s", e.text);
}

int auth_open(struct auth *a, struct agent_options *o, struct err *e)
{
    if (load_tokens(a, o, e) < 0 || members_open(&a->members, o->dir, e) < 0)
        return e->code;
    return load_identity(a, o, e);
}

void auth_close(struct auth *a)
{
    identity_clear(&a->identity);
    members_close(&a->members);
}
