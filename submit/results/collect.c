#include "submit/results/collect.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/record.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "submit/job/outcome.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { LAST_LINES = 10, LAST_LINE_BYTES = 512 };

void collect_miss(struct collection *c, const struct job_node *n, const char *what, const char *why)
{
    c->is_missing |= !outcome_tolerates(c->s, n);
    console_info("node(%d): %s is missing%s%s%s", n->at.node, what, why[0] ? ": " : "", why, text_stop(why));
}

/* The rows of one node's file. */

/* A strict scan of one node's CSV file. */
struct scan {
    const struct artifact *a;
    const char *columns[RECORD_COLUMNS_MAX];
    size_t n_columns;
    FILE *out;
    char own[16];         /* the number of the node that delivered the file */
    uint64_t step, round; /* of collect_rows_until */
};

static int scan_rows(struct scan *s, int (*row)(void *, const struct record_text *, struct err *),
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

void collect_header(FILE *out, const struct artifact *a)
{
    for (const struct record_column *c = a->columns; c->name; c++)
        fprintf(out, "%s%s", c == a->columns ? "" : ",", c->name);
    fputc('\n', out);
}

/* A node may only have rows with its own number. */
static int check_node(void *ctx, const struct record_text *cells, struct err *e)
{
    const struct scan *s = ctx;
    const struct record_text *c = &cells[artifact_column(s->a, "node")];

    if (c->len == strlen(s->own) && memcmp(c->text, s->own, c->len) == 0)
        return 0;
    return err_set(e, ERR_PROTOCOL, "%s: a row names node %.*s", s->a->name, c->len < 16 ? (int)c->len : 16,
                   c->text);
}

/* In an exact scan the cells are consecutive in the text, and a line feed follows the last. */
static int put_row(void *ctx, const struct record_text *cells, struct err *e)
{
    const struct scan *s = ctx;
    const struct record_text *last = &cells[s->n_columns - 1];

    (void)e;
    fwrite(cells->text, 1, (size_t)(last->text + last->len - cells->text) + 1, s->out);
    return 0;
}

int collect_rows(FILE *out, const struct artifact *a, int node, const char *text, size_t len, size_t *bad,
                 struct err *e)
{
    struct scan s = {.a = a, .out = out};

    snprintf(s.own, sizeof s.own, "%d", node);
    *bad = 0;
    if (scan_rows(&s, check_node, text, len, NULL, e) < 0 || scan_rows(&s, put_row, text, len, bad, e) < 0)
        return e->code;
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

/* Is the row's number in this column, if the file has the column, at most `most`? */
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

int collect_rows_until(FILE *out, const struct artifact *a, const char *text, size_t len, uint64_t step,
                       uint64_t round, struct err *e)
{
    struct scan s = {.a = a, .out = out, .step = step, .round = round};

    if (scan_rows(&s, put_row_until, text, len, NULL, e) < 0)
        return e->code;
    return ferror(out) ? err_errno(e, ERR_IO, "%s", a->name) : 0;
}

/* The traffic with each peer, of comm.csv. */

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
    struct traffic *moved;

    for (size_t i = 0; i < l->n; i++) {
        l->found = l->found + 1 < l->n ? l->found + 1 : 0;
        if (l->at[l->found].peer == peer)
            return &l->at[l->found];
    }
    if ((l->n & (l->n - 1)) == 0) { /* room for the next power of two */
        moved = realloc(l->at, (l->n ? 2 * l->n : 1) * sizeof *l->at);
        if (!moved)
            return NULL;
        l->at = moved;
    }
    l->found = l->n;
    l->at[l->n] = (struct traffic){.peer = peer};
    return &l->at[l->n++];
}

enum { PEER, DIRECTION, SUMS, N_TRAFFIC_COLUMNS = SUMS + 3 };
static const char *const traffic_columns[N_TRAFFIC_COLUMNS] = {"peer", "direction", "messages", "raw_bytes",
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

json_t *collect_peers(const char *text, size_t len)
{
    struct traffic_list list = {0};
    const struct record_scan scan = {.what = "comm.csv",
                                     .columns = traffic_columns,
                                     .n = N_TRAFFIC_COLUMNS,
                                     .needed = (1 << N_TRAFFIC_COLUMNS) - 1,
                                     .is_strict = true,
                                     .row = add_traffic,
                                     .ctx = &list};
    struct err e;
    json_t *peers = record_scan_text(&scan, text, len, &e) < 0 ? NULL : traffic_json(&list);

    free(list.at);
    return peers;
}

static int add_loss(void *ctx, const struct record_text *cells, struct err *e)
{
    struct job_node *n = ctx;

    (void)e;
    n->first_losses[n->n_first_losses++] = record_number(cells);
    return n->n_first_losses == N_FIRST_LOSSES ? ERR_CANCELLED : 0; /* the scan ends */
}

/* For a warning (warnings.c). */
static void note_first_losses(struct job_node *n, const char *text, size_t len)
{
    static const char *const column[] = {"loss"};
    const struct record_scan scan = {.what = "train.csv",
                                     .columns = column,
                                     .n = 1,
                                     .needed = 1,
                                     .is_strict = true,
                                     .row = add_loss,
                                     .ctx = n};
    struct err ignored;

    n->n_first_losses = 0;
    record_scan_text(&scan, text, len, &ignored);
}

/* Records: the rows of all nodes, after those of earlier attempts. */

static void merge_rows(struct collection *c, const struct artifact *a, FILE *out)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct node_files *got = &c->got[i];
        struct err why;
        size_t bad;

        if (!got->bytes)
            continue;
        console_info("Restoring data (%s) from %d.", a->name, got->node->at.node);
        if (collect_rows(out, a, got->node->at.node, got->bytes, got->len, &bad, &why) < 0)
            collect_miss(c, got->node, "its part of the records", why.text);
        if (a == &artifacts[ARTIFACT_COMM] && got->len > 0) {
            json_decref(got->node->traffic);
            got->node->traffic = collect_peers(got->bytes, got->len);
        }
        if (a == &artifacts[ARTIFACT_TRAIN] && c->s->settings.trainer[0])
            note_first_losses(got->node, got->bytes, got->len);
        if (bad > 0)
            console_info("node(%d): left out %zu malformed line%s of %s.", got->node->at.node, bad,
                         bad == 1 ? "" : "s", a->name);
    }
}

