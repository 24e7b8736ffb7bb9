/* Handlers about the agent itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/base/log.h"
#include "agent/jobs/job_action.h"
#include "shared/base/choice.h"
#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "shared/base/json.h"
#include "shared/plugin/machine.h"

enum { N_RECENT = 10, DISK_LOW = 256 << 20 };

static json_t *time_json(double t)
{
    char text[CLOCK_TEXT];

    return json_string(clock_text(text, t));
}

static json_t *uptime_json(const struct agent *a)
{
    return json_real(round((clock_now() - a->since) * 1e3) / 1e3);
}

void api_healthz(struct agent *a, const struct request *rq, struct api_response *rs)
{
    (void)a;
    (void)rq;
    rs->type = "text/plain; charset=utf-8";
    rs->body = strdup("ok\n");
    rs->len = rs->body ? 3 : 0;
}

void api_readyz(struct agent *a, const struct request *rq, struct api_response *rs)
{
    json_t *reasons = json_array();
    bool ready;

    (void)rq;
    if (a->jobs.is_stopping)
        json_array_append_new(reasons, json_string("stopping"));
    if (a->jobs.is_draining)
        json_array_append_new(reasons, json_string("draining"));
    if (jobs_disk_free(&a->jobs) < DISK_LOW)
        json_array_append_new(reasons, json_string("disk_low"));
    if (task_count_unwritten(&a->jobs) > 0)
        json_array_append_new(reasons, json_string("journal_failed"));
    if (access(a->jobs.runner_exe, X_OK) < 0)
        json_array_append_new(reasons, json_string("no_job_runner"));
    ready = json_array_size(reasons) == 0;
    respond_json(rs, ready ? 200 : 503, json_pack("{s:b,s:o}", "ready", (int)ready, "reasons", reasons));
}

/* `required`: the level for codecs that are not built in. */
static json_t *isolation_json(const struct agent *a)
{
    const struct agent_isolation *is = &a->jobs.isolation;

    return json_pack("{s:s,s:i,s:b,s:b,s:b,s:s,s:s}", "level", isolation_name(is->level), "landlock_abi",
                     is->landlock_abi, "seccomp", (int)is->has_seccomp, "own_user", (int)is->has_own_user,
                     "own_tree", (int)is->has_own_tree, "lacks", is->lacks, "required",
                     isolation_name(is->required));
}

/* Returns the SHA-256 of the token to which `key` belongs (shared/base/crypto.h); NULL: there is none. */
static const uint8_t *find_provable(const struct agent *a, const char *key)
{
    const uint8_t *found = NULL;

    if (a->auth.token.is_long && proof_is_of(a->auth.token.digest, key))
        found = a->auth.token.digest;
    if (a->auth.cluster.is_long && proof_is_of(a->auth.cluster.digest, key))
        found = a->auth.cluster.digest;
    for (size_t i = 0; i < a->auth.members.n && !found; i++)
        if (members_find(&a->auth.members, a->auth.members.list[i].digest, clock_wall()) &&
            proof_is_of(a->auth.members.list[i].digest, key))
            found = a->auth.members.list[i].digest;
    return found;
}

void api_prove(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const char *nonce = query_get(rq, "nonce"), *key = query_get(rq, "key");
    char proof[BASE64_TEXT];
    const uint8_t *digest;

    if (!nonce || !is_base64url(nonce) || !key || strlen(key) != PROOF_KEY - 1) {
        respond_problem(rs, BAD_REQUEST, NULL,
                        "the query needs nonce=, 43 characters of base64url, and key=, %d", PROOF_KEY - 1);
        return;
    }
    digest = find_provable(a, key);
    if (!digest) {
        respond_problem(rs, NOT_FOUND, NULL, "no token of this agent has this key");
        return;
    }
    proof_make(proof, digest, nonce, a->auth.identity.pin);
    respond_json(rs, 200, json_pack("{s:s, s:s}", "pin", a->auth.identity.pin, "proof", proof));
}

static void add_trainers(json_t *o, const struct agent *a)
{
    const struct trainer_rules *r = &a->jobs.trainers;
    int n;
    const char *policy = choice_at(TRAINER_POLICY_CHOICES, (int)r->policy, &n);

    json_object_set_new(o, "trainers", json_stringn(policy, (size_t)n));
    json_object_set_new(o, "trainer_python", r->python[0] ? json_string(r->python) : json_null());
    json_object_set_new(o, "trainer_isolation", json_string(trainer_isolation_name(r->isolation)));
    trainer_about_add(o, &a->jobs.trainer_about);
}

static bool python_has_answered(const struct agent *a, const struct api_response *rs)
{
    (void)rs;
    return !inquiry_is_open(&a->jobs.trainer_about.inquiry);
}

static void respond_trainers(struct agent *a, struct api_response *rs)
{
    json_t *o = json_object();

    add_trainers(o, a);
    respond_json(rs, 200, o);
}

