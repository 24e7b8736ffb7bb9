#include "runner/base/tracer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/records/artifacts.h"

static void flush_records(struct tracer *t)
{
    struct err e = {0};

    if (t->fd >= 0 && t->n_held > 0 &&
        file_write_all(t->fd, t->held, t->n_held * sizeof *t->held, artifact_name(ARTIFACT_TRACE), &e) == 0) {
        t->n_written += t->n_held;
    } else {
        t->head.n_dropped += t->n_held;
        if (t->fd >= 0 && t->n_held > 0) {
            /* A partial record may be in the file: the reader ignores it, and nothing may follow it. */
            close(t->fd);
            t->fd = -1;
        }
    }
    t->n_held = 0;
}

int tracer_new(struct tracer **out, const char *path, int node, struct err *e)
{
    struct tracer *t = malloc(sizeof *t);

    if (!t)
        return err_set(e, ERR_NOMEM, "no memory for the trace");
    memset(t, 0, sizeof *t);
    trace_head_init(&t->head, node);
    t->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (t->fd < 0) {
        free(t);
        return err_errno(e, ERR_IO, "%s", path);
    }
    if (file_write_all(t->fd, &t->head, sizeof t->head, path, e) < 0) {
        tracer_free(t);
        return e->code;
    }
    *out = t;
    return 0;
}

uint64_t tracer_free(struct tracer *t)
{
    uint64_t n_dropped;

    if (!t)
        return 0;
    flush_records(t);
    n_dropped = t->head.n_dropped;
    if (t->fd >= 0) {
        /* If this fails too, the file's count is 0, and the node's log has the number. */
        ssize_t written = n_dropped > 0 ? pwrite(t->fd, &t->head, sizeof t->head, 0) : 0;

        (void)written;
        close(t->fd);
    }
    free(t);
    return n_dropped;
}

static void add_record(struct tracer *t, struct trace_record r)
{
    if (t->fd < 0 || t->n_written + t->n_held == TRACE_RECORDS_MAX) {
        t->head.n_dropped++;
        return;
    }
    r.step = t->step;
    r.round = t->round;
    t->held[t->n_held++] = r;
    if (t->n_held == TRACER_HELD)
        flush_records(t);
}

void tracer_set_step(struct tracer *t, uint64_t step)
{
    if (t)
        t->step = step;
}

void tracer_set_round(struct tracer *t, uint64_t round)
{
    if (t)
        t->round = round;
}

static uint64_t nanoseconds(double s)
{
    return (uint64_t)(s * 1e9 + 0.5);
}

void tracer_span(struct tracer *t, enum trace_kind kind, double begin, double end)
{
    if (end > begin)
        add_record(t, (struct trace_record){
                          .begin_ns = nanoseconds(begin), .end_ns = nanoseconds(end), .kind = (uint8_t)kind});
}

void tracer_message(struct tracer *t, enum trace_kind kind, int peer, uint64_t seq, double at)
{
    add_record(t, (struct trace_record){
                      .begin_ns = nanoseconds(at), .end_ns = seq, .peer = peer, .kind = (uint8_t)kind});
}