/* A fetch into another folder than the job's gets only the last attempt. */
static void report_missing(const struct artifact *a, const char *path, const json_t *from)
{
    if (a->flags & NEEDED)
        console_info("%s has no rows before step %" JSON_INTEGER_FORMAT ": %s, with the rows of the attempt "
                     "before, is missing.",
                     a->name, json_integer_value(json_object_get(from, "step")), path);
}

/* The rows of earlier attempts, up to the checkpoint from which this attempt continued. */
static int write_earlier_rows(FILE *out, const struct submission *s, const struct artifact *a, struct err *e)
{
    const json_t *from = json_object_get(s->facts, "continues");
    char folder[PATH_MAX], path[PATH_MAX], *text;
    size_t len;
    int rc;

    if (!from)
        return 0;
    if (results_of_attempt(folder, s, (int)json_integer_value(json_object_get(from, "attempt")), e) < 0 ||
        file_join(path, sizeof path, folder, a->path, e) < 0)
        return e->code;
    if (file_read(&text, &len, path, a->max, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return e->code;
        report_missing(a, path, from);
        return 0;
    }
    rc = collect_rows_until(out, a, text, len, (uint64_t)json_integer_value(json_object_get(from, "step")),
                            (uint64_t)json_integer_value(json_object_get(from, "round")), e);
    free(text);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

static bool is_on_some_node(const struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->got[i].len > 0)
            return true;
    return false;
}

static int write_records(struct collection *c, const struct artifact *a, int fd, const char *path,
                         struct err *e)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
    bool is_whole;

    if (!out)
        return err_errno(e, ERR_IO, "%s", path);
    collect_header(out, a);
    if (write_earlier_rows(out, c->s, a, e) < 0) {
        fclose(out);
        return e->code;
    }
    merge_rows(c, a, out);
    is_whole = fflush(out) == 0 && !ferror(out);
    return fclose(out) == 0 && is_whole ? 0 : err_errno(e, ERR_IO, "%s", path);
}

int collect_records(struct collection *c, const struct artifact *a, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    if (!(a->flags & NEEDED) && !is_on_some_node(c))
        return 0; /* an optional file is written only if a node has it */
    if (file_join(path, sizeof path, c->s->folder, a->path, e) < 0 ||
        results_create(c->s, a->path, &fd, e) < 0)
        return e->code;
    if (write_records(c, a, fd, path, e) < 0) {
        results_drop(c->s, a->path, fd);
        return e->code;
    }
    return results_seal(c->s, a->path, fd, e);
}

/* Events: the lines of all nodes, sorted by time. */

struct event_line {
    char at[40];  /* RFC 3339, which sorts as text */
    size_t order; /* for equal times: the order of event_log_add() */
    char *text;
};

static bool make_line_room(struct event_log *l)
{
    size_t room = 2 * l->room + 256;
    struct event_line *bigger;

    if (l->bytes > (l->max ? l->max : EVENT_LOG_MAX))
        return false;
    if (l->n < l->room)
        return true;
    bigger = realloc(l->lines, room * sizeof *bigger);
    if (!bigger)
        return false;
    l->lines = bigger;
    l->room = room;
    return true;
}

