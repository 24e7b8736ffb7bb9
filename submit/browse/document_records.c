/* Curves, matrices and counts from the CSV files of a job's records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/settings.h"
#include "shared/records/record.h"
#include "submit/browse/documents.h"

enum { NODE_MOST = SIMULATED_NODES_MAX + 1, PEERS_MOST = 1024, VALUES_MOST = 4096, CLASSES_MOST = 1000 };

static int add_curves(void *ctx, int fd, int node, struct err *e)
{
    (void)node;
    return series_read(ctx, fd, "the records", e);
}

int document_series(FILE *out, const struct shown *s, const struct series_request *r, struct err *e)
{
    struct series *curves;
    int rc;

    if (series_new(&curves, r, e) < 0)
        return e->code;
    rc = shown_each(s, artifacts[r->file].path, add_curves, curves, e);
    if (rc == 0)
        rc = series_write(out, curves, e);
    series_free(curves);
    return rc;
}

static int scan_file(void *ctx, int fd, int node, struct err *e)
{
    (void)node;
    return record_scan_file(ctx, fd, e);
}

static int scan_each(const struct shown *s, enum artifact_id file, struct record_scan *scan, struct err *e)
{
    scan->what = artifacts[file].path;
    return shown_each(s, artifacts[file].path, scan_file, scan, e);
}

enum { SENT, RECEIVED, WAIT, N_TRAFFIC };

/* The traffic between each two nodes. */
struct peers {
    int nodes[PEERS_MOST];
    size_t n;
    int16_t place[2 * NODE_MOST + 1]; /* of a node, plus NODE_MOST: 1 + its index in `nodes` */
    double *cells[N_TRAFFIC];         /* (PEERS_MOST, PEERS_MOST), of which n x n are used */
};

/* The place of a node in the matrix; -1: there are too many. */
static int place_of(struct peers *p, double node)
{
    int16_t *place = &p->place[(int)node + NODE_MOST];

    if (*place == 0 && p->n == PEERS_MOST)
        return -1;
    if (*place == 0) {
        p->nodes[p->n++] = (int)node;
        *place = (int16_t)p->n;
    }
    return *place - 1;
}

static void add_to(double *cell, double v)
{
    if (v != RECORD_MISSING && isfinite(v))
        *cell += v;
}

static int add_traffic(void *ctx, const struct record_text *c, struct err *e)
{
    struct peers *p = ctx;
    double node = record_number(&c[0]), peer = record_number(&c[1]);
    bool is_sent = c[2].len == 4 && memcmp(c[2].text, "sent", 4) == 0;
    int row;
    int column;
    size_t at;

    if (!(fabs(node) <= NODE_MOST) || !(fabs(peer) <= NODE_MOST))
        return 0;
    row = place_of(p, node);
    column = place_of(p, peer);
    if (row < 0 || column < 0)
        return err_set(e, ERR_NOT_FOUND, "the job has more than %d nodes", PEERS_MOST);
    at = (size_t)row * PEERS_MOST + (size_t)column;
    add_to(&p->cells[is_sent ? SENT : RECEIVED][at], record_number(&c[3]));
    if (!is_sent)
        add_to(&p->cells[WAIT][at], record_number(&c[4]));
    return 0;
}

/* Workers in order, then servers: 0, 1, ..., -2, -3, ... */
static int compare_nodes(const void *a, const void *b, void *ctx)
{
    const struct peers *p = ctx;
    int x = p->nodes[*(const int *)a], y = p->nodes[*(const int *)b];

    if ((x < 0) != (y < 0))
        return x < 0 ? 1 : -1;
    return x < 0 ? y - x : x - y;
}

static json_t *matrix(const struct peers *p, const double *cells, const int *order)
{
    json_t *out = json_array();

    for (size_t i = 0; i < p->n; i++) {
        json_t *row = json_array();

        for (size_t k = 0; k < p->n; k++)
            json_array_append_new(
                row, json_number_or_null(cells[(size_t)order[i] * PEERS_MOST + (size_t)order[k]]));
        json_array_append_new(out, row);
    }
    return out;
}

