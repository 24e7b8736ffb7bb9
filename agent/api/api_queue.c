/* Handlers of the queues: of jobs that wait outside of the agent, watched by their users' queue watchers
 * (agent/jobs/turns.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"

enum { JOBS_LISTED = 64 /* of a watcher; more are a number */ };

/* The body of POST /v1/queue. */
struct queue_request {
    char queue[QUEUE_ID + 1], submitter[129];
    int n_waiting;
    char first[JOB_ID_MAX + 1];
    double first_since;
    bool first_is_possible;
    uint64_t seen; /* what the last answer said: */
    bool is_turn;
    int n_free;
    json_t *jobs; /* owned; NULL: it has none */
};

/* One of its jobs. */
struct announced_job {
    char id[JOB_ID_MAX + 1], name[65], codec[65], submitted_at[33];
    int n_nodes;
};

static const struct json_field job_fields[] = {
    {.key = "id", .kind = JSON_FIELD_TEXT, JSON_AT(struct announced_job, id), .required = true},
    {.key = "name", .kind = JSON_FIELD_TEXT, JSON_AT(struct announced_job, name), .required = true},
    {.key = "codec", .kind = JSON_FIELD_TEXT, JSON_AT(struct announced_job, codec), .required = true},
    {.key = "nodes",
     .kind = JSON_FIELD_INT,
     JSON_AT(struct announced_job, n_nodes),
     .required = true,
     .min = 0,
     .max = 1e6},
    {.key = "submitted_at",
     .kind = JSON_FIELD_TEXT,
     JSON_AT(struct announced_job, submitted_at),
     .required = true},
    {0},
};

static const struct json_field request_fields[] = {
    {.key = "queue", .kind = JSON_FIELD_TEXT, JSON_AT(struct queue_request, queue), .required = true},
    {.key = "submitter", .kind = JSON_FIELD_TEXT, JSON_AT(struct queue_request, submitter)},
    {.key = "waiting",
     .kind = JSON_FIELD_INT,
     JSON_AT(struct queue_request, n_waiting),
     .required = true,
     .min = 0,
     .max = 1e6},
    {.key = "first", .kind = JSON_FIELD_TEXT, JSON_AT(struct queue_request, first)},
    {.key = "first_since",
     .kind = JSON_FIELD_DOUBLE,
     JSON_AT(struct queue_request, first_since),
     .min = 0,
     .max = 1e12},
    {.key = "first_is_possible", .kind = JSON_FIELD_BOOL, JSON_AT(struct queue_request, first_is_possible)},
    {.key = "seen", .kind = JSON_FIELD_U64, JSON_AT(struct queue_request, seen)},
    {.key = "is_turn", .kind = JSON_FIELD_BOOL, JSON_AT(struct queue_request, is_turn)},
    {.key = "free", .kind = JSON_FIELD_INT, JSON_AT(struct queue_request, n_free), .min = 0, .max = 1e6},
    {.key = "jobs", .kind = JSON_FIELD_ANY},
    {0},
};

/* What a waiting request has been told, and waits for to change. */
struct queue_wait {
    struct agent *agent;
    char queue[QUEUE_ID + 1], owner[OWNER_MAX + 1];
    uint64_t seen;
    bool is_turn;
    int n_free;
};

static int count_free(const struct agent *a)
{
    int n = a->opt.slots - (int)task_count(&a->jobs, job_is_active);

    return n > 0 && !a->jobs.is_draining && !a->jobs.is_stopping ? n : 0;
}

/* Whether the waiter's user may take a slot now; a job in the agent's own queue that may take it goes
 * first. */
static bool is_turn_of(const struct agent *a, const struct turn_waiter *w, char *why, size_t size)
{
    if (count_free(a) == 0) {
        snprintf(why, size, "%s", a->jobs.is_draining ? "it was drained" : "");
        return false;
    }
    return job_may_take_slot(
        &a->jobs, &(struct turn_claim){.user = w->user, .owner = w->owner, .sees_all = w->sees_all}, why,
        size);
}

static void respond_turn(const struct agent *a, struct turn_waiter *w, struct api_response *rs)
{
    char why[256];
    bool is_turn = is_turn_of(a, w, why, sizeof why);

    respond_json(rs, 200,
                 json_pack("{s:I, s:b, s:i, s:i, s:b, s:f, s:s}", "seen", (json_int_t)a->jobs.turns.n_freed,
                           "is_turn", (int)is_turn, "free", count_free(a), "slots", a->opt.slots, "draining",
                           (int)a->jobs.is_draining, "aging_s", a->opt.aging_s, "why", why));
}

static bool queue_has_changed(const struct agent *a, const struct api_response *rs)
{
    const struct queue_wait *q = rs->awaited;
    struct turns *t = &q->agent->jobs.turns;
    const struct turn_waiter *w = turns_find(t, q->queue, q->owner);
    char why[256];

    return !w || clock_now() >= rs->deadline || t->n_freed != q->seen || count_free(a) != q->n_free ||
           is_turn_of(a, w, why, sizeof why) != q->is_turn;
}

static void respond_changed(struct agent *a, struct api_response *rs)
{
    const struct queue_wait *q = rs->awaited;
    struct turn_waiter *w = turns_find(&a->jobs.turns, q->queue, q->owner);

    if (w)
        respond_turn(a, w, rs);
    else
        respond_problem(rs, TOO_MANY_REQUESTS, NULL, "newer queue watchers of the same token use %s",
                        a->address);
}

static void drop_wait(void *awaited)
{
    struct queue_wait *q = awaited;
    struct turn_waiter *w = turns_find(&q->agent->jobs.turns, q->queue, q->owner);

    if (w) {
        w->n_open -= w->n_open > 0;
        w->until = clock_now() + WAITER_S;
    }
    free(q);
}

