/* Handlers that reserve, prepare, start and end a job. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/etag.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/job_end.h"
#include "agent/jobs/packages.h"
#include "agent/jobs/peers.h"
#include "agent/jobs/retention.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"

enum { MAX_GRACE_S = 600, MAX_CANCEL_TEXT = 200 };

static void respond_unknown(const struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct tombstone *f = task_find(&a->jobs, rq->arg[0]) ? NULL
                                                                : retention_tombstone(&a->jobs, rq->arg[0]);

    if (f && api_is_open(rq, f->key_sha256))
        respond_problem(rs, GONE, NULL, "%s was removed at %s: %s", f->id, f->at, f->why);
    else
        respond_problem(rs, NOT_FOUND, NULL, "%s: unknown job", rq->arg[0]);
}

struct task *api_task(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = task_attempt(&a->jobs, rq->arg[0], rq->attempt);

    if (!t || !api_is_open(rq, t->job.key_sha256)) {
        respond_unknown(a, rq, rs);
        return NULL;
    }
    if (rq->scope != SCOPE_READ)
        job_touch(t);
    return t;
}

static void respond_job(struct api_response *rs, int status, const struct task *t)
{
    respond_json(rs, status, task_json(t));
}

/* Returns 0 if this request has reserved the job. ERR_CONFLICT: another request has; ERR_NOMEM. */
static int compare_request(const struct job *j, const struct job_spec *spec, struct err *e)
{
    json_t *x = job_spec_json(&j->spec), *y = job_spec_json(spec);
    char *was = json_dump(x, JSON_SORT_KEYS), *is = json_dump(y, JSON_SORT_KEYS);
    int rc = 0;

    if (!was || !is)
        rc = err_set(e, ERR_NOMEM, "no memory to compare the reservations of %s", j->spec.id);
    else if (strcmp(was, is) != 0)
        rc = err_set(e, ERR_CONFLICT, "%s exists here already, as node %d, attempt %d", j->spec.id,
                     j->spec.node, j->spec.attempt);
    free(was);
    free(is);
    json_decref(x);
    json_decref(y);
    return rc;
}

static void respond_busy(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = a->jobs.first;
    const char *id;
    const struct job *j;

    while (!job_is_active(&t->job)) /* one is */
        t = t->next;
    j = &t->job;
    id = api_is_listed(rq, j) ? j->spec.id : "another job";
    if (j->steps > 0)
        respond_problem(rs, AGENT_BUSY, "Omit --no-queue to wait.", "%s runs %s (node %d, %.0f %%).",
                        a->address, id, j->spec.node, 100.0 * fmin(1, (double)j->step / (double)j->steps));
    else
        respond_problem(rs, AGENT_BUSY, "Omit --no-queue to wait.", "%s runs %s (node %d, %s).", a->address,
                        id, j->spec.node, job_state_name(j->state));
}

/* Checks the codec that the reservation names, so that the job is refused now and not after waiting in the
 * queue. */
static int check_codec(const struct agent *a, const struct job_spec *spec, struct err *e)
{
    const struct codec_offer offer = {
        .name = spec->codec, .object_hex = spec->codec_sha256, .source_hex = spec->codec_source_sha256};
    enum codec_use use;

    if (!spec->codec_sha256[0])
        return 0;
    return codec_admit(&use, &a->jobs.codecs, &offer, e) < 0
               ? e->code
               : packages_isolate(&a->jobs, spec, &offer, use, e);
}

/* Checks the training program that the reservation names, for the same reason. */
static int check_trainer(const struct agent *a, const struct job_spec *spec, struct err *e)
{
    return job_spec_has_program(spec)
               ? trainer_admit(&a->jobs.trainers, spec->trainer, spec->trainer_sha256, e)
               : 0;
}