static json_t *peers_json(struct peers *p)
{
    json_t *nodes = json_array();
    int order[PEERS_MOST];

    for (size_t i = 0; i < p->n; i++)
        order[i] = (int)i;
    qsort_r(order, p->n, sizeof *order, compare_nodes, p);
    for (size_t i = 0; i < p->n; i++)
        json_array_append_new(nodes, json_integer(p->nodes[order[i]]));
    return json_pack("{s:o, s:o, s:o, s:o}", "nodes", nodes, "sent", matrix(p, p->cells[SENT], order),
                     "received", matrix(p, p->cells[RECEIVED], order), "wait_s",
                     matrix(p, p->cells[WAIT], order));
}

int document_peers(json_t **out, const struct shown *s, struct err *e)
{
    static const char *const columns[] = {"node", "peer", "direction", "wire_bytes", "transfer_s"};
    struct peers *p = calloc(1, sizeof *p);
    struct record_scan scan = {.columns = columns, .n = 5, .needed = 0x1f, .row = add_traffic, .ctx = p};
    int rc = p ? 0 : err_set(e, ERR_NOMEM, "no memory for the peers");

    for (int i = 0; rc == 0 && i < N_TRAFFIC; i++) /* its unused pages take no memory */
        if (!(p->cells[i] = calloc((size_t)PEERS_MOST * PEERS_MOST, sizeof *p->cells[i])))
            rc = err_set(e, ERR_NOMEM, "no memory for the peers");
    if (rc == 0)
        rc = scan_each(s, ARTIFACT_COMM, &scan, e);
    if (rc == 0 && p->n == 0)
        rc = err_set(e, ERR_NOT_FOUND, "the job has no records of messages");
    if (rc == 0 && !(*out = peers_json(p)))
        rc = err_set(e, ERR_NOMEM, "no memory for the peers");
    for (int i = 0; p && i < N_TRAFFIC; i++)
        free(p->cells[i]);
    free(p);
    return rc;
}

/* The number of occurrences of each value that a codec records under a name. Each of several servers records
 * its part of the same gradient, so only the first server's records count. */
enum { FIRST_SERVER = -2 };
struct record_histogram {
    const char *name;
    size_t n;
    struct count {
        double value;
        uint64_t n;
    } counts[VALUES_MOST];
};

static int add_value(void *ctx, const struct record_text *c, struct err *e)
{
    struct record_histogram *h = ctx;
    double v = record_number(&c[1]);
    size_t low = 0;
    size_t high = h->n;

    (void)e;
    if (c[0].len != strlen(h->name) || memcmp(c[0].text, h->name, c[0].len) != 0 || v == RECORD_MISSING ||
        !isfinite(v) || !(record_number(&c[2]) >= FIRST_SERVER))
        return 0;
    while (low < high) {
        size_t middle = (low + high) / 2;

        if (h->counts[middle].value < v)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == h->n || h->counts[low].value != v) {
        if (h->n == VALUES_MOST)
            return err_set(e, ERR_NOT_FOUND, "%s has more than %d values", h->name, VALUES_MOST);
        memmove(&h->counts[low + 1], &h->counts[low], (h->n - low) * sizeof *h->counts);
        h->counts[low] = (struct count){.value = v};
        h->n++;
    }
    h->counts[low].n++;
    return 0;
}

int document_histogram(json_t **out, const struct shown *s, const char *name, struct err *e)
{
    static const char *const columns[] = {"name", "value", "node"};
    struct record_histogram *h = calloc(1, sizeof *h);
    struct record_scan scan = {.columns = columns, .n = 3, .needed = 0x7, .row = add_value, .ctx = h};
    json_t *counts = json_array();
    int rc = h && counts ? 0 : err_set(e, ERR_NOMEM, "no memory for the histogram");

    if (rc == 0) {
        h->name = name;
        rc = scan_each(s, ARTIFACT_CODEC_RECORDS, &scan, e);
    }
    if (rc == 0 && h->n == 0)
        rc = err_set(e, ERR_NOT_FOUND, "the job's codec has recorded no %.64s", name);
    for (size_t i = 0; rc == 0 && i < h->n; i++)
        json_array_append_new(counts, json_pack("[f, I]", h->counts[i].value, (json_int_t)h->counts[i].n));
    if (rc == 0)
        *out = json_pack("{s:o, s:O}", "name", json_text(name, 64), "counts", counts);
    json_decref(counts);
    free(h);
    return rc;
}

/* The confusion matrix of the last evaluation. Each worker tests its model on all samples of the test set, so
 * a sum over workers would count each sample several times: the counts are those of the first worker that
 * made that evaluation. */
