#include "agent/access/members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/choice.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/private.h"
#include "shared/base/utf8.h"

enum { DOCUMENT_MAX = 1 << 20 };

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

void members_make_secret(char out[BASE64_TEXT], uint8_t digest[SHA256_BYTES])
{
    uint8_t raw[SHA256_BYTES];

    random_bytes(raw, sizeof raw);
    base64url(out, raw);
    explicit_bzero(raw, sizeof raw);
    sha256(digest, out, BASE64_TEXT - 1);
}

/* Reads the time under `key`; 0 if it is missing and not required. */
static int take_time(double *out, const json_t *o, const char *key, bool is_required, const char *at,
                     struct err *e)
{
    char text[CLOCK_TEXT];

    *out = 0;
    if (!is_required && !json_object_get(o, key))
        return 0;
    if (json_get_text(text, sizeof text, o, key, at, e) < 0)
        return e->code;
    return clock_parse(out, text) ? 0 : err_set(e, ERR_CONFIG, "%s/%s: not a time", at, key);
}

static int take_digest(uint8_t out[SHA256_BYTES], const json_t *o, const char *key, const char *at,
                       struct err *e)
{
    char hex[SHA256_HEX];

    if (json_get_text(hex, sizeof hex, o, key, at, e) < 0)
        return e->code;
    return hex_decode(out, SHA256_BYTES, hex)
               ? 0
               : err_set(e, ERR_CONFIG, "%s/%s: not 64 hexadecimal digits", at, key);
}

static int take_scope(enum scope *out, const json_t *o, const char *at, struct err *e)
{
    char text[16];
    int n;

    if (json_get_text(text, sizeof text, o, "scope", at, e) < 0)
        return e->code;
    n = choice_find(SCOPE_CHOICES, text);
    if (n < 0)
        return err_set(e, ERR_CONFIG, "%s/scope: not one of " SCOPE_CHOICES, at);
    *out = (enum scope)n;
    return 0;
}

/* The form of agents before tokens had scopes: {name, joined_at, token_sha256}. */
static int take_former(struct member *to, const json_t *o, const char *at, struct err *e)
{
    static const char *const keys[] = {"name", "joined_at", "token_sha256", NULL};

    to->scope = SCOPE_SUBMIT;
    to->until = 0;
    return json_only_keys(o, keys, at, e) < 0 ? e->code : take_time(&to->since, o, "joined_at", true, at, e);
}

static int take_present(struct member *to, const json_t *o, const char *at, struct err *e)
{
    static const char *const keys[] = {"name", "scope", "since", "until", "token_sha256", NULL};

    return json_only_keys(o, keys, at, e) < 0 || take_scope(&to->scope, o, at, e) < 0 ||
                   take_time(&to->since, o, "since", true, at, e) < 0
               ? e->code
               : take_time(&to->until, o, "until", false, at, e);
}

static int take_member(struct member *to, const json_t *o, const char *at, struct err *e)
{
    bool is_former = json_object_get(o, "joined_at") != NULL;

    if ((is_former ? take_former : take_present)(to, o, at, e) < 0 ||
        json_get_text(to->name, sizeof to->name, o, "name", at, e) < 0)
        return e->code;
    if (!to->name[0] || !utf8_is_clean(to->name))
        return err_set(e, ERR_CONFIG, "%s/name: empty, or with control characters", at);
    return take_digest(to->digest, o, "token_sha256", at, e);
}

static int take_invitation(struct invitation *to, const json_t *o, const char *at, struct err *e)
{
    static const char *const keys[] = {"scope", "until", "code_sha256", NULL};

    if (json_only_keys(o, keys, at, e) < 0 || take_scope(&to->scope, o, at, e) < 0 ||
        take_time(&to->until, o, "until", true, at, e) < 0)
        return e->code;
    return take_digest(to->digest, o, "code_sha256", at, e);
}

static int check_list(const json_t *list, const char *key, size_t max, struct err *e)
{
    return json_is_array(list) && json_array_size(list) <= max
               ? 0
               : err_set(e, ERR_CONFIG, "/%s: not a list of at most %zu", key, max);
}

