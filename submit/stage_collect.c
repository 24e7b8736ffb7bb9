/* collect: brings back what the nodes left behind and writes the result folder. Every node is asked, also
 * those that failed: what there is, is kept. What should be there and is not makes the job's results
 * incomplete. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/file.h"
#include "shared/tensor_file.h"
#include "submit/event_log.h"
#include "submit/outcome.h"
#include "submit/records.h"
#include "submit/results.h"
#include "submit/run_json.h"
#include "submit/say.h"
#include "submit/start_from.h"
#include "submit/submission.h"
#include "submit/temp.h"
#include "submit/trace.h"

enum { GIB = 1 << 30 };

/* What a node may leave behind. `live`: where it is read while the job still runs; `from`: where it is read
 * instead of among the artefacts (the agent's journal has the times, the runner's file has not). */
static const struct artifact {
    const char *name, *live, *from;
    uint64_t max;
    bool for_server; /* a server has it too */
    bool needed;     /* its lack after a success is a fault */
} artifacts[] = {
    {"train.csv", "records.csv?kind=train", NULL, 2 * (uint64_t)GIB, false, true},
    {"eval.csv", "records.csv?kind=eval", NULL, GIB, false, true},
    {"comm.csv", "records.csv?kind=comm", NULL, 2 * (uint64_t)GIB, true, true},
    {"metrics.csv", "records.csv?kind=metrics", NULL, GIB, false, false},
    {"confusion.csv", "records.csv?kind=confusion", NULL, GIB, false, false},
    {"codec.csv", "records.csv?kind=codec", NULL, GIB, true, false},
    {"node.log", "logs", NULL, GIB / 4, true, true},
    {"events.jsonl", NULL, "events?after=0", GIB / 4, true, false},
    {"final.safetensors", NULL, NULL, 0, false, true},
    {"best.safetensors", NULL, NULL, 0, false, false},
    {"checkpoint.safetensors", NULL, NULL, 16 * (uint64_t)GIB, true, false},
    {"checkpoint-previous.safetensors", NULL, NULL, 16 * (uint64_t)GIB, true, false},
    {"trace.bin", NULL, NULL, TRACE_HEAD_BYTES + (uint64_t)TRACE_RECORDS_MAX *TRACE_RECORD_BYTES, true,
     false},
};
enum {
    TRAIN_CSV,
    EVAL_CSV,
    COMM_CSV,
    METRICS_CSV,
    CONFUSION_CSV,
    CODEC_CSV,
    NODE_LOG,
    EVENTS,
    FINAL_MODEL,
    BEST_MODEL,
    CHECKPOINT,
    CHECKPOINT_PREVIOUS,
    TRACE,
    N_ARTIFACTS
};

/* One node's part of the collection. */
struct yield {
    struct node *node;
    struct artifact_list list;
    bool is_heard;
    int fd; /* the artefact on its way; 0: none */
};

struct collection {
    struct submission *s;
    struct yield *yields;
    bool is_missing;
};

static const struct artifact_view *find_listed(const struct yield *y, const char *name)
{
    for (size_t i = 0; i < y->list.n; i++)
        if (strcmp(y->list.items[i].name, name) == 0)
            return &y->list.items[i];
    return NULL;
}

static void miss(struct collection *c, const struct node *n, const char *what, const char *why)
{
    c->is_missing |= !outcome_bears(c->s, n);
    say_info("node(%d): %s is missing%s%s.", n->at.node, what, why[0] ? ": " : "", why);
}

/* The jobs' last words and the lists of what is there, of all nodes at once. */
static void ask_all(struct collection *c, const char *path)
{
    struct err e;

    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (!c->yields[i].node->is_lost &&
            node_ask(c->s->http, c->yields[i].node, "GET", NULL, 0, &e, "/v1/jobs/%s%s", c->s->id, path) < 0)
            say_error("%s", e.text);
    submission_finish_calls(c->s);
}