/* Counts the jobs in this state without earlier attempts of the same job, which are about to end. */
static size_t count_others(const struct agent *a, const struct job_spec *spec,
                           bool (*is_it)(const struct job *))
{
    size_t n = 0;

    for (const struct task *t = a->jobs.first; t; t = t->next)
        n += is_it(&t->job) && strcmp(t->job.spec.id, spec->id) != 0;
    return n;
}

/* A job that does not wait takes a free slot if no job in the agent's own queue gets it first, and if it is
 * its user's turn. */
static bool may_take_slot(const struct agent *a, const struct request *rq, const struct job_spec *spec,
                          char *why, size_t size)
{
    const struct task *next = job_next_pending(&a->jobs);
    char user[TURN_USER], of_next[TURN_USER];
    double now = clock_now();

    turns_user(user, rq->who, spec->submitter);
    if (next) {
        turns_user(of_next, next->job.owner, next->job.spec.submitter);
        if (jobs_used_by(&a->jobs, of_next, now) <= jobs_used_by(&a->jobs, user, now)) {
            snprintf(why, size, "other jobs are queued already");
            return false;
        }
    }
    return job_may_take_slot(&a->jobs,
                             &(struct turn_claim){.user = user,
                                                  .job = spec->id,
                                                  .holds_others = spec->holds > 0,
                                                  .owner = rq->who,
                                                  .sees_all = api_sees_all(rq)},
                             why, size);
}

static bool may_reserve(struct agent *a, const struct request *rq, const struct job_spec *spec,
                        struct api_response *rs)
{
    size_t n_pending = count_others(a, spec, job_is_pending);
    bool is_full = count_others(a, spec, job_is_active) >= (size_t)a->opt.slots;
    bool is_busy = n_pending > 0 || is_full;
    char why[256] = "";
    int n_nodes = spec->node_count + spec->server_count;
    uint64_t n_files = runner_files(n_nodes);

    if (a->jobs.is_stopping)
        respond_problem(rs, DRAINING, NULL, "%s is stopping", a->address);
    else if (a->jobs.is_draining)
        respond_problem(rs, DRAINING,
                        "Use other agents, or let it take jobs again: job_submit agents resume ADDRESS.",
                        "%s was drained and takes no new jobs", a->address);
    else if (rq->scope == SCOPE_SUBMIT && !rq->job_key[0])
        respond_problem(rs, BAD_REQUEST, "Send X-Job-Key: 43 characters of base64url, of 32 random bytes.",
                        "a job that is reserved with a token of scope submit needs a key, by which its "
                        "submitter is recognized");
    else if (n_files > a->jobs.job_files)
        respond_problem(
            rs, TOO_LARGE,
            "Start that agent with a larger hard limit of open files (ulimit -Hn, LimitNOFILE=).",
            "a node of a job of %d nodes may need %llu open files, a process at %s has at most %llu", n_nodes,
            (unsigned long long)n_files, a->address, (unsigned long long)a->jobs.job_files);
    else if (is_full && spec->no_queue)
        respond_busy(a, rq, rs);
    else if (spec->no_queue && !may_take_slot(a, rq, spec, why, sizeof why))
        respond_problem(rs, AGENT_BUSY, "Omit --no-queue to wait.", "%s: %s", a->address, why);
    else if (is_busy && !spec->no_queue && n_pending >= (size_t)a->opt.queue)
        respond_problem(rs, TOO_MANY_REQUESTS, "Use other agents, or start this one with a larger --queue.",
                        "%zu jobs are queued at %s already", n_pending, a->address);
    else
        return true;
    return false;
}