static void add_line(struct event_log *l, int node, const json_t *event)
{
    struct event_line *line = &l->lines[l->n];
    const char *at = json_string_value(json_object_get(event, "at"));
    json_t *all = json_pack("{s:i}", "node", node); /* the first member, so that it is printed first */

    if (all && json_object_update_missing(all, (json_t *)(uintptr_t)event) == 0) {
        snprintf(line->at, sizeof line->at, "%s", at ? at : "");
        line->order = l->n;
        line->text = json_line(all);
        if (line->text) {
            l->bytes += sizeof *line + strlen(line->text);
            l->n++;
        }
    }
    json_decref(all);
}

bool event_log_add(struct event_log *l, int node, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        struct err ignored;
        json_t *event;

        if (!make_line_room(l))
            return false;
        if (json_parse(&event, text + at, n, "event", &ignored) == 0) {
            if (json_is_object(event))
                add_line(l, node, event);
            json_decref(event);
        }
        at += n + 1;
    }
    return true;
}

static int compare_times(const void *a, const void *b)
{
    const struct event_line *x = a;
    const struct event_line *y = b;
    int d = strcmp(x->at, y->at);

    return d ? d : (x->order > y->order) - (x->order < y->order);
}

static int event_log_write(struct event_log *l, int fd, const char *path, struct err *e)
{
    if (l->n > 0)
        qsort(l->lines, l->n, sizeof *l->lines, compare_times);
    for (size_t i = 0; i < l->n; i++)
        if (file_write_all(fd, l->lines[i].text, strlen(l->lines[i].text), path, e) < 0)
            return e->code;
    return 0;
}

void event_log_clear(struct event_log *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->lines[i].text);
    free(l->lines);
    *l = (struct event_log){0};
}

int collect_events(struct collection *c, const struct artifact *a, struct err *e)
{
    struct event_log all = {0};
    char path[PATH_MAX];
    int rc, fd;

    if (file_join(path, sizeof path, c->s->folder, a->name, e) < 0)
        return e->code;
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct node_files *got = &c->got[i];

        if (got->bytes && !event_log_add(&all, got->node->at.node, got->bytes, got->len))
            console_info(
                "node(%d): %s lacks some events of this node: together the nodes' events exceed %d MiB.",
                got->node->at.node, a->name, EVENT_LOG_MAX >> 20);
    }
    rc = results_create(c->s, a->name, &fd, e);
    if (rc == 0 && (rc = event_log_write(&all, fd, path, e)) < 0)
        results_drop(c->s, a->name, fd);
    event_log_clear(&all);
    return rc == 0 ? results_seal(c->s, a->name, fd, e) : rc;
}

/* Files that are kept as they were delivered: logs, checkpoints, output, codecs. */

/* Writes a node's artifact to the result folder; `name` includes the subfolder. */
static int keep_file(struct collection *c, const char *name, const struct node_files *got, struct err *e)
{
    const char *slash = strchr(name, '/');
    char path[PATH_MAX], folder[32];

    snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
    if (file_join(path, sizeof path, c->s->folder, folder, e) < 0 || file_mkdirs(path, 0777, e) < 0)
        return e->code;
    console_info("Restoring data (%s) from %d.", slash + 1, got->node->at.node);
    return results_write(c->s, name, got->bytes, got->len, e);
}

/* Keeps the last log lines of the node that caused the failure of the job. The text is untrusted. */
static void keep_last_lines(struct submission *s, const char *p, size_t len)
{
    size_t n = 0, from = len;

    while (from > 0 && n < LAST_LINES)
        n += p[--from] == '\n' && from + 1 < len;
    from += n == LAST_LINES;
    json_decref(s->last_log);
    s->last_log = json_array();
    while (from < len) {
        const char *lf = memchr(p + from, '\n', len - from);
        size_t k = lf ? (size_t)(lf - p) - from : len - from;
        char line[LAST_LINE_BYTES];

        snprintf(line, sizeof line, "%.*s", (int)(k < sizeof line ? k : sizeof line - 1), p + from);
        utf8_clean(line, strlen(line), false);
        json_array_append_new(s->last_log, json_text(line, SIZE_MAX));
        from += k + 1;
    }
}

int collect_logs(struct collection *c, const struct artifact *a, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct node_files *got = &c->got[i];
        char node[NODE_LOG_NAME], name[64];

        if (!got->bytes)
            continue;
        snprintf(name, sizeof name, "%s%s.log", a->path, node_log_name(node, got->node));
        if (keep_file(c, name, got, e) < 0)
            return e->code;
        if ((int)i == c->s->cause)
            keep_last_lines(c->s, got->bytes, got->len);
    }
    return 0;
}

