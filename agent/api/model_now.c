#include "agent/api/model_now.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/clock.h"

bool model_now_exists(const struct task *t, struct response *rs)
{
    const struct job *j = &t->job;
    const char *state = job_state_name(j->state);

    if (j->spec.executor)
        respond_problem(rs, WRONG_STATE, NULL, "%s runs an executor, which trains no model", j->spec.id);
    else if (job_state_is_terminal(j->state) || j->state == JOB_STOPPING)
        respond_problem(rs, WRONG_STATE, "Its last model is the artifact final.safetensors, if it succeeded.",
                        "%s is %s and has no model that changes", j->spec.id, state);
    else if (j->state != JOB_RUNNING || !t->runner.pid)
        respond_problem(rs, WRONG_STATE, "Ask again when it is running.", "%s is %s", j->spec.id, state);
    else
        return true;
    return false;
}

void model_now_ask(struct task *t, double deadline, struct response *rs)
{
    if (!model_now_exists(t, rs))
        return;
    rs->kind = RESPONSE_MODEL;
    rs->deadline = deadline;
    rs->after = t->n_models + 1;
    memcpy(rs->id, t->job.spec.id, sizeof rs->id);
    rs->attempt = t->job.spec.attempt;
    runner_ask_for_model(&t->runner);
}

bool model_now_is_over(const struct task *t, const struct response *rs)
{
    return !t || t->job.state != JOB_RUNNING || t->n_models >= rs->after || clock_now() >= rs->deadline;
}

void model_now_respond(struct task *t, struct response *rs)
{
    const struct job_spec *spec = t ? &t->job.spec : NULL;
    char name[64];
    struct err e;
    uint64_t bytes;
    int fd;

    if (!t) {
        respond_problem(rs, GONE, NULL, "the job was removed meanwhile");
    } else if (!model_now_exists(t, rs)) {
        return; /* it has ended meanwhile */
    } else if (t->n_models < rs->after) {
        respond_problem(rs, TIMED_OUT,
                        "Ask again with a longer timeout_s; the status says what the node does.",
                        "node %d of %s has completed no step in time", spec->node, spec->id);
    } else if (t->model_error[0]) {
        respond_problem(rs, WRONG_STATE, NULL, "node %d of %s: %s", spec->node, spec->id, t->model_error);
    } else {
        snprintf(name, sizeof name, SNAPSHOT_NAME ".tmp.%ld", (long)t->runner.pid);
        if (artifact_open(&fd, &bytes, t->jobs->dir_fd, task_folder(t), name, &e) < 0) {
            respond_error(rs, &e);
            return;
        }
        response_clear(rs);
        rs->type = "application/octet-stream";
        rs->kind = RESPONSE_FILE;
        rs->fd = fd;
        rs->bytes = bytes;
    }
}