void api_reserve(struct agent *a, const struct request *rq, struct api_response *rs)
{
    json_t *doc = api_body(rq, rs);
    struct job_spec spec;
    struct task *t;
    struct err e;
    int rc;

    if (!doc)
        return;
    rc = job_spec_parse(&spec, doc, &e);
    json_decref(doc);
    if (rc < 0 || check_codec(a, &spec, &e) < 0 || check_trainer(a, &spec, &e) < 0) {
        respond_error(rs, &e);
        return;
    }
    t = task_find(&a->jobs, spec.id);
    if (t && !api_is_open(rq, t->job.key_sha256)) {
        respond_problem(rs, JOB_EXISTS, NULL, "the id %s is in use; choose another one", spec.id);
        return;
    }
    if (t && spec.attempt <= t->job.spec.attempt) {
        rc = compare_request(&t->job, &spec, &e);
        if (rc == ERR_CONFLICT) {
            respond_problem(rs, JOB_EXISTS, NULL, "%s", e.text);
        } else if (rc < 0) {
            respond_error(rs, &e);
        } else {
            job_touch(t);
            respond_job(rs, 200, t);
        }
        return;
    }
    if (!may_reserve(a, rq, &spec, rs))
        return;
    if (task_add(&a->jobs, &spec, rq->who, rq->job_key, &t, &e) < 0) {
        respond_error(rs, &e);
        return;
    }
    job_reserved(t);
    job_supersede(&a->jobs);
    job_schedule(&a->jobs);
    respond_job(rs, 201, t);
    snprintf(rs->location, sizeof rs->location, "/v1/jobs/%s", spec.id);
}

void api_jobs(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const char *state = query_get(rq, "state");
    enum job_state only = JOB_PENDING;
    uint64_t left;
    json_t *list;

    if (state && !job_state_parse(&only, state)) {
        respond_problem(rs, BAD_REQUEST, NULL, "\"%s\" is not a state", state);
        return;
    }
    if (!query_number(&left, rq, rs, "limit", 1, UINT64_MAX))
        return;
    list = json_array();
    for (const struct task *t = a->jobs.last; t && left > 0; t = t->prev)
        if ((!state || t->job.state == only) && api_is_listed(rq, &t->job)) {
            json_array_append_new(list, task_json(t));
            left--;
        }
    respond_jobs(rq, rs, json_pack("{s:o}", "jobs", list));
}

void api_job(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);

    if (t)
        respond_jobs(rq, rs, task_json(t));
}

/* Without X-Job-Attempt all attempts are removed: otherwise an earlier one would become the latest. */
static bool is_meant(const struct task *t, const struct request *rq)
{
    return strcmp(t->job.spec.id, rq->arg[0]) == 0 &&
           (rq->attempt == 0 || rq->attempt == t->job.spec.attempt);
}

void api_forget(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs), *next;
    char why[TOMBSTONE_WHY_MAX];
    struct err e;

    if (!t)
        return;
    for (t = a->jobs.first; t; t = t->next)
        if (is_meant(t, rq) && !job_state_is_terminal(t->job.state)) {
            respond_problem(rs, WRONG_STATE, "Cancel it first.", "%s is %s", t->job.spec.id,
                            job_state_name(t->job.state));
            return;
        }
    snprintf(why, sizeof why, "deleted by %s", rq->who[0] ? rq->who : "a client without a token");
    for (t = a->jobs.first; t; t = next) {
        next = t->next;
        if (is_meant(t, rq) && retention_remove(t, why, &e) < 0) {
            respond_error(rs, &e);
            return;
        }
    }
    rs->status = 204;
}

/* Packages that one request names: a note for each, and which of them the job does not have yet. */
struct named_packages {
    struct event notes[N_PACKAGES];
    bool is_new[N_PACKAGES];
    bool has_new;
};

static int name_package(struct named_packages *n, const struct task *t, enum package p, const json_t *doc,
                        struct err *e)
{
    struct event *note = &n->notes[p];

    event_init(note, NOTE_PACKAGE);
    snprintf(note->package, sizeof note->package, "%s", package_names[p]);
    if (packages_parse(note, doc, p, e) < 0)
        return e->code;
    n->is_new[p] = !t->job.packages[p].here ||
                   memcmp(t->job.packages[p].hex, note->hex, sizeof note->hex) != 0;
    n->has_new |= n->is_new[p];
    return 0;
}