static const struct wait_kind wait_for_turn = {
    .is_over = queue_has_changed, .finish = respond_changed, .drop = drop_wait};

static void take_request(struct agent *a, struct turn_waiter *w, const struct queue_request *q,
                         const struct request *rq)
{
    struct turns *t = &a->jobs.turns;
    char user[TURN_USER];

    turns_user(user, rq->who, q->submitter);
    memcpy(w->user, user, sizeof w->user);
    turns_set_first(w, q->first, q->first_since, clock_now(), clock_wall());
    w->first_is_possible = q->first_is_possible;
    w->n_waiting = q->n_waiting;
    w->sees_all = api_sees_all(rq);
    if (q->is_turn && q->seen == t->n_freed && w->passed != t->n_freed) {
        w->passed = t->n_freed; /* it was its turn, and it has started nothing */
        t->n_changes++;
    }
    if (!json_equal(w->jobs, q->jobs)) {
        json_decref(w->jobs);
        w->jobs = json_incref(q->jobs);
        t->n_changes++;
    }
    w->until = clock_now() + WAITER_S;
    a->jobs.n_changes++; /* requests that wait are looked at again */
}

static void wait_for_change(struct agent *a, const struct queue_request *q, const struct request *rq,
                            double timeout_s, struct api_response *rs)
{
    struct queue_wait *wait = calloc(1, sizeof *wait);
    struct turn_waiter *w = turns_find(&a->jobs.turns, q->queue, rq->who);

    if (!wait || !w) {
        free(wait);
        respond_problem(rs, TOO_MANY_REQUESTS, NULL, "no memory for a request that waits");
        return;
    }
    *wait = (struct queue_wait){.agent = a, .seen = q->seen, .is_turn = q->is_turn, .n_free = q->n_free};
    memcpy(wait->queue, q->queue, sizeof wait->queue);
    snprintf(wait->owner, sizeof wait->owner, "%s", rq->who);
    w->n_open++;
    rs->kind = RESPONSE_WAIT;
    rs->wait = &wait_for_turn;
    rs->awaited = wait;
    rs->deadline = clock_now() + timeout_s;
}

/* Checks the list of jobs, which the page and other users' commands show. */
static int take_jobs(struct queue_request *q, const json_t *jobs, struct err *e)
{
    const json_t *one;
    size_t i;

    if (!jobs)
        return 0;
    if (!json_is_array(jobs) || json_array_size(jobs) > JOBS_LISTED)
        return err_set(e, ERR_CONFIG, "/jobs: not a list of at most %d jobs", JOBS_LISTED);
    q->jobs = json_array();
    json_array_foreach(jobs, i, one)
    {
        struct announced_job j = {0};
        char at[32];

        snprintf(at, sizeof at, "/jobs/%zu", i);
        if (json_to_struct(&j, one, job_fields, at, e) < 0)
            return e->code;
        if (json_array_append_new(q->jobs, json_from_struct(&j, job_fields)) < 0)
            return err_set(e, ERR_NOMEM, "no memory for the list of jobs");
    }
    return 0;
}

void api_ask_turn(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct queue_request q = {.seen = UINT64_MAX};
    struct turn_waiter *w;
    double timeout_s;
    struct err e;
    json_t *doc;

    if (!api_timeout(&timeout_s, rq, rs) || !(doc = api_body(rq, rs)))
        return;
    turns_expire(&a->jobs.turns, clock_now());
    turns_keep(&a->jobs.turns, count_free(a), clock_now());
    if (json_to_struct(&q, doc, request_fields, "", &e) < 0 ||
        take_jobs(&q, json_object_get(doc, "jobs"), &e) < 0) {
        respond_error(rs, &e);
    } else if (!(w = turns_waiter(&a->jobs.turns, q.queue, rq->who))) {
        respond_problem(rs, TOO_MANY_REQUESTS, NULL, "%d queue watchers use %s already", TURNS_WAITERS,
                        a->address);
    } else {
        take_request(a, w, &q, rq);
        if (q.n_waiting > 0)
            wait_for_change(a, &q, rq, timeout_s, rs);
        else
            respond_turn(a, w, rs);
        if (q.n_waiting == 0)
            turns_forget(&a->jobs.turns, w);
    }
    json_decref(q.jobs);
    json_decref(doc);
}

static json_t *waiter_json(const struct agent *a, const struct request *rq, const struct turn_waiter *w)
{
    bool is_shown = api_sees_all(rq) || strcmp(w->owner, rq->who) == 0;
    json_t *o = json_pack("{s:o, s:i, s:f}", "user", json_text(w->user, SIZE_MAX), "waiting", w->n_waiting,
                          "used_s", jobs_used_by(&a->jobs, w->user, clock_now()));

    if (is_shown)
        json_object_set_new(o, "jobs", w->jobs ? json_incref(w->jobs) : json_array());
    return o;
}

json_t *api_queues_json(struct agent *a, const struct request *rq)
{
    json_t *list = json_array();

    turns_expire(&a->jobs.turns, clock_now());
    for (size_t i = 0; i < a->jobs.turns.n_waiters; i++)
        json_array_append_new(list, waiter_json(a, rq, &a->jobs.turns.waiters[i]));
    return list;
}

void api_queue(struct agent *a, const struct request *rq, struct api_response *rs)
{
    json_t *list = api_queues_json(a, rq);

    respond_json(rs, 200,
                 json_pack("{s:i, s:i, s:o}", "slots", a->opt.slots, "free", count_free(a), "queues", list));
}