static void take_job(struct collection *c, struct yield *y)
{
    struct node *n = y->node;
    struct job_view v;
    struct err e;

    if (n->is_lost) {
        miss(c, n, "everything", "its agent is lost");
        return;
    }
    if (node_answer(n, &e) < 0 || reply_job(&v, n->call.reply, n->call.reply_len, &e) < 0) {
        miss(c, n, "everything", e.text);
        return;
    }
    y->is_heard = true;
    n->view = v;
    n->is_ended |= job_state_is_terminal(v.state);
}

static void take_list(struct collection *c, struct yield *y)
{
    struct err e;

    if (y->is_heard && (node_answer(y->node, &e) < 0 ||
                        reply_artifacts(&y->list, y->node->call.reply, y->node->call.reply_len, &e) < 0))
        miss(c, y->node, "the list of its files", e.text);
}

static uint64_t limit(const struct submission *s, const struct artifact *a)
{
    return a->max ? a->max : s->model_bytes ? s->model_bytes : 4 * (uint64_t)GIB;
}

static void drop(struct yield *y)
{
    if (y->fd > 0)
        close(y->fd);
    y->fd = 0;
}

/* Starts the download of one artefact from one node, where there is something to download. */
static void fetch(struct collection *c, struct yield *y, const struct artifact *a)
{
    const struct artifact_view *listed = find_listed(y, a->name);
    bool live = !y->node->is_ended && a->live;
    bool expected = a->needed && y->node->view.state == JOB_SUCCEEDED &&
                    (a->for_server || !node_is_server(y->node));
    char path[160];
    struct err e;

    if (!y->is_heard || (!listed && !live) || (a->from && !y->node->is_ended)) {
        if (expected)
            miss(c, y->node, a->name, "");
        return;
    }
    if (live || a->from)
        snprintf(path, sizeof path, "/v1/jobs/%s/%s", c->s->id, live ? a->live : a->from);
    else
        snprintf(path, sizeof path, "/v1/jobs/%s/artifacts/%s", c->s->id, a->name);
    if (temp_file(&y->fd, c->s->folder, &e) < 0 ||
        node_download(c->s->http, y->node, y->fd, limit(c->s, a), path, &e) < 0) {
        miss(c, y->node, a->name, e.text);
        drop(y);
    }
}

