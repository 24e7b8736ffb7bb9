#include "submit/results/merged_records.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

size_t records_split(struct record_cell cells[RECORD_COLUMNS_MAX], const char *row, size_t len)
{
    size_t n = 0;
    size_t start = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && (row[i] < 0x20 || row[i] > 0x7e || row[i] == '"'))
            return 0;
        if (i < len && row[i] != ',')
            continue;
        if (n == RECORD_COLUMNS_MAX)
            return 0;
        cells[n++] = (struct record_cell){row + start, i - start};
        start = i + 1;
    }
    return n;
}

static size_t row_length(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);

    return end ? (size_t)(end - text) : len;
}

size_t records_width(const struct artifact *a)
{
    size_t n = 0;

    while (a->columns[n].name)
        n++;
    return n;
}

static bool is_header(const struct artifact *a, const char *row, size_t len)
{
    struct record_cell cells[RECORD_COLUMNS_MAX];
    size_t n = records_split(cells, row, len);

    for (size_t i = 0; i < n; i++) {
        const char *name = i < records_width(a) ? a->columns[i].name : "";

        if (cells[i].len != strlen(name) || memcmp(cells[i].text, name, cells[i].len) != 0)
            return false;
    }
    return n == records_width(a);
}

size_t records_column(const struct artifact *a, const char *name)
{
    size_t i = 0;

    while (strcmp(a->columns[i].name, name) != 0)
        i++;
    return i;
}

void records_header(FILE *out, const struct artifact *a)
{
    for (const struct record_column *c = a->columns; c->name; c++)
        fprintf(out, "%s%s", c == a->columns ? "" : ",", c->name);
    fputc('\n', out);
}

/* A node may only record rows of its own. */
static int check_node(const struct artifact *a, int node, const char *text, size_t len, struct err *e)
{
    struct record_cell cells[RECORD_COLUMNS_MAX];
    const struct record_cell *c = &cells[records_column(a, "node")];
    char own[16];
    size_t n;

    snprintf(own, sizeof own, "%d", node);
    for (size_t at = row_length(text, len) + 1; at < len; at += n + 1) {
        n = row_length(text + at, len - at);
        if (at + n == len || records_split(cells, text + at, n) != records_width(a))
            continue;
        if (c->len != strlen(own) || memcmp(c->text, own, c->len) != 0)
            return err_set(e, ERR_PROTOCOL, "%s: a row names node %.*s", a->name,
                           c->len < 16 ? (int)c->len : 16, c->text);
    }
    return 0;
}

int records_append(FILE *out, const struct artifact *a, int node, const char *text, size_t len, size_t *bad,
                   struct err *e)
{
    struct record_cell cells[RECORD_COLUMNS_MAX];
    size_t n = row_length(text, len);

    *bad = 0;
    if (len == 0)
        return 0;
    if (!is_header(a, text, n))
        return err_set(e, ERR_PROTOCOL, "%s: the columns differ from those of this job_submit", a->name);
    if (check_node(a, node, text, len, e) < 0)
        return e->code;
    /* A node that died may have written part of a row; complete rows end with a line feed. */
    for (size_t at = n + 1; at < len; at += n + 1) {
        n = row_length(text + at, len - at);
        if (at + n == len)
            break;
        if (records_split(cells, text + at, n) == records_width(a))
            fwrite(text + at, 1, n + 1, out);
        else
            ++*bad;
    }
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

/* Whether the row's number in this column, if the file has it, is at most `most`. */
static bool is_until(const struct artifact *a, const struct record_cell *cells, const char *column,
                     uint64_t most)
{
    for (size_t i = 0; a->columns[i].name; i++)
        if (strcmp(a->columns[i].name, column) == 0)
            return strtoull(cells[i].text, NULL, 10) <= most; /* a cell ends with a comma or the line */
    return true;
}

int records_append_until(FILE *out, const struct artifact *a, const char *text, size_t len, uint64_t step,
                         uint64_t round, struct err *e)
{
    struct record_cell cells[RECORD_COLUMNS_MAX];
    size_t n = row_length(text, len);

    if (!is_header(a, text, n))
        return err_set(e, ERR_PROTOCOL, "%s: the columns differ from those of this job_submit", a->name);
    for (size_t at = n + 1; at < len; at += n + 1) {
        n = row_length(text + at, len - at);
        if (at + n < len && records_split(cells, text + at, n) == records_width(a) &&
            is_until(a, cells, "step", step) && is_until(a, cells, "round", round))
            fwrite(text + at, 1, n + 1, out);
    }
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

struct traffic { /* messages, raw bytes, bytes on the wire */
    int peer;
    uint64_t sent[3], received[3];
};

/* Rounds list the peers in the same order each time, so the search starts after the last hit. NULL: no
 * memory. */
static struct traffic *find_traffic(struct traffic **list, size_t *n, size_t *at, int peer)
{
    struct traffic *grown;

    for (size_t i = 0; i < *n; i++) {
        *at = *at + 1 < *n ? *at + 1 : 0;
        if ((*list)[*at].peer == peer)
            return &(*list)[*at];
    }
    if ((*n & (*n - 1)) == 0) { /* room for the next power of two */
        grown = realloc(*list, (*n ? 2 * *n : 1) * sizeof **list);
        if (!grown)
            return NULL;
        *list = grown;
    }
    *at = *n;
    (*list)[*n] = (struct traffic){.peer = peer};
    return &(*list)[(*n)++];
}

static json_t *traffic_json(const struct traffic *list, size_t n)
{
    json_t *peers = json_array();

    for (size_t i = 0; peers && i < n; i++) {
        const struct traffic *t = &list[i];

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
    static const char *const sums[3] = {"messages", "raw_bytes", "wire_bytes"};
    const struct artifact *a = &artifacts[ARTIFACT_COMM];
    size_t peer = records_column(a, "peer"), direction = records_column(a, "direction");
    size_t n = row_length(text, len), n_list = 0, found = 0;
    struct traffic *list = NULL;
    struct record_cell cells[RECORD_COLUMNS_MAX];
    json_t *peers;

    for (size_t at = n + 1; at < len; at += n + 1) {
        struct traffic *t;
        uint64_t *to;

        n = row_length(text + at, len - at);
        if (at + n == len || records_split(cells, text + at, n) != records_width(a))
            continue;
        /* A cell ends with a comma or the line: strtol stops there. */
        t = find_traffic(&list, &n_list, &found, (int)strtol(cells[peer].text, NULL, 10));
        if (!t) {
            free(list);
            return NULL;
        }
        to = cells[direction].text[0] == 's' ? t->sent : t->received;
        for (int k = 0; k < 3; k++)
            to[k] += strtoull(cells[records_column(a, sums[k])].text, NULL, 10);
    }
    peers = traffic_json(list, n_list);
    free(list);
    return peers;
}
