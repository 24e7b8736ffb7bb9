#include "submit/net/joined_agents.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/private.h"
#include "submit/net/http_client.h"
#include "submit/terminal/interrupt.h"

enum { FILE_MAX = 4096 };

static const double SEARCH_S = 3;

static const struct json_field fields[] = {
    {"pin", JSON_FIELD_TEXT, JSON_AT(struct joined_agent, pin), .required = true},
    {"token", JSON_FIELD_TEXT, JSON_AT(struct joined_agent, token), .required = true},
    {"address", JSON_FIELD_TEXT, JSON_AT(struct joined_agent, address), .required = true},
    {"agent", JSON_FIELD_TEXT, JSON_AT(struct joined_agent, agent), .required = true},
    {"joined_at", JSON_FIELD_DOUBLE, JSON_AT(struct joined_agent, joined_at), .max = 1e11},
    {0}};

static int joined_folder(char *out, size_t size, struct err *e)
{
    char state[PATH_MAX];

    return file_state_dir(state, sizeof state, e) < 0 ? e->code : file_join(out, size, state, "joined", e);
}

static int path_of(char *out, size_t size, const char *address, struct err *e)
{
    char dir[PATH_MAX], name[BASE64_TEXT + 8];
    uint8_t digest[SHA256_BYTES];

    sha256(digest, address, strlen(address));
    base64url(name, digest);
    strcat(name, ".json");
    return joined_folder(dir, sizeof dir, e) < 0 ? e->code : file_join(out, size, dir, name, e);
}