static int check_sum(const struct yield *y, const struct artifact *a, struct err *e)
{
    const struct artifact_view *listed = find_listed(y, a->name);
    char path[64];
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    uint64_t bytes;

    if (!y->node->is_ended || a->from || !listed || !listed->complete || !listed->sha256[0])
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", y->fd);
    if (sha256_file(sum, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, sum, sizeof sum);
    if (strcmp(hex, listed->sha256) != 0)
        return err_set(e, ERR_PROTOCOL, "its sum is not the one its agent names");
    return 0;
}

static int check_model(const struct yield *y, struct err *e)
{
    struct tensor_file f;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", y->fd);
    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    tensor_file_close(&f);
    return 0;
}

static bool is_model(const struct artifact *a)
{
    return a == &artifacts[FINAL_MODEL] || a == &artifacts[BEST_MODEL];
}

/* Ends the download; what did not come whole is dropped. */
static void take_download(struct collection *c, struct yield *y, const struct artifact *a)
{
    struct err e;

    if (y->fd <= 0)
        return;
    if (node_answer(y->node, &e) == 0 && check_sum(y, a, &e) == 0 &&
        (!is_model(a) || check_model(y, &e) == 0))
        return;
    miss(c, y->node, a->name, e.text);
    drop(y);
}

/* The bytes of a download, mapped. NULL: empty. */
static const char *map(const struct yield *y, size_t *len)
{
    struct stat st;
    void *p;

    *len = 0;
    if (y->fd <= 0 || fstat(y->fd, &st) < 0 || st.st_size == 0)
        return NULL;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, y->fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    *len = (size_t)st.st_size;
    return p;
}

static void unmap(const char *p, size_t len)
{
    if (p)
        munmap((void *)(uintptr_t)p, len);
}

static int copy_file(struct collection *c, const char *name, const struct yield *y, struct err *e)
{
    size_t len;
    const char *p = map(y, &len);
    int rc = results_write(c->s, name, p ? p : "", len, e);

    unmap(p, len);
    return rc;
}

static int write_classic(struct collection *c, enum record_kind kind, const struct yield *y, const char *p,
                         size_t len, struct err *e)
{
    const struct settings *set = &c->s->settings;
    char name[160];
    char *text = NULL;
    size_t size = 0;
    FILE *f;
    int rc;

    if (strcmp(c->s->csv_style, "classic") != 0 || kind > RECORD_EVAL || node_is_server(y->node))
        return 0;
    f = open_memstream(&text, &size);
    if (!f)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = records_classic(f, kind, p ? p : "", len);
    if (fclose(f) != 0 || rc < 0) {
        free(text);
        return err_set(e, ERR_NOMEM, "no memory");
    }
    records_classic_name(name, sizeof name, kind, set->node_count, set->redundancy, y->node->at.node,
                         set->codec, c->s->n_dense);
    say_info("Restoring data (%s) from %d.", name, y->node->at.node);
    rc = results_write(c->s, name, text, size, e);
    free(text);
    return rc;
}

static int merge_rows(struct collection *c, enum record_kind kind, FILE *out, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct yield *y = &c->yields[i];
        size_t len, bad;
        const char *p = map(y, &len);
        struct err why;
        int rc = 0;

        if (y->fd <= 0)
            continue;
        say_info("Restoring data (%s.csv) from %d.", record_names[kind], y->node->at.node);
        if (records_append(out, kind, y->node->at.node, p ? p : "", len, &bad, &why) < 0)
            miss(c, y->node, "its part of the records", why.text);
        else
            rc = write_classic(c, kind, y, p, len, e);
        if (kind == RECORD_COMM && p) {
            json_decref(y->node->traffic);
            y->node->traffic = records_peers(p, len);
        }
        if (bad > 0)
            say_info("node(%d): left out %zu malformed line%s of %s.csv.", y->node->at.node, bad,
                     bad == 1 ? "" : "s", record_names[kind]);
        unmap(p, len);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool some_node_has_it(const struct collection *c)
{
    struct stat st;

    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->yields[i].fd > 0 && fstat(c->yields[i].fd, &st) == 0 && st.st_size > 0)
            return true;
    return false;
}

static int merge_records(struct collection *c, enum record_kind kind, struct err *e)
{
    char name[32];
    FILE *out;
    int fd, copy;

    if (kind > RECORD_COMM && !some_node_has_it(c))
        return 0; /* written only where the model asks for it */
    snprintf(name, sizeof name, "records/%s.csv", record_names[kind]);
    if (results_create(c->s, name, &fd, e) < 0)
        return e->code;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    out = copy < 0 ? NULL : fdopen(copy, "w");
    if (!out) {
        close(fd);
        return err_errno(e, ERR_IO, "%s", name);
    }
    records_header(out, kind);
    if (merge_rows(c, kind, out, e) < 0) {
        fclose(out);
        close(fd);
        return e->code;
    }
    if (fclose(out) != 0) {
        close(fd);
        return err_errno(e, ERR_IO, "%s", name);
    }
    return results_seal(c->s, name, fd, e);
}

static int merge_events(struct collection *c, struct err *e)
{
    struct event_log all = {0};
    int rc = 0;
    int fd;

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        size_t len;
        const char *p = map(&c->yields[i], &len);

        if (!event_log_add(&all, c->yields[i].node->at.node, p ? p : "", len))
            say_info(
                "node(%d): its events are not all in events.jsonl: those of all nodes are more than %d MiB.",
                c->yields[i].node->at.node, EVENT_LOG_MAX >> 20);
        unmap(p, len);
    }
    rc = results_create(c->s, "events.jsonl", &fd, e);
    if (rc == 0 && (rc = event_log_write(&all, fd, e)) < 0)
        close(fd);
    event_log_clear(&all);
    return rc == 0 ? results_seal(c->s, "events.jsonl", fd, e) : rc;
}

