#include "submit/results/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "submit/terminal/console.h"

enum { ASK_TIMES = 8, ANSWER_MAX = 1 << 16 };
enum { TRACK_STEPS = 1, TRACK_PHASES = 2 };
static const double drift = 50e-6;

/* One clock measurement: *offset is our clock minus the node's, *round_trip the time of the request,
 * seconds. */
static int measure_clock(double *offset, double *round_trip, struct http *h, struct job_node *n,
                         struct err *e)
{
    struct agent_view agent;
    double sent = clock_now();
    double received;

    if (node_get(h, n, ANSWER_MAX, e, "/v1/agent") < 0)
        return e->code;
    received = clock_now();
    if (reply_agent(&agent, n->call.reply, n->call.reply_len, e) < 0)
        return e->code;
    if (!(agent.monotonic_s > 0))
        return err_set(e, ERR_PROTOCOL, "%s does not report its clock: its version is too old", n->label);
    *round_trip = received - sent;
    *offset = (sent + received) / 2 - agent.monotonic_s;
    return 0;
}

/* Finds the offset of the node's clock. A node with this process's clock has offset 0; other agents are asked
 * for their time ASK_TIMES times. The answer with the shortest round trip counts; it is uncertain by half its
 * round trip, and by 50 millionths of the time since the trace began, in which the clocks may have
 * drifted. */
static int find_offset(struct trace_node *t, struct http *h, struct job_node *n, struct err *e)
{
    char ours[TRACE_CLOCK_ID];
    double age;

    trace_clock_id(ours);
    t->offset_s = t->uncertainty_s = 0;
    if (ours[0] && strcmp(ours, t->head.clock_id) == 0)
        return 0;
    for (int i = 0; i < ASK_TIMES; i++) {
        double offset = 0, round_trip = 0;

        if (measure_clock(&offset, &round_trip, h, n, e) < 0)
            return e->code;
        if (i == 0 || round_trip / 2 < t->uncertainty_s) {
            t->offset_s = offset;
            t->uncertainty_s = round_trip / 2;
        }
    }
    age = t->n > 0 ? clock_now() - t->offset_s - (double)t->records[0].begin_ns * 1e-9 : 0;
    t->uncertainty_s += age > 0 ? drift * age : 0;
    return 0;
}

struct trace_writing {
    FILE *out;
    const struct trace_node *nodes;
    size_t n_nodes;
    double origin; /* the begin of the first span, by our clock */
    bool has_events;
};

static void begin_event(struct trace_writing *w)
{
    fputs(w->has_events ? ",\n" : "\n", w->out);
    w->has_events = true;
}

/* A time of this node in microseconds since the origin. */
static double since_origin(const struct trace_writing *w, const struct trace_node *t, uint64_t ns)
{
    return ((double)ns * 1e-9 + t->offset_s - w->origin) * 1e6;
}

static size_t index_of(const struct trace_writing *w, int node)
{
    size_t i = 0;

    while (i < w->n_nodes && w->nodes[i].node != node)
        i++;
    return i;
}

static void write_names(struct trace_writing *w, size_t i)
{
    const struct trace_node *t = &w->nodes[i];

    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"M\",\"pid\":%zu,\"name\":\"process_name\",\"args\":{\"name\":\"node %d (%s) %s\"}}",
            i + 1, t->node, t->role, t->address);
    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"M\",\"pid\":%zu,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%zu}}", i + 1,
            i);
    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"M\",\"pid\":%zu,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"steps\"}}",
            i + 1, TRACK_STEPS);
    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"M\",\"pid\":%zu,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"phases\"}}",
            i + 1, TRACK_PHASES);
}

static void write_span(struct trace_writing *w, size_t i, const struct trace_record *r)
{
    const struct trace_node *t = &w->nodes[i];
    bool is_step = r->kind == TRACE_STEP;

    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"X\",\"pid\":%zu,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":\"%s\"",
            i + 1, is_step ? TRACK_STEPS : TRACK_PHASES, since_origin(w, t, r->begin_ns),
            (double)(r->end_ns - r->begin_ns) * 1e-3, is_step ? "step" : "phase",
            is_step ? "step" : phase_names[r->kind]);
    fprintf(w->out, ",\"args\":{\"step\":%" PRIu64 ",\"round\":%" PRIu64 "}}", r->step, r->round);
}

/* Both ends of an arrow have one id, made of sender, receiver and the number of the message between them. Ids
 * are below 2^53, because a reader may have only floating-point numbers. */