static int read_agent(struct joined_agent *out, const char *path, struct err *e)
{
    char *text;
    size_t len;
    json_t *doc;
    int rc;

    if (private_read(&text, &len, path, FILE_MAX, e) < 0)
        return e->code != ERR_AUTH ? e->code
                                   : err_hint(e, "Remove it and join the agent again: other users may have "
                                                 "read its token.");
    rc = json_parse(&doc, text, len, path, e);
    secret_free(text);
    if (rc < 0)
        return rc;
    *out = (struct joined_agent){0};
    rc = json_to_struct(out, doc, fields, "", e);
    json_decref(doc);
    if (rc == 0 && !is_base64url(out->pin))
        rc = err_set(e, ERR_CONFIG, "/pin: not 43 characters of base64url");
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

int joined_agents_find(struct joined_agent *out, const char *address, struct err *e)
{
    char path[PATH_MAX];

    if (path_of(path, sizeof path, address, e) < 0) /* without a home folder no agent was joined */
        return e->code = ERR_NOT_FOUND;
    return read_agent(out, path, e);
}

int joined_agents_prepare(struct err *e)
{
    char dir[PATH_MAX];

    if (joined_folder(dir, sizeof dir, e) < 0 || file_mkdirs(dir, 0700, e) < 0)
        return e->code;
    return access(dir, W_OK) < 0 ? err_errno(e, ERR_IO, "%s", dir) : 0;
}

int joined_agents_save(const struct joined_agent *a, struct err *e)
{
    json_t *doc = json_from_struct(a, fields);
    char *text = doc ? json_dump(doc, JSON_INDENT(2)) : NULL;
    char path[PATH_MAX];
    int rc;

    json_decref(doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the record of %s", a->address);
    rc = joined_agents_prepare(e) < 0 || path_of(path, sizeof path, a->address, e) < 0
             ? e->code
             : file_write(path, text, strlen(text), 0600, e);
    secret_free(text);
    return rc;
}

int joined_agents_remove(const char *address, struct err *e)
{
    char path[PATH_MAX];

    if (path_of(path, sizeof path, address, e) < 0)
        return e->code;
    if (unlink(path) == 0)
        return file_sync_name(path, e);
    return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no agent was joined at %s", address)
                           : err_errno(e, ERR_IO, "%s", path);
}

static int by_address(const void *a, const void *b)
{
    const struct joined_agent *x = a, *y = b;

    return strcmp(x->address, y->address);
}

static int add_file(struct joined_agents *l, const char *dir, const char *name, struct err *e)
{
    struct joined_agent *more = reallocarray(l->items, l->n + 1, sizeof *more);
    char path[PATH_MAX];
    struct err why;

    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for the agents in %s", dir);
    l->items = more;
    if (file_join(path, sizeof path, dir, name, &why) == 0 && read_agent(&more[l->n], path, &why) == 0)
        l->n++;
    else if (!l->bad.code)
        l->bad = why;
    return 0;
}

int joined_agents_read(struct joined_agents *out, struct err *e)
{
    struct joined_agents l = {0};
    struct dirent *d;
    char dir[PATH_MAX];
    DIR *open_dir;
    int rc = 0;

    *out = l;
    if (joined_folder(dir, sizeof dir, e) < 0) /* without a home folder no agent was joined */
        return 0;
    open_dir = opendir(dir);
    if (!open_dir)
        return errno == ENOENT ? 0 : err_errno(e, ERR_IO, "%s", dir);
    while (rc == 0 && (d = readdir(open_dir)) != NULL)
        if (d->d_name[0] != '.' && file_has_ending(d->d_name, ".json"))
            rc = add_file(&l, dir, d->d_name, e);
    closedir(open_dir);
    if (rc < 0) {
        joined_agents_clear(&l);
        return rc;
    }
    if (l.n > 0)
        qsort(l.items, l.n, sizeof *l.items, by_address);
    *out = l;
    return 0;
}

void joined_agents_clear(struct joined_agents *l)
{
    if (l->items)
        explicit_bzero(l->items, l->n * sizeof *l->items);
    free(l->items);
    *l = (struct joined_agents){0};
}

/* A binary search of the pins, by handshakes, for the one of the agent at an address: it is among
 * pins[first .. first + n). */
struct search {
    const char *address;
    size_t first, n;
    size_t n_tried; /* the running handshake accepts the first n_tried of them */
    bool is_done;   /* n is 1; or 0: no pin is that of the agent */
    struct http_request call;
};

static int start_handshake(struct http *h, struct search *s, const char *const *pins, size_t n_tried,
                           struct err *e)
{
    struct http_request *r = &s->call;

    *r = (struct http_request){.method = "GET",
                               .peer = s->address,
                               .pins = pins + s->first,
                               .n_pins = n_tried,
                               .is_handshake = true,
                               .timeout_s = SEARCH_S};
    s->n_tried = n_tried;
    if (snprintf(r->url, sizeof r->url, "https://%s/", s->address) >= (int)sizeof r->url)
        return err_set(e, ERR_INTERNAL, "a URL for %s is too long", s->address);
    return http_start(h, r, e);
}

/* Takes the result of a handshake. The first handshake of a search accepts all pins, so that an unknown
 * server costs no further ones; after it, exactly one of the n pins is the agent's. */
static int narrow_search(struct http *h, struct search *s, const char *const *pins, struct err *e)
{
    int code = s->call.err.code;

    if (code == 0) {
        s->n = s->n_tried;
    } else if (code == ERR_AUTH && s->n_tried < s->n) {
        s->first += s->n_tried;
        s->n -= s->n_tried;
    } else {
        s->n = 0;
    }
    s->is_done = s->n <= 1;
    return s->is_done ? 0 : start_handshake(h, s, pins, s->n / 2, e);
}

static int search_all(struct http *h, struct search *all, size_t n, const char *const *pins, struct err *e)
{
    double until = clock_now() + SEARCH_S;
    size_t n_left = n;

    for (size_t i = 0; i < n; i++)
        if (start_handshake(h, &all[i], pins, all[i].n, e) < 0)
            return e->code;
    while (n_left > 0 && clock_now() < until) {
        http_poll(h, 0.1);
        if (interrupt_check(e) < 0)
            return e->code;
        n_left = 0;
        for (size_t i = 0; i < n; i++) {
            struct search *s = &all[i];

            if (!s->is_done && !s->call.busy && narrow_search(h, s, pins, e) < 0)
                return e->code;
            n_left += !s->is_done;
        }
    }
    return 0;
}

int joined_agents_search(struct searched_address *s, size_t n, const struct joined_agents *known,
                         struct err *e)
{
    const char **pins = calloc(known->n + 1, sizeof *pins);
    struct search *all = calloc(n + 1, sizeof *all);
    struct http *h = http_new(e); /* separate: no other request can use these connections */
    int rc = pins && all && h ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu addresses", n);

    for (size_t i = 0; rc == 0 && i < known->n; i++)
        pins[i] = known->items[i].pin;
    for (size_t i = 0; rc == 0 && i < n; i++)
        all[i] = (struct search){.address = s[i].address, .n = known->n};
    if (rc == 0 && known->n > 0)
        rc = search_all(h, all, n, pins, e);
    for (size_t i = 0; i < n; i++) {
        s[i].found = rc == 0 && all[i].is_done && all[i].n == 1 ? &known->items[all[i].first] : NULL;
        if (h && all)
            http_clear(h, &all[i].call);
    }
    http_free(h);
    free(all);
    free(pins);
    return rc;
}

int joined_agents_move(const struct joined_agent *a, const char *address, struct err *e)
{
    struct joined_agent moved = *a;
    int rc;

    snprintf(moved.address, sizeof moved.address, "%s", address);
    rc = joined_agents_save(&moved, e);
    explicit_bzero(&moved, sizeof moved);
    return rc;
}