static int write_logs(struct collection *c, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct yield *y = &c->yields[i];
        int node = y->node->at.node;
        char name[64];

        if (y->fd <= 0)
            continue;
        if (node < 0)
            snprintf(name, sizeof name, "logs/ps-%d.log", -2 - node);
        else
            snprintf(name, sizeof name, "logs/worker-%d.log", node);
        say_info("Restoring data (%s) from %d.", name + strlen("logs/"), node);
        if (copy_file(c, name, y, e) < 0)
            return e->code;
    }
    return 0;
}

/* Each node's own, for each goes on from its own. */
static int write_checkpoints(struct collection *c, const char *ending, struct err *e)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct yield *y = &c->yields[i];
        int node = y->node->at.node;
        char name[64];

        if (y->fd <= 0)
            continue;
        start_checkpoint_name(name, node, ending);
        say_info("Restoring data (%s) from %d.", name + strlen("checkpoints/"), node);
        if (file_join(path, sizeof path, c->s->folder, "checkpoints", e) < 0 ||
            file_mkdirs(path, 0777, e) < 0 || copy_file(c, name, y, e) < 0)
            return e->code;
    }
    return 0;
}

/* One worker's model; the others' sums are in run.json and are compared there. */
static int write_model(struct collection *c, const char *name, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct yield *y = &c->yields[i];

        if (y->fd <= 0)
            continue;
        say_info("Restoring data (%s) from %d.", strrchr(name, '/') + 1, y->node->at.node);
        return copy_file(c, name, y, e);
    }
    return 0;
}

/* False: there is none, or none that can be used. */
static bool read_trace(struct collection *c, const struct yield *y, struct trace_node *t)
{
    struct node *n = y->node;
    struct err e;

    *t = (struct trace_node){.node = n->at.node, .role = node_role(n), .address = n->at.address};
    t->bytes = map(y, &t->len);
    if (!t->bytes)
        return false;
    if (trace_file_parse(&t->head, &t->records, &t->n, t->node, t->bytes, t->len, &e) < 0 ||
        trace_find_offset(t, c->s->http, n, &e) < 0) {
        miss(c, n, "its trace", e.text);
        unmap(t->bytes, t->len);
        return false;
    }
    if (t->head.n_dropped > 0)
        say_info("node(%d): its trace was full after %zu spans and messages; %llu later ones are not in it.",
                 t->node, t->n, (unsigned long long)t->head.n_dropped);
    return true;
}