/* Links the new packages and records them, with few syncs for all; starts the runner if none is missing. */
static int take_packages(struct task *t, struct named_packages *n, struct err *e)
{
    for (int p = 0; p < N_PACKAGES; p++)
        if (n->is_new[p] && packages_link(t->jobs, t, &n->notes[p], (enum package)p, e) < 0)
            return e->code;
    if (packages_sync(t, e) < 0)
        return e->code;
    for (int p = 0; p < N_PACKAGES; p++)
        if (n->is_new[p] && task_record(t, &n->notes[p], e) < 0)
            return e->code;
    job_advance(t);
    return task_sync(t, e);
}

/* Returns false if it has answered with a problem. */
static bool may_take_packages(const struct task *t, struct api_response *rs)
{
    if (!t->job.pid && (t->job.state == JOB_PENDING || t->job.state == JOB_PREPARING))
        return true;
    respond_problem(rs, WRONG_STATE, NULL, "%s is %s and accepts no more packages", t->job.spec.id,
                    job_state_name(t->job.state));
    return false;
}

void api_package(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    struct named_packages n = {0};
    enum package p;
    struct err e;
    json_t *doc;
    int rc;

    if (!t)
        return;
    if (!package_parse(&p, rq->arg[1])) {
        respond_problem(rs, NOT_FOUND, NULL,
                        "\"%s\" is not one of settings, codec, model, weights, data, trainer", rq->arg[1]);
        return;
    }
    doc = api_body(rq, rs);
    if (!doc)
        return;
    rc = name_package(&n, t, p, doc, &e);
    json_decref(doc);
    if (rc < 0) {
        respond_error(rs, &e);
        return;
    }
    rs->status = 204;
    if (n.has_new && may_take_packages(t, rs) && take_packages(t, &n, &e) < 0)
        respond_error(rs, &e);
}

static int name_packages(struct named_packages *n, const struct task *t, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"packages", NULL};
    const json_t *packages = json_object_get(doc, "packages");
    const char *names[N_PACKAGES + 1] = {NULL};

    for (int p = 0; p < N_PACKAGES; p++)
        names[p] = package_names[p];
    if (json_only_keys(doc, keys, "", e) < 0)
        return e->code;
    if (!packages)
        return err_set(e, ERR_CONFIG, "/packages: missing");
    if (json_only_keys(packages, names, "/packages", e) < 0)
        return e->code;
    for (int p = 0; p < N_PACKAGES; p++) {
        const json_t *one = json_object_get(packages, names[p]);

        if (one && name_package(n, t, (enum package)p, one, e) < 0)
            return err_at(e, "/packages/%s", names[p]);
    }
    return 0;
}

/* The digests of the blobs that this agent does not have. */
static json_t *lacking(struct agent *a, const struct named_packages *n)
{
    json_t *list = json_array();

    for (int p = 0; p < N_PACKAGES; p++)
        for (int i = 0; n->is_new[p] && i < PACKAGE_FILES_MAX; i++) {
            const char *hex = n->notes[p].hex[i];

            if (hex[0] && blob_size(&a->jobs.blobs, hex) < 0)
                json_array_append_new(list, json_string(hex));
        }
    return list;
}

void api_packages(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    json_t *doc = t ? api_body(rq, rs) : NULL, *list;
    struct named_packages n = {0};
    struct err e;
    int rc;

    if (!doc)
        return;
    rc = name_packages(&n, t, doc, &e);
    json_decref(doc);
    if (rc < 0) {
        respond_error(rs, &e);
        return;
    }
    if (n.has_new && !may_take_packages(t, rs))
        return;
    list = lacking(a, &n);
    if (n.has_new && json_array_size(list) == 0 && take_packages(t, &n, &e) < 0) {
        json_decref(list);
        respond_error(rs, &e);
        return;
    }
    respond_json(rs, 200, json_pack("{s:o}", "lacks", list));
}

