/* records -- the CSV files of a simulation. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shared/records/artifacts.h"
#include "sim/sim.h"

struct train_row {
    struct record_train job;
    double sim_time_s;
};
struct eval_row {
    struct record_eval job;
    double sim_time_s;
};
struct comm_row {
    struct record_comm job;
    double sim_time_s;
};

struct codec_row {
    struct record_codec job;
    double sim_time_s;
};

struct metric_row {
    struct record_metric job;
    double sim_time_s;
};

/* Those from CODEC on are created at their first row. */
enum sim_file { TRAIN, EVAL, COMM, CODEC, METRICS, N_FILES };

static const struct {
    const struct artifact *job; /* the file of a job that it extends */
    size_t sim_time;            /* its offset in the row */
} files[N_FILES] = {
    [TRAIN] = {&artifacts[ARTIFACT_TRAIN], offsetof(struct train_row, sim_time_s)},
    [EVAL] = {&artifacts[ARTIFACT_EVAL], offsetof(struct eval_row, sim_time_s)},
    [COMM] = {&artifacts[ARTIFACT_COMM], offsetof(struct comm_row, sim_time_s)},
    [CODEC] = {&artifacts[ARTIFACT_CODEC_RECORDS], offsetof(struct codec_row, sim_time_s)},
    [METRICS] = {&artifacts[ARTIFACT_METRICS], offsetof(struct metric_row, sim_time_s)},
};

struct sim_records {
    struct record_file of[N_FILES];
    struct record_column columns[N_FILES][RECORD_COLUMNS_MAX];
};

/* Copies a job's columns and appends one. */
static void extend(struct record_column *out, int file)
{
    const struct record_column *columns = files[file].job->columns;
    size_t n = 0;

    for (; columns[n].name; n++)
        out[n] = columns[n];
    out[n] = (struct record_column){RECORD_SIM_TIME, RECORD_SECONDS, files[file].sim_time,
                                    "simulated time since the simulation began"};
}

int sim_records_open(struct sim_records **out, struct err *e)
{
    struct sim_records *r = calloc(1, sizeof *r);
    struct err ignored;

    if (!r)
        return err_set(e, ERR_NOMEM, "no memory for the records");
    for (int i = 0; i < N_FILES; i++)
        r->of[i].fd = -1;
    for (int i = 0; i < N_FILES; i++)
        extend(r->columns[i], i);
    for (int i = 0; i < N_FILES; i++) {
        if (i < CODEC && record_open(&r->of[i], files[i].job->path, r->columns[i], e) < 0) {
            sim_records_close(r, &ignored);
            return e->code;
        }
    }
    *out = r;
    return 0;
}

int sim_records_close(struct sim_records *r, struct err *e)
{
    int rc = 0;

    for (int i = 0; r && i < N_FILES; i++) {
        if (rc == 0 && r->of[i].fd >= 0)
            rc = record_flush(&r->of[i], e);
        record_close(&r->of[i]);
    }
    free(r);
    return rc;
}

int sim_record_step(struct sim_records *r, const struct record_train *job, struct err *e)
{
    const struct train_row row = {.job = *job, .sim_time_s = job->time_s};

    return record_write(&r->of[TRAIN], &row, sizeof row, 1, e);
}

int sim_record_evaluation(struct sim_records *r, const struct sim_node *n, struct err *e)
{
    const struct exchange_totals *t = exchange_totals(n->x);
    struct eval_row row = {.job = {.time_s = n->now,
                                   .node = n->node,
                                   .epoch = n->worker.epoch,
                                   .step = n->step.n_done,
                                   .samples = n->step.n_samples,
                                   .loss = n->eval_loss,
                                   .accuracy = isnan(n->eval_accuracy) ? RECORD_MISSING : n->eval_accuracy,
                                   .sent_bytes_total = t->sent_bytes,
                                   .recv_bytes_total = t->recv_bytes},
                           .sim_time_s = n->now};

    step_describe_text(&n->step, &row.job);
    return record_write(&r->of[EVAL], &row, sizeof row, 1, e);
}

int sim_record_comm(struct sim_records *r, const struct sim *s, const struct sim_node *n, struct err *e)
{
    struct record_comm row = {.time_s = n->now, .node = n->node}, rows[2];

    if (!exchange_round_done(n->x, &row.round) || row.round % (uint64_t)s->set.record_every != 0)
        return 0;
    row.peer = exchange_next_peer(n->x, -1 - s->set.server_count);
    for (; row.peer != EXCHANGE_NO_PEER; row.peer = exchange_next_peer(n->x, row.peer + 1)) {
        size_t n_rows = exchange_comm_rows(rows, n->x, row);

        for (size_t i = 0; i < n_rows; i++) {
            const struct comm_row timed = {.job = rows[i], .sim_time_s = n->now};

            if (record_write(&r->of[COMM], &timed, sizeof timed, 1, e) < 0)
                return e->code;
        }
    }
    return 0;
}

static int create_late(struct sim_records *r, enum sim_file file, struct err *e)
{
    return r->of[file].fd < 0 ? record_open(&r->of[file], files[file].job->path, r->columns[file], e) : 0;
}

int sim_record_metrics(struct sim_records *r, const struct sim_node *n, const struct workload *load,
                       struct err *e)
{
    for (size_t i = 0; i < load->n_metrics; i++) {
        const struct metric_row row = {.job = {.time_s = n->now,
                                               .node = n->node,
                                               .epoch = n->worker.epoch,
                                               .step = n->step.n_done,
                                               .metric = load->metrics[i].name,
                                               .value = load->metrics[i].value},
                                       .sim_time_s = n->now};

        if (create_late(r, METRICS, e) < 0 || record_write(&r->of[METRICS], &row, sizeof row, 1, e) < 0)
            return e->code;
    }
    return 0;
}

int sim_record_codec(struct sim_records *r, const struct sim_node *n, const struct codec *c, const char *name,
                     double value, struct err *e)
{
    const struct codec_row row = {.job = {.time_s = n->now,
                                          .node = c->run->node,
                                          .step = c->run->step,
                                          .round = c->run->round,
                                          .name = name,
                                          .value = value},
                                  .sim_time_s = n->now};

    if (create_late(r, CODEC, e) < 0)
        return e->code;
    return record_write(&r->of[CODEC], &row, sizeof row, 1, e);
}