static const struct wait_kind wait_for_python = {.is_over = python_has_answered, .finish = respond_trainers};

void api_trainers(struct agent *a, const struct request *rq, struct api_response *rs)
{
    if (rq->method != METHOD_HEAD)
        trainer_about_ask(&a->jobs.trainer_about);
    if (rq->method == METHOD_HEAD || python_has_answered(a, rs)) {
        respond_trainers(a, rs);
        return;
    }
    rs->kind = RESPONSE_WAIT;
    rs->wait = &wait_for_python;
    rs->deadline = HUGE_VAL; /* the process has a time limit */
}

static bool runner_has_answered(const struct agent *a, const struct api_response *rs)
{
    (void)rs;
    return !inquiry_is_open(&a->jobs.runner_about.inquiry);
}

static void respond_runner(struct agent *a, struct api_response *rs)
{
    respond_json(rs, 200, runner_about_json(&a->jobs.runner_about));
}

static const struct wait_kind wait_for_runner = {.is_over = runner_has_answered, .finish = respond_runner};

void api_runner(struct agent *a, const struct request *rq, struct api_response *rs)
{
    (void)rq;
    runner_about_ask(&a->jobs.runner_about);
    if (runner_has_answered(a, rs)) {
        respond_runner(a, rs);
        return;
    }
    rs->kind = RESPONSE_WAIT;
    rs->wait = &wait_for_runner;
    rs->deadline = HUGE_VAL; /* the process has a time limit */
}

void api_agent(struct agent *a, const struct request *rq, struct api_response *rs)
{
    size_t n_active = task_count(&a->jobs, job_is_active), n_slots = (size_t)a->opt.slots;
    int n_codecs;
    const char *codecs = choice_at(CODEC_POLICY_CHOICES, (int)a->jobs.codecs.policy, &n_codecs);
    char data_host[64];
    json_t *o = json_pack("{s:s,s:s,s:i,s:s,s:i,s:o,s:o,s:f,s:f}", "id", a->id, "version", PSGD_VERSION,
                          "api", 1, "address", a->address, "pid", (int)getpid(), "started_at",
                          time_json(a->since_wall), "uptime_s", uptime_json(a), "monotonic_s", clock_now(),
                          "wall_s", clock_wall());
    struct machine m;

    machine_look(&m);
    address_host(data_host, sizeof data_host, (const struct sockaddr *)&a->jobs.data.at);
    json_object_set_new(o, "cpus", json_integer((json_int_t)m.cpus));
    json_object_set_new(o, "mem_bytes", json_integer((json_int_t)m.mem_bytes));
    json_object_set_new(o, "machine", machine_json(&m));
    json_object_set_new(o, "runner", runner_about_json(&a->jobs.runner_about));
    json_object_set_new(o, "data_host", json_string(data_host));
    json_object_set_new(o, "disk_free_bytes", json_integer((json_int_t)jobs_disk_free(&a->jobs)));
    json_object_set_new(o, "isolation", isolation_json(a));
    json_object_set_new(o, "slots", json_integer(a->opt.slots));
    json_object_set_new(o, "slots_free",
                        json_integer(n_active < n_slots ? (json_int_t)(n_slots - n_active) : 0));
    json_object_set_new(o, "draining", json_boolean(a->jobs.is_draining));
    json_object_set_new(o, "limits",
                        json_pack("{s:i,s:i,s:i,s:i,s:s#,s:I}", "queue", a->opt.queue, "keep", a->opt.keep,
                                  "lease_s", LEASE_S, "event_line_bytes", RUNNER_LINE_MAX, "codecs", codecs,
                                  n_codecs, "job_memory_bytes", (json_int_t)a->jobs.job_memory));
    add_trainers(o, a);
    if (rq->is_authorised)
        json_object_set_new(o, "you",
                            json_pack("{s:s,s:s}", "name", rq->who, "scope", scope_name(rq->scope)));
    respond_json(rs, 200, o);
}

/* Drains or resumes the agent, and answers with the numbers of jobs that run and that wait. */
static void set_draining(struct agent *a, bool is_draining, struct api_response *rs)
{
    struct err e;

    if (job_set_draining(&a->jobs, is_draining, &e) < 0)
        respond_error(rs, &e);
    else
        respond_json(rs, 200,
                     json_pack("{s:b,s:I,s:I}", "draining", (int)a->jobs.is_draining, "running",
                               (json_int_t)task_count(&a->jobs, job_is_active), "queued",
                               (json_int_t)task_count(&a->jobs, job_is_pending)));
}

void api_drain(struct agent *a, const struct request *rq, struct api_response *rs)
{
    (void)rq;
    set_draining(a, true, rs);
}

void api_resume(struct agent *a, const struct request *rq, struct api_response *rs)
{
    (void)rq;
    set_draining(a, false, rs);
}