struct confusion {
    double epoch, step, node;
    size_t n;         /* classes that occur */
    uint64_t *counts; /* (CLASSES_MOST, CLASSES_MOST) */
};

struct pair {
    double epoch, step, node;
    size_t label, predicted;
    uint64_t count;
};

static bool read_pair(struct pair *out, const struct record_text *c)
{
    double step = record_number(&c[1]), label = record_number(&c[2]);
    double predicted = record_number(&c[3]), count = record_number(&c[4]), node = record_number(&c[5]);

    if (!(step >= 0) || !(fabs(node) <= NODE_MOST) || !(label >= 0 && label < CLASSES_MOST) ||
        !(predicted >= 0 && predicted < CLASSES_MOST) || !(count >= 0 && count < 0x1p53))
        return false;
    *out = (struct pair){record_number(&c[0]), step, node, (size_t)label, (size_t)predicted, (uint64_t)count};
    return true;
}

/* The order of nodes: workers 0, 1, ..., then servers -2, -3, ... */
static bool is_before(double a, double b)
{
    return (a < 0) != (b < 0) ? a >= 0 : a < 0 ? a > b : a < b;
}

static int find_last(void *ctx, const struct record_text *c, struct err *e)
{
    struct confusion *m = ctx;
    struct pair p;

    (void)e;
    if (read_pair(&p, c) && (p.step > m->step || (!(p.step < m->step) && is_before(p.node, m->node)))) {
        m->step = p.step;
        m->epoch = p.epoch;
        m->node = p.node;
    }
    return 0;
}

static int add_pair(void *ctx, const struct record_text *c, struct err *e)
{
    struct confusion *m = ctx;
    struct pair p;

    (void)e;
    if (!read_pair(&p, c) || p.step < m->step || p.step > m->step || p.node < m->node || p.node > m->node)
        return 0;
    m->n = p.label >= m->n ? p.label + 1 : m->n;
    m->n = p.predicted >= m->n ? p.predicted + 1 : m->n;
    m->counts[p.label * CLASSES_MOST + p.predicted] =
        p.count; /* not added, because a second attempt may repeat an evaluation */
    return 0;
}

static json_t *confusion_json(const struct confusion *m, const struct shown *s)
{
    const json_t *data = json_object_get(json_object_get(s->run, "facts"), "data");
    json_t *names = json_object_get(data, "class_names");
    json_t *classes = json_array();
    json_t *counts = json_array();

    for (size_t i = 0; i < m->n; i++) {
        json_t *row = json_array();
        json_t *name = json_array_get(names, i);

        for (size_t k = 0; k < m->n; k++)
            json_array_append_new(row, json_integer((json_int_t)m->counts[i * CLASSES_MOST + k]));
        json_array_append_new(counts, row);
        json_array_append_new(classes, json_is_string(name) ? json_incref(name) : json_sprintf("%zu", i));
    }
    return json_pack("{s:i, s:o, s:f, s:o, s:o}", "node", (int)m->node, "epoch", json_real_or_null(m->epoch),
                     "step", m->step, "classes", classes, "counts", counts);
}

int document_confusion(json_t **out, const struct shown *s, struct err *e)
{
    static const char *const columns[] = {"epoch", "step", "label", "predicted", "count", "node"};
    struct confusion m = {.step = -1, .counts = calloc((size_t)CLASSES_MOST * CLASSES_MOST, 8)};
    struct record_scan scan = {.columns = columns, .n = 6, .needed = 0x3f, .row = find_last, .ctx = &m};
    int rc = m.counts ? 0 : err_set(e, ERR_NOMEM, "no memory for the confusion matrix");

    /* Two passes, because a single one would clear the matrix at each later step, which a file could have in
     * each row. */
    if (rc == 0)
        rc = scan_each(s, ARTIFACT_CONFUSION, &scan, e);
    scan.row = add_pair;
    if (rc == 0)
        rc = scan_each(s, ARTIFACT_CONFUSION, &scan, e);
    if (rc == 0 && m.n == 0)
        rc = err_set(e, ERR_NOT_FOUND, "the job's model does not ask for a confusion matrix");
    if (rc == 0 && !(*out = confusion_json(&m, s)))
        rc = err_set(e, ERR_NOMEM, "no memory for the confusion matrix");
    free(m.counts);
    return rc;
}
