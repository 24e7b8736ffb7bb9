#include "runner/lines/orders.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "shared/base/json.h"
#include "shared/job/settings.h"

enum { LINE_MAX_BYTES = 1 << 22, POLL_MS = 500 };

void orders_open(struct orders *o, int fd)
{
    *o = (struct orders){.fd = fd};
}

/* Clears the text before freeing it: it holds a secret. */
static void drop_text(struct orders *o)
{
    if (o->text)
        explicit_bzero(o->text, o->cap);
    free(o->text);
}

void orders_close(struct orders *o)
{
    close(o->fd);
    drop_text(o);
    *o = (struct orders){.fd = -1};
}

static int grow_text(struct orders *o, struct err *e)
{
    size_t cap = o->cap ? 2 * o->cap : 4096;
    char *text;

    if (o->len < o->cap)
        return 0;
    if (cap > LINE_MAX_BYTES)
        return err_set(e, ERR_PROTOCOL, "an order of more than %d bytes", LINE_MAX_BYTES);
    text = malloc(cap);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for an order");
    if (o->len > 0)
        memcpy(text, o->text, o->len);
    drop_text(o);
    o->text = text;
    o->cap = cap;
    return 0;
}

int orders_fill(struct orders *o, struct err *e)
{
    ssize_t n;

    if (grow_text(o, e) < 0)
        return e->code;
    n = read(o->fd, o->text + o->len, o->cap - o->len);
    if (n < 0 && errno == EBADF)
        return err_set(e, ERR_CODEC, ORDERS_CLOSED);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        return err_set(e, ERR_LOST, "the pipe of orders has ended");
    o->len += n < 0 ? 0 : (size_t)n;
    return 0;
}

bool orders_line(const struct orders *o, const char **line, size_t *len)
{
    const char *end = o->len > 0 ? memchr(o->text, '\n', o->len) : NULL;

    if (!end)
        return false;
    *line = o->text;
    *len = (size_t)(end - o->text);
    return true;
}

void orders_drop(struct orders *o)
{
    const char *line;
    size_t len;

    if (!orders_line(o, &line, &len))
        return;
    o->len -= len + 1;
    memmove(o->text, o->text + len + 1, o->len);
    explicit_bzero(o->text + o->len, len + 1);
}

static int wait_for_line(struct orders *o, const atomic_bool *interrupted, const char **line, size_t *len,
                         struct err *e)
{
    struct pollfd p = {.fd = o->fd, .events = POLLIN};

    while (!orders_line(o, line, len)) {
        if (flag_is_up(interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop before the start");
        if (poll(&p, 1, POLL_MS) > 0 && orders_fill(o, e) < 0)
            return e->code;
    }
    return 0;
}

int orders_parse_job(struct orders_job *out, const char *line, size_t len, struct err *e)
{
    static const struct json_field fields[] = {
        {.key = "job", .kind = JSON_FIELD_TEXT, JSON_AT(struct orders_job, job), .required = true},
        {.key = "attempt",
         .kind = JSON_FIELD_INT,
         JSON_AT(struct orders_job, attempt),
         .required = true,
         .min = 1,
         .max = 1e9},
        {.key = "node",
         .kind = JSON_FIELD_INT,
         JSON_AT(struct orders_job, node),
         .required = true,
         .min = -NODES_MAX - 1,
         .max = NODES_MAX},
        {.key = "workers_on_host",
         .kind = JSON_FIELD_INT,
         JSON_AT(struct orders_job, workers_on_host),
         .min = 0,
         .max = NODES_MAX},
        {.key = "role",
         .kind = JSON_FIELD_TEXT,
         JSON_AT(struct orders_job, role),
         .required = true,
         .choices = "worker|server"},
        {.key = "time_limit_s",
         .kind = JSON_FIELD_DOUBLE,
         JSON_AT(struct orders_job, time_limit_s),
         .max = TIME_LIMIT_MAX_S},
        {.key = "require_isolation",
         .kind = JSON_FIELD_CHOICE,
         JSON_AT(struct orders_job, require_isolation),
         .choices = ISOLATION_CHOICES},
        {.key = "ends_with_agent", .kind = JSON_FIELD_BOOL, JSON_AT(struct orders_job, ends_with_agent)},
        {.key = "program_runs", .kind = JSON_FIELD_BOOL, JSON_AT(struct orders_job, program_runs)},
        {.key = "own_tree", .kind = JSON_FIELD_BOOL, JSON_AT(struct orders_job, own_tree)},
        {.key = "trainer_python", .kind = JSON_FIELD_TEXT, JSON_AT(struct orders_job, trainer_python)},
        {.key = "trainer_isolation",
         .kind = JSON_FIELD_CHOICE,
         JSON_AT(struct orders_job, trainer_isolation),
         .choices = TRAINER_ISOLATION_CHOICES},
        {.key = "trainer_data", .kind = JSON_FIELD_TEXT, JSON_AT(struct orders_job, trainer_data)},
        {.key = "data_folders", .kind = JSON_FIELD_TEXT, JSON_AT(struct orders_job, data_folders)},
        {0},
    };
    json_t *doc;
    int rc;

    if (json_parse(&doc, line, len, "order", e) < 0)
        return e->code;
    rc = json_to_struct(out, doc, fields, "", e);
    json_decref(doc);
    return rc;
}

int orders_read_job(struct orders *o, struct orders_job *out, struct err *e)
{
    static const atomic_bool never = false;
    const char *line;
    size_t len;
    int rc;

    if (wait_for_line(o, &never, &line, &len, e) < 0)
        return e->code;
    rc = orders_parse_job(out, line, len, e);
    orders_drop(o);
    return rc;
}

int orders_parse_start(struct orders_start *out, const char *line, size_t len, struct err *e)
{
    struct orders_start s = {0};
    char hex[SHA256_HEX];
    const char *peers;
    json_t *doc;
    int rc;

    if (json_parse(&doc, line, len, "order", e) < 0)
        return e->code;
    peers = json_string_value(json_object_get(doc, "peers"));
    s.is_crowded = json_is_true(json_object_get(doc, "is_crowded"));
    rc = json_get_int(&s.attempt, doc, "attempt", 1, 1000000000, "", e) < 0 ||
                 json_get_text(hex, sizeof hex, doc, "secret", "", e) < 0
             ? e->code
         : !hex_decode(s.secret, sizeof s.secret, hex)
             ? err_set(e, ERR_CONFIG, "/secret: not %d hex digits", SHA256_HEX - 1)
         : !peers ? err_set(e, ERR_CONFIG, "/peers: missing or not a text")
                  : peer_list_parse(&s.peers, peers, e);
    json_decref(doc);
    explicit_bzero(hex, sizeof hex);
    if (rc == 0)
        *out = s;
    explicit_bzero(&s.secret, sizeof s.secret);
    return rc;
}

int orders_read_start(struct orders *o, struct orders_start *out, const atomic_bool *interrupted,
                      struct err *e)
{
    const char *line;
    size_t len;
    int rc;

    if (wait_for_line(o, interrupted, &line, &len, e) < 0)
        return e->code;
    rc = orders_parse_start(out, line, len, e);
    orders_drop(o);
    return rc;
}

void orders_start_clear(struct orders_start *s)
{
    explicit_bzero(s->secret, sizeof s->secret);
    peer_list_clear(&s->peers);
    *s = (struct orders_start){0};
}