static json_t *jobs_json(const struct agent *a, const struct request *rq, bool (*is_it)(const struct job *))
{
    json_t *list = json_array();

    for (const struct task *t = a->jobs.first; t; t = t->next)
        if (is_it(&t->job) && api_is_listed(rq, &t->job))
            json_array_append_new(list, task_json(t));
    return list;
}

static int ended_later_first(const void *x, const void *y)
{
    double a = (*(const struct task *const *)x)->job.finished_at;
    double b = (*(const struct task *const *)y)->job.finished_at;

    return a < b ? 1 : a > b ? -1 : 0;
}

static json_t *recent_json(const struct agent *a, const struct request *rq)
{
    const struct task **ended;
    json_t *list = json_array();
    size_t n = 0, n_all = 0;

    for (const struct task *t = a->jobs.first; t; t = t->next)
        n_all++;
    ended = calloc(n_all + 1, sizeof *ended);
    if (!ended) {
        json_decref(list);
        return NULL;
    }
    for (const struct task *t = a->jobs.first; t; t = t->next)
        if (job_state_is_terminal(t->job.state) && api_is_listed(rq, &t->job))
            ended[n++] = t;
    if (n > 1)
        qsort(ended, n, sizeof *ended, ended_later_first);
    for (size_t i = 0; i < n && i < N_RECENT; i++)
        json_array_append_new(list, task_json(ended[i]));
    free(ended);
    return list;
}

static const char *agent_state_of(const struct agent *a)
{
    bool is_busy = task_count(&a->jobs, job_is_active) > 0;

    if (a->jobs.is_draining)
        return is_busy ? "draining" : "drained";
    return is_busy ? "busy" : "idle";
}

/* What any user of the machine may know of it. */
static json_t *load_json(void)
{
    struct machine m;

    machine_look(&m);
    return json_pack("{s:o, s:o, s:o, s:o}", "cpus", json_number_or_null(m.cpus), "load",
                     json_real_or_null(m.load), "mem_bytes", json_number_or_null(m.mem_bytes),
                     "mem_available_bytes", json_number_or_null(m.mem_available_bytes));
}

void api_status(struct agent *a, const struct request *rq, struct api_response *rs)
{
    json_t *about = json_pack("{s:s,s:s,s:s,s:i,s:o,s:o,s:s}", "id", a->id, "version", PSGD_VERSION,
                              "address", a->address, "pid", (int)getpid(), "since", time_json(a->since_wall),
                              "uptime_s", uptime_json(a), "state", agent_state_of(a));
    json_t *o = json_pack("{s:o,s:o,s:o,s:o,s:I}", "agent", about, "running", jobs_json(a, rq, job_is_active),
                          "queued", jobs_json(a, rq, job_is_pending), "recent", recent_json(a, rq),
                          "disk_free_bytes", (json_int_t)jobs_disk_free(&a->jobs));

    json_object_set_new(o, "queues", api_queues_json(a, rq));
    json_object_set_new(about, "machine", load_json());
    json_object_set_new(about, "slots", json_integer(a->opt.slots));
    if (task_count_unwritten(&a->jobs) > 0)
        json_object_set_new(about, "journal_failed", json_true());
    json_object_set_new(about, "isolation", json_string(isolation_name(a->jobs.isolation.level)));
    if (a->is_insecure)
        json_object_set_new(about, "insecure", json_true());
    respond_page(rs, o);
}

void api_join(struct agent *a, const struct request *rq, struct api_response *rs)
{
    static const char *const keys[] = {"code", "name", NULL};
    char code[BASE64_TEXT], name[MEMBER_NAME + 1], token[BASE64_TEXT];
    json_t *doc;
    struct err e;
    int rc;

    if (!rq->has_tls) {
        respond_problem(rs, WRONG_STATE, NULL,
                        "a new token is sent over TLS only: without TLS it could be read in transit");
        return;
    }
    doc = api_body(rq, rs);
    if (!doc)
        return;
    rc = json_only_keys(doc, keys, "", &e);
    if (rc == 0)
        rc = json_get_text(code, sizeof code, doc, "code", "", &e);
    if (rc == 0)
        rc = json_get_text(name, sizeof name, doc, "name", "", &e);
    if (rc == 0 && !is_member_name(name))
        rc = err_set(&e, ERR_CONFIG, "/name: empty, with control characters, or one that begins with CN=");
    if (rc == 0)
        rc = members_join(&a->auth.members, code, name, token, &e);
    json_decref(doc);
    explicit_bzero(code, sizeof code);
    if (rc < 0) {
        respond_error(rs, &e);
        return;
    }
    log_line(LOG_LEVEL_INFO, "agent", NULL, "joined: %s", name);
    respond_json(rs, 201, json_pack("{s:s, s:s, s:s}", "token", token, "id", a->id, "version", PSGD_VERSION));
    explicit_bzero(token, sizeof token);
}
