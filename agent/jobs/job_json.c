#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/jobs/job.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"

static json_t *text_or_null(const char *s)
{
    return s[0] ? json_string(s) : json_null();
}

static json_t *time_or_null(double t)
{
    char text[CLOCK_TEXT];

    return t > 0 ? json_string(clock_text(text, t)) : json_null();
}

static json_t *requirements(const struct job *j)
{
    json_t *a = json_array();

    for (int p = 0; p < N_PACKAGES; p++)
        if (job_lacks(j, (enum package)p))
            json_array_append_new(a, json_string(package_names[p]));
    return a;
}

static json_t *progress(const struct job *j)
{
    double ratio = j->steps > 0 ? fmin(1, (double)j->step / (double)j->steps) : 0;

    return json_pack("{s:i,s:i,s:I,s:I,s:o}", "epoch", j->epoch, "epochs", j->epochs, "step",
                     (json_int_t)j->step, "steps", (json_int_t)j->steps, "ratio",
                     json_real(round(ratio * 1e3) / 1e3));
}

static json_t *waits_for(const struct job *j)
{
    if (j->state != JOB_RUNNING || j->waits_for == EVENT_NO_NODE)
        return json_null();
    return json_pack("{s:i,s:o}", "node", j->waits_for, "since", time_or_null(j->waits_since));
}

static json_t *message(const struct job *j)
{
    if (j->state == JOB_RUNNING && j->epochs > 0)
        return json_sprintf("epoch %d of %d", j->epoch, j->epochs);
    if (j->state == JOB_RUNNING && j->spec.executor)
        return json_sprintf("%llu %%", (unsigned long long)j->step);
    return json_text(j->message, SIZE_MAX);
}

json_t *job_json(const struct job *j, double now)
{
    const struct job_spec *s = &j->spec;
    double until = j->finished_at > 0 ? j->finished_at : now;
    double elapsed = j->started_at > 0 ? fmax(0, until - j->started_at) : 0;
    json_t *o = json_pack("{s:s,s:i,s:i,s:s,s:s,s:s,s:b,s:s}", "id", s->id, "attempt", s->attempt, "node",
                          s->node, "role", s->role, "name", s->name, "codec", s->codec, "executor",
                          (int)s->executor, "submitter_unverified", s->submitter);

    json_object_set_new(o, "submitter", text_or_null(j->owner));
    json_object_set_new(o, "codec_sha256", text_or_null(j->packages[PACKAGE_CODEC].hex[0]));
    json_object_set_new(o, "state", json_string(job_state_name(j->state)));
    json_object_set_new(o, "reason", text_or_null(j->reason));
    json_object_set_new(o, "message", message(j));
    json_object_set_new(o, "requirements", requirements(j));
    json_object_set_new(o, "data_port", j->data_port ? json_integer(j->data_port) : json_null());
    json_object_set_new(o, "slot", j->data_port ? json_integer(j->slot) : json_null());
    json_object_set_new(o, "pid", j->pid ? json_integer(j->pid) : json_null());
    json_object_set_new(o, "engine", text_or_null(j->engine));
    json_object_set_new(o, "isolation",
                        j->is_isolation_known ? json_string(isolation_name(j->isolation)) : json_null());
    json_object_set_new(o, "created_at", time_or_null(j->created_at));
    json_object_set_new(o, "started_at", time_or_null(j->started_at));
    json_object_set_new(o, "finished_at", time_or_null(j->finished_at));
    json_object_set_new(o, "elapsed_s", json_real(round(elapsed * 1e3) / 1e3));
    json_object_set_new(o, "time_limit_s", json_real(s->time_limit_s));
    json_object_set_new(o, "progress", progress(j));
    json_object_set_new(o, "metrics",
                        json_pack("{s:o,s:o,s:o,s:o}", "loss", json_real_or_null(j->loss), "accuracy",
                                  json_real_or_null(j->accuracy), "eval_loss",
                                  json_real_or_null(j->eval_loss), "eval_accuracy",
                                  json_real_or_null(j->eval_accuracy)));
    json_object_set_new(o, "waits_for", waits_for(j));
    json_object_set_new(o, "stopped", stop_json(&j->stopped));
    json_object_set_new(o, "params_sha256", text_or_null(j->params_sha256));
    json_object_set_new(o, "combined_nothing", json_boolean(j->combined_nothing));
    json_object_set_new(o, "comm", comm_json(&j->comm));
    json_object_set_new(o, "nodes", j->nodes ? json_incref(j->nodes) : json_array());
    json_object_set_new(o, "last_seq", json_integer((json_int_t)j->last_seq));
    return o;
}
