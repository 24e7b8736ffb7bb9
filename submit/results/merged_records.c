#include "submit/results/merged_records.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shared/records/record_scan.h"

/* The strict scan of an artifact, for a callback. */
struct scan {
    const struct artifact *a;
    const char *columns[RECORD_COLUMNS_MAX];
    size_t n_columns;
    FILE *out;
    char own[16];         /* the node whose rows they are */
    uint64_t step, round; /* the last ones that are taken */
};

static int scan_text(struct scan *s, int (*row)(void *, const struct record_text *, struct err *),
                     const char *text, size_t len, size_t *bad, struct err *e)
{
    s->n_columns = artifact_columns(s->columns, s->a);
    return record_scan_text(&(struct record_scan){.what = s->a->name,
                                                  .columns = s->columns,
                                                  .n = s->n_columns,
                                                  .is_exact = true,
                                                  .is_strict = true,
                                                  .n_left_out = bad,
                                                  .row = row,
                                                  .ctx = s},
                            text, len, e);
}

void records_header(FILE *out, const struct artifact *a)
{
    for (const struct record_column *c = a->columns; c->name; c++)
        fprintf(out, "%s%s", c == a->columns ? "" : ",", c->name);
    fputc('\n', out);
}

/* A node may only record rows of its own. */
static int check_node(void *ctx, const struct record_text *cells, struct err *e)
{
    const struct scan *s = ctx;
    const struct record_text *c = &cells[artifact_column(s->a, "node")];

    if (c->len == strlen(s->own) && memcmp(c->text, s->own, c->len) == 0)
        return 0;
    return err_set(e, ERR_PROTOCOL, "%s: a row names node %.*s", s->a->name, c->len < 16 ? (int)c->len : 16,
                   c->text);
}

/* The cells of an exact scan are next to each other in the text, with a line feed behind the last. */
static int put_row(void *ctx, const struct record_text *cells, struct err *e)
{
    const struct scan *s = ctx;
    const struct record_text *last = &cells[s->n_columns - 1];

    (void)e;
    fwrite(cells->text, 1, (size_t)(last->text + last->len - cells->text) + 1, s->out);
    return 0;
}

int records_append(FILE *out, const struct artifact *a, int node, const char *text, size_t len, size_t *bad,
                   struct err *e)
{
    struct scan s = {.a = a, .out = out};

    snprintf(s.own, sizeof s.own, "%d", node);
    *bad = 0;
    if (scan_text(&s, check_node, text, len, NULL, e) < 0 || scan_text(&s, put_row, text, len, bad, e) < 0)
        return e->code;
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

/* Whether the row's number in this column, if the file has it, is at most `most`. */
static bool is_until(const struct scan *s, const struct record_text *cells, const char *column, uint64_t most)
{
    for (size_t i = 0; i < s->n_columns; i++)
        if (strcmp(s->columns[i], column) == 0)
            return strtoull(cells[i].text, NULL, 10) <= most;
    return true;
}

static int put_row_until(void *ctx, const struct record_text *cells, struct err *e)
{
    const struct scan *s = ctx;

    if (!is_until(s, cells, "step", s->step) || !is_until(s, cells, "round", s->round))
        return 0;
    return put_row(ctx, cells, e);
}

int records_append_until(FILE *out, const struct artifact *a, const char *text, size_t len, uint64_t step,
                         uint64_t round, struct err *e)
{
    struct scan s = {.a = a, .out = out, .step = step, .round = round};

    if (scan_text(&s, put_row_until, text, len, NULL, e) < 0)
        return e->code;
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

struct traffic { /* messages, raw bytes, bytes on the wire */
    int peer;
    uint64_t sent[3], received[3];
};

struct traffic_list {
    struct traffic *at;
    size_t n, found;
};

/* Rounds list the peers in the same order each time, so the search starts after the last hit. NULL: no
 * memory. */
static struct traffic *find_traffic(struct traffic_list *l, int peer)
{
    struct traffic *grown;

    for (size_t i = 0; i < l->n; i++) {
        l->found = l->found + 1 < l->n ? l->found + 1 : 0;
        if (l->at[l->found].peer == peer)
            return &l->at[l->found];
    }
    if ((l->n & (l->n - 1)) == 0) { /* room for the next power of two */
        grown = realloc(l->at, (l->n ? 2 * l->n : 1) * sizeof *l->at);
        if (!grown)
            return NULL;
        l->at = grown;
    }
    l->found = l->n;
    l->at[l->n] = (struct traffic){.peer = peer};
    return &l->at[l->n++];
}

enum { PEER, DIRECTION, SUMS, N_TRAFFIC = SUMS + 3 };
static const char *const traffic_columns[N_TRAFFIC] = {"peer", "direction", "messages", "raw_bytes",
                                                       "wire_bytes"};

static int add_traffic(void *ctx, const struct record_text *cells, struct err *e)
{
    struct traffic *t = find_traffic(ctx, (int)strtol(cells[PEER].text, NULL, 10));

    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for the totals of peers");
    for (int k = 0; k < 3; k++)
        (cells[DIRECTION].text[0] == 's' ? t->sent : t->received)[k] += strtoull(cells[SUMS + k].text, NULL,
                                                                                 10);
    return 0;
}

static json_t *traffic_json(const struct traffic_list *l)
{
    json_t *peers = json_array();

    for (size_t i = 0; peers && i < l->n; i++) {
        const struct traffic *t = &l->at[i];

        json_array_append_new(peers, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "peer", t->peer,
                                               "sent_messages", (json_int_t)t->sent[0], "sent_raw_bytes",
                                               (json_int_t)t->sent[1], "sent_bytes", (json_int_t)t->sent[2],
                                               "recv_messages", (json_int_t)t->received[0], "recv_raw_bytes",
                                               (json_int_t)t->received[1], "recv_bytes",
                                               (json_int_t)t->received[2]));
    }
    return peers;
}

json_t *records_peers(const char *text, size_t len)
{
    struct traffic_list list = {0};
    const struct record_scan scan = {.what = "comm.csv",
                                     .columns = traffic_columns,
                                     .n = N_TRAFFIC,
                                     .needed = (1 << N_TRAFFIC) - 1,
                                     .is_strict = true,
                                     .row = add_traffic,
                                     .ctx = &list};
    struct err e;
    json_t *peers = record_scan_text(&scan, text, len, &e) < 0 ? NULL : traffic_json(&list);

    free(list.at);
    return peers;
}