/* The checkpoint of every node, because each node resumes from its own. */
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e)
{
    const char *ending = a == &artifacts[ARTIFACT_PREVIOUS_CHECKPOINT] ? CHECKPOINT_PREVIOUS : "";

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct node_files *got = &c->got[i];
        char name[64];

        checkpoint_file_name(name, got->node->at.node, ending);
        if (got->bytes && keep_file(c, name, got, e) < 0)
            return e->code;
    }
    return 0;
}

int collect_output(struct collection *c, const struct artifact *a, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct node_files *got = &c->got[i];
        char name[64];

        snprintf(name, sizeof name, "%snode-%d.txt", a->path, got->node->at.node);
        if (got->bytes && keep_file(c, name, got, e) < 0)
            return e->code;
    }
    return 0;
}

/* The node that delivered an artifact requested from one node; NULL: none did. */
static const struct node_files *find_downloaded(const struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->got[i].bytes)
            return &c->got[i];
    return NULL;
}

int collect_codec(struct collection *c, const struct artifact *a, struct err *e)
{
    const struct settings *set = &c->s->settings;
    const struct node_files *got = find_downloaded(c);
    char name[160];

    snprintf(name, sizeof name, "%s%s%s%s", a->path, c->is_of_servers ? "server-" : "",
             c->is_of_servers ? set->server_codec : set->codec, strrchr(a->name, '.'));
    return got ? keep_file(c, name, got, e) : 0;
}

/* Models. */

static int open_model(struct tensor_file *f, const struct node_files *got, struct err *e)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", got->fd);
    return tensor_file_open(f, path, e);
}

int collect_check_model(const struct collection *c, const struct node_files *got, struct err *e)
{
    struct tensor_file f;
    const char *job;
    int rc = open_model(&f, got, e);

    if (rc < 0)
        return rc;
    job = tensor_file_meta(&f, "job_id");
    if (!job || strcmp(job, c->s->id) != 0)
        rc = err_set(e, ERR_PROTOCOL, "the file is not the model of this job");
    else if (c->model)
        rc = weights_check_shapes(&f, "", c->model, e);
    tensor_file_close(&f);
    return rc;
}

/* The SHA-256 that a worker reports: of the trained tensors, in the model's order. False: the file lacks
 * one. */
static bool sum_trained(char hex[SHA256_HEX], const struct model_spec *m, const struct tensor_file *f)
{
    struct sha256_sum *sum = sha256_start();
    uint8_t digest[SHA256_BYTES];
    bool is_whole = sum != NULL;

    for (int i = 0; is_whole && i < m->n_tensors; i++) {
        const struct tensor_view *t = tensor_file_find(f, m->tensors[i].name);

        if (m->tensors[i].is_statistic)
            continue;
        is_whole = t && t->type == TENSOR_F32;
        if (is_whole)
            sha256_add(sum, t->data, tensor_count(t) * sizeof(float));
    }
    sha256_end(sum, digest);
    hex_encode(hex, digest, sizeof digest);
    return is_whole;
}

/* Compares the SHA-256 of the weights that workers reported with the fetched final model: that of the node
 * that delivered it, and those of nodes whose agents list a file with the same bytes. A wrong one is
 * replaced by the model's own, and the node is marked with has_false_sum. */
static void check_reported_sums(struct collection *c, const struct node_files *got)
{
    const struct job_node *shown = got->node;
    char hex[SHA256_HEX];
    struct tensor_file f;
    struct err ignored;
    bool is_summed;

    if (!c->model || open_model(&f, got, &ignored) < 0)
        return;
    is_summed = sum_trained(hex, c->model, &f);
    tensor_file_close(&f);
    for (size_t i = 0; is_summed && i < c->s->n_nodes; i++) {
        struct job_node *n = &c->s->nodes[i];
        char *said = n->view.progress.params_sha256;

        if (n != shown && (!shown->model_sha256[0] || strcmp(n->model_sha256, shown->model_sha256) != 0))
            continue;
        if (!said[0] || strcmp(said, hex) == 0)
            continue;
        n->has_false_sum = true;
        memcpy(said, hex, sizeof hex);
    }
}

/* The model of one worker; run.json has the SHA-256 of the other workers' models. */
int collect_model(struct collection *c, const struct artifact *a, struct err *e)
{
    const struct node_files *got = find_downloaded(c);

    if (got && a == &artifacts[ARTIFACT_FINAL_MODEL])
        check_reported_sums(c, got);
    return got ? keep_file(c, a->path, got, e) : 0;
}