static void write_message(struct trace_writing *w, size_t i, const struct trace_record *r)
{
    bool is_sent = r->kind == TRACE_SENT;
    size_t other = index_of(w, r->peer);
    size_t from = is_sent ? i : other, to = is_sent ? other : i;
    uint64_t id = (from * w->n_nodes + to) * (2 * (uint64_t)TRACE_RECORDS_MAX) + r->end_ns;

    if (other == w->n_nodes || r->end_ns >= 2 * (uint64_t)TRACE_RECORDS_MAX)
        return;
    begin_event(w);
    fprintf(w->out,
            "{\"ph\":\"%s\",\"pid\":%zu,\"tid\":%d,\"ts\":%.3f,\"cat\":\"message\",\"name\":\"message\","
            "\"id\":%" PRIu64 ",\"args\":{\"peer\":%d}}",
            is_sent ? "s" : "f\",\"bp\":\"e", i + 1, TRACK_PHASES, since_origin(w, &w->nodes[i], r->begin_ns),
            id, r->peer);
}

static void write_clocks(struct trace_writing *w)
{
    fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"clock\":\"CLOCK_MONOTONIC of the machine that "
          "wrote this; "
          "uncertainty_us: largest error of a node's times relative to it\",\"nodes\":[",
          w->out);
    for (size_t i = 0; i < w->n_nodes; i++) {
        const struct trace_node *t = &w->nodes[i];

        fprintf(w->out,
                "%s\n{\"node\":%d,\"pid\":%zu,\"offset_us\":%.3f,\"uncertainty_us\":%.3f,\"records\":%zu,"
                "\"dropped\":%" PRIu64 "}",
                i > 0 ? "," : "", t->node, i + 1, t->offset_s * 1e6, t->uncertainty_s * 1e6, t->n,
                t->head.n_dropped);
    }
    fputs("]}}\n", w->out);
}

int trace_write(FILE *out, const struct trace_node *nodes, size_t n, struct err *e)
{
    struct trace_writing w = {.out = out, .nodes = nodes, .n_nodes = n};
    bool has_origin = false;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i].n; k++) {
            double begin = (double)nodes[i].records[k].begin_ns * 1e-9 + nodes[i].offset_s;

            if (!has_origin || begin < w.origin)
                w.origin = begin;
            has_origin = true;
        }
    fputs("{\"traceEvents\":[", out);
    for (size_t i = 0; i < n; i++) {
        write_names(&w, i);
        for (size_t k = 0; k < nodes[i].n; k++) {
            const struct trace_record *r = &nodes[i].records[k];

            (r->kind > TRACE_STEP ? write_message : write_span)(&w, i, r);
        }
    }
    write_clocks(&w);
    return ferror(out) ? err_errno(e, ERR_IO, "the trace") : 0;
}

/* False: the node has no valid trace. */
static bool read_trace(struct collection *c, const struct node_files *got, struct trace_node *t)
{
    struct job_node *n = got->node;
    struct err e;

    if (got->len == 0)
        return false;
    *t = (struct trace_node){.node = n->at.node, .role = node_role(n), .address = n->at.address};
    if (trace_file_parse(&t->head, &t->records, &t->n, t->node, got->bytes, got->len, &e) < 0 ||
        find_offset(t, c->s->http, n, &e) < 0) {
        collect_miss(c, n, "its trace", e.text);
        return false;
    }
    if (t->head.n_dropped > 0)
        console_info(
            "node(%d): its trace was full after %zu spans and messages; %llu later ones are missing.",
            t->node, t->n, (unsigned long long)t->head.n_dropped);
    return true;
}

/* Replaces a file as a whole; writes into a device or a pipe. */
static int save_trace(const char *path, const struct trace_node *nodes, size_t n, struct err *e)
{
    char temporary[PATH_MAX];
    struct err ignored;
    bool is_file = file_check_replaceable(path, &ignored) == 0;
    FILE *f;
    int rc;

    if (file_temporary(temporary, sizeof temporary, path, e) < 0)
        return e->code;
    f = fopen(is_file ? temporary : path, "we");
    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    rc = trace_write(f, nodes, n, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (rc == 0 && is_file && rename(temporary, path) < 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (rc < 0 && is_file)
        unlink(temporary);
    return rc;
}

int trace_collect(struct collection *c, const struct artifact *a, struct err *e)
{
    const char *path = c->s->trace;
    struct trace_node *nodes = calloc(c->s->n_nodes, sizeof *nodes);
    struct err why = {0};
    size_t n = 0;

    (void)a; /* the nodes' trace files are not kept */
    if (!nodes)
        return err_set(e, ERR_NOMEM, "no memory for the trace of %zu nodes", c->s->n_nodes);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        n += read_trace(c, &c->got[i], &nodes[n]);
    if (n == 0)
        console_info("No node has a trace: the job was not submitted with --trace.");
    else if (save_trace(path, nodes, n, &why) < 0)
        console_error("The trace is missing: %s. job_submit fetch %s --trace FILE tries again.", why.text,
                      c->s->id);
    else
        console_info("Trace of %zu node%s in %s; https://ui.perfetto.dev shows it.", n, n == 1 ? "" : "s",
                     path);
    c->is_missing |= n == 0 || why.code != 0;
    free(nodes);
    return 0;
}