static int take_all(struct members *m, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "members", "invitations", NULL};
    const json_t *list = json_object_get(doc, "members"), *codes = json_object_get(doc, "invitations");
    char at[48];
    int version;

    if (json_only_keys(doc, keys, "", e) < 0 || json_get_int(&version, doc, "version", 1, 1, "", e) < 0 ||
        check_list(list, "members", MEMBERS_MAX, e) < 0 ||
        (codes && check_list(codes, "invitations", INVITATIONS_MAX, e) < 0))
        return e->code;
    for (size_t i = 0; i < json_array_size(list); i++) {
        snprintf(at, sizeof at, "/members/%zu", i);
        if (take_member(&m->list[i], json_array_get(list, i), at, e) < 0)
            return e->code;
    }
    for (size_t i = 0; i < json_array_size(codes); i++) {
        snprintf(at, sizeof at, "/invitations/%zu", i);
        if (take_invitation(&m->invitations[i], json_array_get(codes, i), at, e) < 0)
            return e->code;
    }
    m->n = json_array_size(list);
    m->n_invitations = json_array_size(codes);
    return 0;
}

static int read_list(struct members *m, struct err *e)
{
    json_t *doc;
    char *text;
    size_t len;
    int rc;

    m->n = m->n_invitations = 0;
    stamp_differs(&m->seen, m->path);
    rc = private_read(&text, &len, m->path, DOCUMENT_MAX, e);
    if (rc == ERR_NOT_FOUND)
        return 0;
    if (rc < 0)
        return rc;
    rc = json_parse(&doc, text, len, m->path, e);
    free(text);
    if (rc < 0)
        return rc;
    rc = take_all(m, doc, e) < 0 ? err_at(e, "%s", m->path) : 0;
    json_decref(doc);
    return rc;
}

int members_open(struct members *m, const char *dir, struct err *e)
{
    *m = (struct members){0};
    if (file_join(m->path, sizeof m->path, dir, "members.json", e) < 0 ||
        file_join(m->lock_path, sizeof m->lock_path, dir, "members.lock", e) < 0)
        return e->code;
    m->list = calloc(MEMBERS_MAX, sizeof *m->list);
    m->invitations = calloc(INVITATIONS_MAX, sizeof *m->invitations);
    if (!m->list || !m->invitations)
        return err_set(e, ERR_NOMEM, "no memory for members");
    return read_list(m, e);
}

void members_close(struct members *m)
{
    free(m->list);
    free(m->invitations);
    *m = (struct members){0};
}

int members_refresh(struct members *m, struct err *e)
{
    struct stamp now = m->seen;

    return stamp_differs(&now, m->path) ? read_list(m, e) : 0;
}

const struct member *members_find(const struct members *m, const uint8_t digest[SHA256_BYTES], double now)
{
    const struct member *found = NULL;

    for (size_t i = 0; i < m->n; i++)
        if (equal_in_constant_time(digest, m->list[i].digest, SHA256_BYTES))
            found = &m->list[i];
    return found && found->until > 0 && now >= found->until ? NULL : found;
}

static json_t *time_json(double t)
{
    char text[CLOCK_TEXT];

    return t > 0 ? json_string(clock_text(text, t)) : NULL;
}

static json_t *members_json(const struct members *m)
{
    json_t *list = json_array(), *codes = json_array();
    char hex[SHA256_HEX];
    bool is_whole = true;

    for (size_t i = 0; i < m->n; i++) {
        const struct member *k = &m->list[i];

        hex_encode(hex, k->digest, SHA256_BYTES);
        is_whole &= json_array_append_new(list,
                                          json_pack("{s:s, s:s, s:o, s:o*, s:s}", "name", k->name, "scope",
                                                    scope_name(k->scope), "since", time_json(k->since),
                                                    "until", time_json(k->until), "token_sha256", hex)) == 0;
    }
    for (size_t i = 0; i < m->n_invitations; i++) {
        const struct invitation *k = &m->invitations[i];

        hex_encode(hex, k->digest, SHA256_BYTES);
        is_whole &= json_array_append_new(codes,
                                          json_pack("{s:s, s:o, s:s}", "scope", scope_name(k->scope), "until",
                                                    time_json(k->until), "code_sha256", hex)) == 0;
    }
    if (is_whole)
        return json_pack("{s:i, s:o, s:o}", "version", 1, "members", list, "invitations", codes);
    json_decref(list);
    json_decref(codes);
    return NULL;
}