static void start_job(struct task *t, const struct start_document *d, struct api_response *rs)
{
    struct err e;

    if (d->attempt != t->job.spec.attempt)
        respond_problem(rs, CONFLICT, NULL, "attempt %d, but %s is reserved for attempt %d", d->attempt,
                        t->job.spec.id, t->job.spec.attempt);
    else if (t->job.digest[0] && strcmp(t->job.digest, d->digest) == 0)
        respond_job(rs, 202, t);
    else if (job_start(t, d->line, d->digest, &e) < 0)
        respond_error(rs, &e);
    else
        respond_job(rs, 202, t);
}

void api_start(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    struct start_document d;
    struct err e;
    json_t *doc = t ? api_body(rq, rs) : NULL;

    if (!doc)
        return;
    if (start_document_parse(&d, doc, &t->job.spec, &e) < 0) {
        respond_error(rs, &e);
    } else {
        start_job(t, &d, rs);
        start_document_clear(&d);
    }
    json_decref(doc);
}

struct cancel {
    char reason[MAX_CANCEL_TEXT + 1];
    bool has_failed; /* the job, by another node */
    double grace_s;
};

static const struct json_field cancel_fields[] = {
    {.key = "reason", .kind = JSON_FIELD_TEXT, JSON_AT(struct cancel, reason)},
    {.key = "has_failed", .kind = JSON_FIELD_BOOL, JSON_AT(struct cancel, has_failed)},
    {.key = "grace_s",
     .kind = JSON_FIELD_DOUBLE,
     JSON_AT(struct cancel, grace_s),
     .min = 0,
     .max = MAX_GRACE_S},
    {0},
};

/* An empty body leaves *c as it is. Returns false if the request was answered with an error. */
static bool take_cancel(struct cancel *c, const struct request *rq, struct api_response *rs)
{
    struct err e = {0};
    json_t *doc;

    if (rq->body_len == 0)
        return true;
    doc = api_body(rq, rs);
    if (!doc)
        return false;
    if (json_to_struct(c, doc, cancel_fields, "", &e) < 0)
        respond_error(rs, &e);
    json_decref(doc);
    return e.code == 0;
}

void api_cancel(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    struct cancel c = {.grace_s = STOP_GRACE_S};

    if (!t || !take_cancel(&c, rq, rs))
        return;
    if (job_state_is_terminal(t->job.state)) {
        respond_job(rs, 200, t);
        return;
    }
    job_stop(t, c.has_failed ? REASON_JOB_FAILED : REASON_USER_CANCELLED,
             c.reason[0] ? c.reason : "cancelled", c.grace_s);
    respond_job(rs, 202, t);
}

static bool job_has_ended(const struct agent *a, const struct api_response *rs)
{
    const struct task *t = task_attempt(&a->jobs, rs->id, rs->attempt);

    return !t || job_state_is_terminal(t->job.state) || clock_now() >= rs->deadline;
}

static void respond_waited(struct agent *a, struct api_response *rs)
{
    const struct task *t = task_attempt(&a->jobs, rs->id, rs->attempt);

    if (t)
        respond_job(rs, 200, t);
    else
        respond_problem(rs, GONE, NULL, "the job was removed meanwhile");
}

static const struct wait_kind wait_for_job = {.is_over = job_has_ended, .finish = respond_waited};

void api_wait(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    double timeout_s;

    if (!t || !api_timeout(&timeout_s, rq, rs))
        return;
    if (job_state_is_terminal(t->job.state) || rq->method == METHOD_HEAD) {
        respond_job(rs, 200, t);
        return;
    }
    rs->kind = RESPONSE_WAIT;
    rs->wait = &wait_for_job;
    rs->deadline = clock_now() + timeout_s;
    memcpy(rs->id, t->job.spec.id, sizeof rs->id);
    rs->attempt = t->job.spec.attempt;
}
