/* GET /v1/jobs/{id}/model: the model of a running node, as it is between two of its steps. The runner is
 * asked for it by a signal, and the request waits until the runner has written the file; requests that wait
 * together get the same file. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "shared/base/clock.h"

/* Returns whether the node trains, so that it has a model that changes; otherwise fills the response. */
static bool model_exists(const struct task *t, struct api_response *rs)
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

/* rs->after is the number of the model that the request waits for. */
static bool model_is_there(const struct agent *a, const struct api_response *rs)
{
    const struct task *t = task_attempt(&a->jobs, rs->id, rs->attempt);

    return !t || t->job.state != JOB_RUNNING || t->n_models >= rs->after || clock_now() >= rs->deadline;
}

/* The file, or why the node has not written it. */
static void respond_model(struct agent *a, struct api_response *rs)
{
    const struct task *t = task_attempt(&a->jobs, rs->id, rs->attempt);
    const struct job_spec *spec = t ? &t->job.spec : NULL;
    char name[64];
    struct err e;
    uint64_t bytes;
    int fd;

    if (!t) {
        respond_problem(rs, GONE, NULL, "the job was removed meanwhile");
    } else if (!model_exists(t, rs)) {
        return; /* the job has ended meanwhile */
    } else if (t->n_models < rs->after) {
        respond_problem(
            rs, TIMED_OUT,
            "The status says what it does. Where steps take longer, ask again, with a longer timeout_s.",
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

static const struct wait_kind wait_for_model = {.is_over = model_is_there, .finish = respond_model};

void api_model(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = api_task(a, rq, rs);
    double timeout_s;

    if (!t || !api_timeout(&timeout_s, rq, rs))
        return;
    rs->type = "application/octet-stream";
    if (!model_exists(t, rs) || rq->method == METHOD_HEAD)
        return;
    rs->kind = RESPONSE_WAIT;
    rs->wait = &wait_for_model;
    rs->deadline = clock_now() + timeout_s;
    rs->after = t->n_models + 1;
    memcpy(rs->id, t->job.spec.id, sizeof rs->id);
    rs->attempt = t->job.spec.attempt;
    runner_ask(&t->runner, SIGURG);
}