static int save_trace(const char *path, const struct trace_node *nodes, size_t n, struct err *e)
{
    FILE *f = fopen(path, "we");
    int rc;

    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    rc = trace_write(f, nodes, n, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    return rc;
}

/* Not in the folder: where --trace says. The nodes keep their parts, so that a fetch can try again. */
static int write_trace(struct collection *c, struct err *e)
{
    const char *path = c->s->opt->trace;
    struct trace_node *nodes = calloc(c->s->n_nodes, sizeof *nodes);
    struct err why = {0};
    size_t n = 0;

    if (!nodes)
        return err_set(e, ERR_NOMEM, "no memory for the trace of %zu nodes", c->s->n_nodes);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        n += read_trace(c, &c->yields[i], &nodes[n]);
    if (n == 0)
        say_info("No node has a trace: the job was not submitted with --trace.");
    else if (save_trace(path, nodes, n, &why) < 0)
        say_info("The trace is missing: %s. job_submit fetch %s --trace FILE tries again.", why.text,
                 c->s->id);
    else
        say_info("Trace of %zu node%s in %s; https://ui.perfetto.dev shows it.", n, n == 1 ? "" : "s", path);
    c->is_missing |= n == 0 || why.code != 0;
    for (size_t i = 0; i < n; i++)
        unmap(nodes[i].bytes, nodes[i].len);
    free(nodes);
    return 0;
}

static int keep(struct collection *c, int which, struct err *e)
{
    switch (which) {
    case TRAIN_CSV:
        return merge_records(c, RECORD_TRAIN, e);
    case EVAL_CSV:
        return merge_records(c, RECORD_EVAL, e);
    case COMM_CSV:
        return merge_records(c, RECORD_COMM, e);
    case METRICS_CSV:
        return merge_records(c, RECORD_METRICS, e);
    case CONFUSION_CSV:
        return merge_records(c, RECORD_CONFUSION, e);
    case CODEC_CSV:
        return merge_records(c, RECORD_CODEC, e);
    case NODE_LOG:
        return write_logs(c, e);
    case EVENTS:
        return merge_events(c, e);
    case FINAL_MODEL:
        return write_model(c, "model/final.safetensors", e);
    case BEST_MODEL:
        return write_model(c, "model/best.safetensors", e);
    case CHECKPOINT:
        return write_checkpoints(c, "", e);
    case CHECKPOINT_PREVIOUS:
        return write_checkpoints(c, START_PREVIOUS, e);
    default:
        return write_trace(c, e);
    }
}

/* Of all nodes side by side. */
static void download_all(struct collection *c, const struct artifact *a)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        fetch(c, &c->yields[i], a);
    submission_finish_calls(c->s);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        take_download(c, &c->yields[i], a);
}

/* Of the first worker from which it comes whole: that others lack it is no fault then. */
static void download_one(struct collection *c, const struct artifact *a)
{
    bool was_missing = c->is_missing;

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct yield *y = &c->yields[i];

        if (node_is_server(y->node))
            continue;
        fetch(c, y, a);
        submission_finish_calls(c->s);
        take_download(c, y, a);
        if (y->fd > 0) {
            c->is_missing = was_missing;
            return;
        }
    }
}

/* One kind of file of all nodes: download, then write what they make together. */
static int collect(struct collection *c, int which, struct err *e)
{
    const struct artifact *a = &artifacts[which];
    int rc;

    if (which == CHECKPOINT_PREVIOUS && c->s->state == JOB_SUCCEEDED)
        return 0; /* all nodes' last ones are of the same epoch */
    if (which == TRACE && !c->s->opt->trace[0])
        return 0;
    if (is_model(a))
        download_one(c, a);
    else
        download_all(c, a);
    rc = keep(c, which, e);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        drop(&c->yields[i]);
    return rc;
}

static void note_sums(struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct artifact_view *m = find_listed(&c->yields[i], artifacts[FINAL_MODEL].name);

        snprintf(c->yields[i].node->model_sha256, sizeof c->yields[i].node->model_sha256, "%s",
                 m ? m->sha256 : "");
    }
}

int stage_collect(struct submission *s, struct err *e)
{
    struct collection c = {.s = s, .yields = calloc(s->n_nodes, sizeof *c.yields)};
    int rc = 0;

    if (!c.yields)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    json_array_clear(s->files);
    for (size_t i = 0; i < s->n_nodes; i++)
        c.yields[i].node = &s->nodes[i];
    ask_all(&c, "");
    for (size_t i = 0; i < s->n_nodes; i++)
        take_job(&c, &c.yields[i]);
    ask_all(&c, "/artifacts");
    for (size_t i = 0; i < s->n_nodes; i++)
        take_list(&c, &c.yields[i]);
    note_sums(&c);
    for (int k = 0; k < N_ARTIFACTS && rc == 0; k++)
        rc = collect(&c, k, e);
    s->is_complete = rc == 0 && !c.is_missing;
    if (rc == 0)
        rc = run_json_write(s, e);
    for (size_t i = 0; i < s->n_nodes; i++)
        http_clear(s->http, &s->nodes[i].call);
    free(c.yields);
    return rc;
}