static int save(struct members *m, struct err *e)
{
    json_t *doc = members_json(m);
    char *text = doc ? json_dump(doc, JSON_INDENT(2)) : NULL;
    int rc = text ? file_write(m->path, text, strlen(text), 0600, e)
                  : err_set(e, ERR_NOMEM, "no memory for %s", m->path);

    free(text);
    json_decref(doc);
    return rc;
}

/* Returns the descriptor of the lock, or an error. */
static int take_lock(const struct members *m, struct err *e)
{
    int fd = open(m->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", m->lock_path);
    if (flock(fd, LOCK_EX | (m->may_wait ? 0 : LOCK_NB)) == 0)
        return fd;
    if (errno == EWOULDBLOCK)
        err_set(e, ERR_CONFLICT, "another process is changing %s; try again", m->path);
    else
        err_errno(e, ERR_IO, "%s", m->lock_path);
    close(fd);
    return e->code;
}

static void drop_old(struct members *m)
{
    double now = clock_wall();
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        if (m->list[i].until == 0 || m->list[i].until > now)
            m->list[n++] = m->list[i];
    m->n = n;
    n = 0;
    for (size_t i = 0; i < m->n_invitations; i++)
        if (m->invitations[i].until > now)
            m->invitations[n++] = m->invitations[i];
    m->n_invitations = n;
}

/* Returns the descriptor of the lock, after reading the list again, or an error. */
static int begin_change(struct members *m, struct err *e)
{
    int fd = take_lock(m, e);

    if (fd < 0)
        return fd;
    if (read_list(m, e) < 0) {
        close(fd);
        return e->code;
    }
    drop_old(m);
    return fd;
}

/* Saves the list unless `rc` is an error. A list that was not saved is read again, without the change. */
static int end_change(struct members *m, int fd, int rc, struct err *e)
{
    struct err ignored;

    if (rc == 0)
        rc = save(m, e);
    if (rc < 0)
        read_list(m, &ignored);
    else
        stamp_differs(&m->seen, m->path);
    close(fd);
    return rc;
}

static struct member *find_name(const struct members *m, const char *name)
{
    for (size_t i = m->n; i > 0; i--)
        if (strcmp(m->list[i - 1].name, name) == 0)
            return &m->list[i - 1];
    return NULL;
}

static int append_member(struct members *m, const char *name, enum scope scope, double until,
                         const uint8_t digest[SHA256_BYTES], struct err *e)
{
    struct member *k = &m->list[m->n];

    if (m->n == MEMBERS_MAX) {
        err_set(e, ERR_CONFLICT, "there are %d members already", MEMBERS_MAX);
        return err_hint(e, "agent token revoke NAME removes one.");
    }
    *k = (struct member){.scope = scope, .since = clock_wall(), .until = until};
    snprintf(k->name, sizeof k->name, "%s", name);
    memcpy(k->digest, digest, SHA256_BYTES);
    m->n++;
    return 0;
}

static double time_after(double seconds)
{
    return seconds > 0 ? clock_wall() + seconds : 0;
}

static int append_new(struct members *m, const char *name, enum scope scope, double until,
                      char token[BASE64_TEXT], struct err *e)
{
    uint8_t digest[SHA256_BYTES];

    members_make_secret(token, digest);
    return append_member(m, name, scope, until, digest, e);
}

/* Clears the token if `rc` is an error or the list cannot be saved. */
static int end_with(struct members *m, int fd, int rc, char token[BASE64_TEXT], struct err *e)
{
    rc = end_change(m, fd, rc, e);
    if (rc < 0)
        explicit_bzero(token, BASE64_TEXT);
    return rc;
}

int members_invite(struct members *m, enum scope scope, double for_s, char code[BASE64_TEXT], struct err *e)
{
    struct invitation k = {.scope = scope, .until = clock_wall() + for_s};
    int fd = begin_change(m, e);

    if (fd < 0)
        return fd;
    members_make_secret(code, k.digest);
    if (m->n_invitations == INVITATIONS_MAX)
        memmove(m->invitations, m->invitations + 1, --m->n_invitations * sizeof k);
    m->invitations[m->n_invitations++] = k;
    return end_with(m, fd, 0, code, e);
}

/* Makes the name unique, as jobs are owned by a name, and each can be revoked: ann@box, ann@box-2, ... */
static void own_name(char out[MEMBER_NAME + 1], const struct members *m, const char *name)
{
    snprintf(out, MEMBER_NAME + 1, "%s", name);
    for (int i = 2; find_name(m, out); i++)
        snprintf(out, MEMBER_NAME + 1, "%.50s-%d", name, i);
}

static struct invitation *find_code(const struct members *m, const char *code)
{
    uint8_t digest[SHA256_BYTES];
    struct invitation *found = NULL;

    sha256(digest, code, strlen(code));
    for (size_t i = 0; i < m->n_invitations; i++)
        if (equal_in_constant_time(digest, m->invitations[i].digest, sizeof digest))
            found = &m->invitations[i];
    return found;
}

int members_join(struct members *m, const char *code, const char *name, char token[BASE64_TEXT],
                 struct err *e)
{
    int fd = begin_change(m, e);
    struct invitation *found, used;
    char own[MEMBER_NAME + 1];

    if (fd < 0)
        return fd;
    found = find_code(m, code);
    if (!found) {
        close(fd);
        err_set(e, ERR_AUTH, "not a code that this agent accepts now");
        return err_hint(e, "A code is accepted once, and for a limited time; on the agent's machine "
                           "`agent token invite` prints another one.");
    }
    used = *found;
    *found = m->invitations[--m->n_invitations];
    own_name(own, m, name);
    return end_with(m, fd, append_new(m, own, used.scope, 0, token, e), token, e);
}

bool is_member_name(const char *name)
{
    return name[0] && strlen(name) <= MEMBER_NAME && utf8_is_clean(name) && strncmp(name, "CN=", 3) != 0;
}

static int check_member_name(const struct members *m, const char *name, struct err *e)
{
    if (!is_member_name(name))
        return err_set(e, ERR_USAGE,
                       "a name has 1 to %d bytes, no control characters, and does not begin with \"CN=\"",
                       MEMBER_NAME);
    if (!find_name(m, name))
        return 0;
    err_set(e, ERR_CONFLICT, "%s has a token already", name);
    return err_hint(e, "agent token rotate %s replaces it.", name);
}

int members_add(struct members *m, const char *name, enum scope scope, double for_s, char token[BASE64_TEXT],
                struct err *e)
{
    int fd = begin_change(m, e), rc;

    if (fd < 0)
        return fd;
    rc = check_member_name(m, name, e) < 0 ? e->code
                                           : append_new(m, name, scope, time_after(for_s), token, e);
    return end_with(m, fd, rc, token, e);
}

int members_rotate(struct members *m, const char *name, double keep_s, char token[BASE64_TEXT], struct err *e)
{
    int fd = begin_change(m, e);
    double until = clock_wall() + keep_s;
    const struct member *last;
    struct member old;

    if (fd < 0)
        return fd;
    last = find_name(m, name);
    if (!last)
        return end_change(m, fd, err_set(e, ERR_NOT_FOUND, "no member is called %s", name), e);
    old = *last;
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->list[i].name, name) == 0 && (m->list[i].until == 0 || m->list[i].until > until))
            m->list[i].until = until;
    drop_old(m);
    return end_with(m, fd, append_new(m, name, old.scope, old.until, token, e), token, e);
}

int members_keep(struct members *m, const char *name, enum scope scope, double for_s,
                 const uint8_t digest[SHA256_BYTES], struct err *e)
{
    int fd = begin_change(m, e);

    return fd < 0 ? fd : end_change(m, fd, append_member(m, name, scope, clock_wall() + for_s, digest, e), e);
}

int members_revoke(struct members *m, const char *name, struct err *e)
{
    int fd = begin_change(m, e);
    size_t n = 0;

    if (fd < 0)
        return fd;
    if (!find_name(m, name))
        return end_change(m, fd, err_set(e, ERR_NOT_FOUND, "no member is called %s", name), e);
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->list[i].name, name) != 0)
            m->list[n++] = m->list[i];
    m->n = n;
    return end_change(m, fd, 0, e);
}

int members_revoke_invitations(struct members *m, struct err *e)
{
    int fd = begin_change(m, e);

    if (fd < 0)
        return fd;
    m->n_invitations = 0;
    return end_change(m, fd, 0, e);
}
