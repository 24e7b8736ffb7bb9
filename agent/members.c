#include "agent/members.h"

#include <stdlib.h>
#include <string.h>

#include "shared/clock.h"
#include "shared/file.h"
#include "shared/json.h"

enum { DOCUMENT_MAX = 1 << 20 };

static int take(struct members *m, const json_t *o, size_t i, struct err *e)
{
    static const char *const keys[] = {"name", "joined_at", "token_sha256", NULL};
    struct member *to = &m->list[i];
    char at[32], hex[SHA256_HEX];

    snprintf(at, sizeof at, "/members/%zu", i);
    if (json_only_keys(o, keys, at, e) < 0 ||
        json_get_text(to->name, sizeof to->name, o, "name", at, e) < 0 ||
        json_get_text(to->joined_at, sizeof to->joined_at, o, "joined_at", at, e) < 0 ||
        json_get_text(hex, sizeof hex, o, "token_sha256", at, e) < 0)
        return e->code;
    return hex_decode(to->digest, sizeof to->digest, hex)
               ? 0
               : err_set(e, ERR_CONFIG, "%s/token_sha256: not 64 hexadecimal digits", at);
}

static int take_all(struct members *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "members", NULL};
    const json_t *list = json_object_get(doc, "members");
    size_t n = json_array_size(list);
    int version;

    if (json_only_keys(doc, keys, "", e) < 0 || json_get_int(&version, doc, "version", 1, 1, "", e) < 0)
        return e->code;
    if (!json_is_array(list) || n > MEMBERS_MAX)
        return err_set(e, ERR_CONFIG, "/members: not a list of at most %d", MEMBERS_MAX);
    m->list = calloc(n + 1, sizeof *m->list);
    if (!m->list)
        return err_set(e, ERR_NOMEM, "no memory for %zu members", n);
    for (size_t i = 0; i < n; i++)
        if (take(m, json_array_get(list, i), i, e) < 0)
            return e->code;
    m->n = n;
    return 0;
}

static int read_list(struct members *m, struct err *e)
{
    json_t *doc;
    int rc;

    free(m->list);
    m->list = NULL;
    m->n = 0;
    rc = json_read(&doc, m->path, DOCUMENT_MAX, e);
    if (rc == ERR_NOT_FOUND)
        return 0;
    if (rc < 0)
        return rc;
    rc = take_all(m, doc, e) < 0 ? err_at(e, "%s", m->path) : 0;
    json_decref(doc);
    return rc;
}

int members_open(struct members *m, const char *dir, struct err *e)
{
    *m = (struct members){0};
    return file_join(m->path, sizeof m->path, dir, "members.json", e) < 0 ? e->code : read_list(m, e);
}

void members_close(struct members *m)
{
    free(m->list);
    *m = (struct members){0};
}

const struct member *members_find(const struct members *m, const char *token)
{
    const struct member *found = NULL;
    uint8_t digest[SHA256_BYTES];

    sha256(digest, token, strlen(token));
    for (size_t i = 0; i < m->n; i++)
        if (equal_in_constant_time(digest, m->list[i].digest, sizeof digest))
            found = &m->list[i];
    return found;
}

static void make_secret(char out[BASE64_TEXT], uint8_t digest[SHA256_BYTES])
{
    uint8_t raw[SHA256_BYTES];

    random_bytes(raw, sizeof raw);
    base64url(out, raw);
    explicit_bzero(raw, sizeof raw);
    sha256(digest, out, BASE64_TEXT - 1);
}

void members_make_code(struct members *m, char out[BASE64_TEXT])
{
    make_secret(out, m->code_digest);
    m->code_until = clock_now() + CODE_S;
}

static int save(const struct members *m, struct err *e)
{
    json_t *list = json_array(), *doc = json_pack("{s:i, s:o}", "version", 1, "members", list);
    char *text, hex[SHA256_HEX];
    int rc = -1;

    for (size_t i = 0; doc && i < m->n; i++) {
        hex_encode(hex, m->list[i].digest, SHA256_BYTES);
        if (json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", m->list[i].name, "joined_at",
                                                  m->list[i].joined_at, "token_sha256", hex)) < 0) {
            json_decref(doc);
            doc = NULL;
        }
    }
    text = doc ? json_dump(doc, JSON_INDENT(2)) : NULL;
    if (text)
        rc = file_write(m->path, text, strlen(text), 0600, e);
    else
        rc = err_set(e, ERR_NOMEM, "no memory for %s", m->path);
    free(text);
    json_decref(doc);
    return rc;
}

/* Durable before the token is known to anyone; the code is used up even if that fails. */
int members_join(struct members *m, const char *code, const char *name, char token[BASE64_TEXT],
                 struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    struct member *more;

    sha256(digest, code, strlen(code));
    if (clock_now() > m->code_until)
        m->code_until = 0;
    if (m->code_until == 0 || !equal_in_constant_time(digest, m->code_digest, sizeof digest)) {
        err_set(e, ERR_AUTH, "not the code that this agent accepts now");
        return err_hint(e, "A code is accepted once, for an hour, and until the agent restarts; the agent "
                           "prints the next one.");
    }
    m->code_until = 0;
    if (read_list(m, e) < 0) /* its owner may have removed some */
        return e->code;
    if (m->n == MEMBERS_MAX)
        return err_set(e, ERR_CONFLICT, "%d have joined already; remove some from %s", MEMBERS_MAX, m->path);
    more = realloc(m->list, (m->n + 1) * sizeof *more);
    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for another member");
    m->list = more;
    more[m->n] = (struct member){0};
    snprintf(more[m->n].name, sizeof more[m->n].name, "%s", name);
    clock_text(more[m->n].joined_at, clock_wall());
    make_secret(token, more[m->n].digest);
    m->n++;
    if (save(m, e) == 0)
        return 0;
    m->n--;
    explicit_bzero(token, BASE64_TEXT);
    return e->code;
}
