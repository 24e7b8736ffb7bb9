#include "agent/folder/meeting.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/folder/meeting_choice.h"
#include "shared/base/address.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/launch_rank.h"
#include "shared/job/settings.h"

enum { DOCUMENT_MAX = 16 << 20 };

static void random_id(char out[MEETING_ID])
{
    uint8_t raw[(MEETING_ID - 1) / 2];

    random_bytes(raw, sizeof raw);
    hex_encode(out, raw, sizeof raw);
}

static int name_file(char path[PATH_MAX], const struct meeting *m, const char *name, int rank, struct err *e)
{
    char file[48];

    if (rank >= 0)
        snprintf(file, sizeof file, "%s-%d.json", name, rank);
    else
        snprintf(file, sizeof file, "%s.json", name);
    return file_join(path, PATH_MAX, m->dir, file, e);
}

/* Not synced: no other process is to read it after a crash of this machine. */
static int put(const struct meeting *m, const char *name, int rank, json_t *take_doc, struct err *e)
{
    char *text = take_doc ? json_line(take_doc) : NULL;
    struct iovec part = {.iov_base = text, .iov_len = text ? strlen(text) : 0};
    char path[PATH_MAX];
    int rc = text ? name_file(path, m, name, rank, e) : err_set(e, ERR_NOMEM, "no memory for a document");

    if (rc == 0)
        rc = file_write_parts(path, &part, 1, 0600, false, e);
    free(text);
    json_decref(take_doc);
    return rc;
}

static void look_again(const struct meeting *m)
{
    DIR *d = opendir(m->dir);

    if (d)
        closedir(d);
}

/* NULL: there is none, or none that can be read yet. */
static json_t *get(const struct meeting *m, const char *name, int rank)
{
    char path[PATH_MAX];
    struct err ignored;
    json_t *o;

    if (name_file(path, m, name, rank, &ignored) < 0 || json_read(&o, path, DOCUMENT_MAX, &ignored) < 0)
        return NULL;
    return o;
}

/* The same of this launch only. */
static json_t *get_mine(const struct meeting *m, const char *name, int rank)
{
    json_t *o = get(m, name, rank);

    if (o && m->launch[0] && strcmp(json_text_at(o, "launch"), m->launch) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static void begin_step(struct meeting *m)
{
    m->waits_since = m->told_at = clock_now();
}

static json_t *points_json(const struct meeting_member *mine)
{
    json_t *list = json_array();

    for (size_t i = 0; i < mine->n_points; i++) {
        const struct meeting_point *p = &mine->points[i];

        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I}", "job", p->job, "epoch", (json_int_t)p->epoch,
                                        "step", (json_int_t)p->step, "round", (json_int_t)p->round));
    }
    return list;
}

static int take_point(struct meeting_point *p, const json_t *o, const char *at, struct err *e)
{
    if (json_get_text(p->job, sizeof p->job, o, "job", at, e) < 0)
        return e->code;
    p->epoch = json_integer_value(json_object_get(o, "epoch"));
    p->step = json_integer_value(json_object_get(o, "step"));
    p->round = json_integer_value(json_object_get(o, "round"));
    return 0;
}

static void add_failure(json_t *o, const struct err *why)
{
    json_object_set_new(o, "failed", json_text(why->text, 900));
    json_object_set_new(o, "cancelled", json_boolean(why->code == ERR_CANCELLED));
}

static int say_hello(struct meeting *m, struct err *e)
{
    struct meeting_member *mine = &m->members[m->rank];
    json_t *o;

    random_id(mine->nonce);
    o = json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:i, s:s, s:o}", "launch", m->launch, "nonce", mine->nonce,
                  "machine", json_text(mine->machine, SIZE_MAX), "boot", mine->boot, "host", mine->given,
                  "address", mine->address, "attempt", mine->attempt, "state", job_state_name(mine->state),
                  "checkpoints", points_json(mine));
    if (o && m->failure.code < 0)
        add_failure(o, &m->failure);
    return put(m, "hello", m->rank, o, e);
}

/* A cancellation of an earlier launch does not hold for this one. */
static int make_offer(struct meeting *m, struct err *e)
{
    char path[PATH_MAX];

    if (name_file(path, m, "cancel", -1, e) < 0)
        return e->code;
    unlink(path);
    random_id(m->launch);
    random_id(m->members[0].nonce);
    m->members[0].is_here = true;
    return put(m, "offer", -1,
               json_pack("{s:s, s:o, s:o}", "launch", m->launch, "name",
                         json_text(m->members[0].launch, SIZE_MAX), "machine",
                         json_text(m->members[0].machine, SIZE_MAX)),
               e);
}

static bool read_offer(struct meeting_offer *out, const struct meeting *m)
{
    json_t *o = get(m, "offer", -1);
    struct err ignored;
    bool is_whole = o && json_get_text(out->launch, sizeof out->launch, o, "launch", "", &ignored) == 0 &&
                    json_get_text(out->name, sizeof out->name, o, "name", "", &ignored) == 0 &&
                    json_get_text(out->machine, sizeof out->machine, o, "machine", "", &ignored) == 0;

    json_decref(o);
    return is_whole && out->launch[0];
}

bool meeting_read_offer(struct meeting_offer *out, const char *job_folder)
{
    struct meeting m;
    struct err ignored;

    if (file_join(m.dir, sizeof m.dir, job_folder, JOB_FOLDER_MEET, &ignored) < 0)
        return false;
    look_again(&m);
    return read_offer(out, &m);
}

int meeting_open(struct meeting *m, const char *dir, int rank, int n, const struct meeting_member *mine,
                 struct err *e)
{
    *m = (struct meeting){.rank = rank, .n = n, .members = calloc((size_t)n, sizeof *m->members)};
    if (!m->members)
        return err_set(e, ERR_NOMEM, "no memory for %d processes", n);
    if (file_join(m->dir, sizeof m->dir, dir, JOB_FOLDER_MEET, e) < 0 || file_mkdirs(m->dir, 0700, e) < 0)
        return e->code;
    m->members[rank] = *mine;
    begin_step(m);
    return rank == 0 ? make_offer(m, e) : 0;
}

void meeting_close(struct meeting *m)
{
    free(m->members);
    m->members = NULL;
}

/* Makes the list NULL if there is no memory: in a shorter one a process would be taken for another. */
static void append_of_rank(json_t **list, json_t *take_item)
{
    if (json_array_append_new(*list, take_item) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

/* Of a process that has not come yet the nonce is "", which is that of none. */
static json_t *members_json(const struct meeting *m)
{
    json_t *members = json_array();

    for (int r = 0; r < m->n; r++)
        append_of_rank(&members,
                       json_pack("{s:s, s:o, s:s, s:o}", "nonce", m->members[r].nonce, "machine",
                                 json_text(m->members[r].machine, SIZE_MAX), "boot", m->members[r].boot,
                                 "host", json_text(m->members[r].host, SIZE_MAX)));
    return members;
}

static int put_plan(const struct meeting *m, struct err *e)
{
    const struct meeting_point *p = &m->resume;
    json_t *resume = m->resumes
                         ? json_pack("{s:s, s:I, s:I, s:I}", "job", p->job, "epoch", (json_int_t)p->epoch,
                                     "step", (json_int_t)p->step, "round", (json_int_t)p->round)
                         : json_null();

    return put(m, "plan", -1,
               json_pack("{s:s, s:i, s:b, s:o, s:o}", "launch", m->launch, "attempt", m->attempt,
                         "one_machine", (int)m->is_on_one_machine, "members", members_json(m), "resume",
                         resume),
               e);
}

/* What is in a file of this job is somebody's mistake, or damage, if it is refused. */
static int refuse_file(const struct meeting *m, const char *name, int rank, struct err *e)
{
    char path[PATH_MAX];
    struct err ignored;

    if (name_file(path, m, name, rank, &ignored) < 0)
        return e->code;
    err_at(e, "%s", path);
    return err_hint(e, "Start all processes of the job again.");
}

static int take_points(struct meeting_member *k, const json_t *list, struct err *e)
{
    const json_t *point;
    size_t i;

    k->n_points = 0;
    json_array_foreach(list, i, point)
    {
        if (k->n_points < MEETING_CHECKPOINTS &&
            take_point(&k->points[k->n_points++], point, "/checkpoints", e) < 0)
            return e->code;
    }
    return 0;
}

static int take_hello(struct meeting_member *k, const json_t *o, struct err *e)
{
    if (json_get_text(k->nonce, sizeof k->nonce, o, "nonce", "", e) < 0 ||
        json_get_text(k->machine, sizeof k->machine, o, "machine", "", e) < 0 ||
        json_get_text(k->boot, sizeof k->boot, o, "boot", "", e) < 0 ||
        json_get_text(k->given, sizeof k->given, o, "host", "", e) < 0 ||
        json_get_text(k->address, sizeof k->address, o, "address", "", e) < 0 ||
        json_get_int(&k->attempt, o, "attempt", 0, JOB_FOLDER_ATTEMPTS_MAX - 1, "", e) < 0 ||
        take_points(k, json_object_get(o, "checkpoints"), e) < 0)
        return e->code;
    if (!job_state_parse(&k->state, json_text_at(o, "state")))
        return err_set(e, ERR_CONFIG, "/state: \"%.40s\" is not a state", json_text_at(o, "state"));
    k->is_here = true;
    return 0;
}

/* What process `r` says of its failure in a file; 0: nothing. */
static int heard_failure(const struct meeting *m, int r, const json_t *o, struct err *e)
{
    const char *failed = json_text_at(o, "failed");
    int code = json_is_true(json_object_get(o, "cancelled")) ? ERR_CANCELLED : ERR_LOST;

    return failed[0] ? err_set(e, code, "node(%d): %.900s", m->members[r].node, failed) : 0;
}

/* Reads the hello of process `r`, if there is one. */
static int read_hello(struct meeting *m, int r, struct err *e)
{
    json_t *o = get_mine(m, "hello", r);
    int rc = o ? take_hello(&m->members[r], o, e) : 0;

    rc = rc < 0 ? refuse_file(m, "hello", r, e) : heard_failure(m, r, o, e);
    json_decref(o);
    if (rc < 0)
        meeting_give_up(m, e);
    return rc;
}

/* A cluster may give a name its address some time after the process has started, as Kubernetes does; the
 * runner would end at once. */
static bool has_address(struct meeting_member *k)
{
    struct addresses found;

    if (!k->has_address)
        k->has_address = !k->given[0] || address_find(&found, k->given, 0) == 0;
    return k->has_address;
}

static int lead_gathering(struct meeting *m, struct err *e)
{
    bool is_whole = has_address(&m->members[0]);

    /* Also of those that are here: one may have failed since, or was started again, with another nonce. */
    for (int r = 1; r < m->n; r++) {
        if (read_hello(m, r, e) < 0)
            return e->code;
        is_whole &= m->members[r].is_here && has_address(&m->members[r]);
    }
    if (!is_whole)
        return 0;
    if (meeting_has_succeeded(m)) {
        err_set(e, ERR_CONFLICT, "the job has succeeded already, in attempt %d", m->members[0].attempt);
        err_hint(e, "job_submit collect DIR has its results; job_submit pack writes another job.");
        meeting_give_up(m, e);
        return e->code;
    }
    meeting_choose_hosts(m);
    meeting_choose_attempt(m);
    meeting_choose_resume(m);
    if (put_plan(m, e) < 0)
        return e->code;
    begin_step(m);
    return 1;
}

static int take_plan(struct meeting *m, const json_t *o, struct err *e)
{
    const json_t *members = json_object_get(o, "members"), *resume = json_object_get(o, "resume");

    if (json_get_int(&m->attempt, o, "attempt", 1, JOB_FOLDER_ATTEMPTS_MAX, "", e) < 0)
        return e->code;
    m->is_on_one_machine = json_is_true(json_object_get(o, "one_machine"));
    for (int r = 0; r < m->n; r++) {
        const json_t *one = json_array_get(members, (size_t)r);
        struct meeting_member *k = &m->members[r];

        if (json_get_text(k->machine, sizeof k->machine, one, "machine", "/members", e) < 0 ||
            json_get_text(k->boot, sizeof k->boot, one, "boot", "/members", e) < 0 ||
            json_get_text(k->host, sizeof k->host, one, "host", "/members", e) < 0)
            return e->code;
    }
    m->resumes = json_is_object(resume);
    return m->resumes ? take_point(&m->resume, resume, "/resume", e) : 0;
}

static int ended_by_leader(struct meeting *m, const json_t *o, const char *key, int code, struct err *e)
{
    m->has_ended = true;
    return err_set(e, code, "%.900s", json_text_at(o, key));
}

/* Whether the plan is an answer to this process's hello. */
static bool is_for_me(const struct meeting *m, const json_t *plan)
{
    const json_t *me = json_array_get(json_object_get(plan, "members"), (size_t)m->rank);

    return m->members[m->rank].nonce[0] && strcmp(json_text_at(me, "nonce"), m->members[m->rank].nonce) == 0;
}

static int follow_gathering(struct meeting *m, struct err *e)
{
    struct meeting_offer offer;
    json_t *plan;
    int rc = 0;

    if (read_offer(&offer, m) && strcmp(offer.launch, m->launch) != 0 &&
        !launch_is_other(offer.name, m->members[m->rank].launch)) {
        memcpy(m->launch, offer.launch, sizeof m->launch);
        rc = say_hello(m, e);
    }
    plan = rc == 0 ? get_mine(m, "plan", -1) : NULL;
    if (plan && is_for_me(m, plan) && json_object_get(plan, "refused")) {
        rc = ended_by_leader(m, plan, "refused",
                             json_is_true(json_object_get(plan, "has_failed")) ? ERR_LOST : ERR_REFUSED, e);
    } else if (plan && is_for_me(m, plan)) {
        rc = take_plan(m, plan, e) < 0 ? refuse_file(m, "plan", -1, e) : 1;
        begin_step(m);
    }
    json_decref(plan);
    return rc;
}

int meeting_gather(struct meeting *m, struct err *e)
{
    look_again(m);
    return m->rank == 0 ? lead_gathering(m, e) : follow_gathering(m, e);
}

int meeting_say_ready(struct meeting *m, int port, const char *data_key, struct err *e)
{
    struct meeting_member *mine = &m->members[m->rank];

    mine->port = port;
    snprintf(mine->data_key, sizeof mine->data_key, "%s", data_key);
    begin_step(m);
    return put(m, "ready", m->rank,
               json_pack("{s:s, s:i, s:s}", "launch", m->launch, "port", port, "data_key", data_key), e);
}

static int take_key(struct meeting_member *k, const json_t *key, const char *at, struct err *e)
{
    const char *text = json_string_value(key);

    if (!text || !is_sha256_hex(text))
        return err_set(e, ERR_CONFIG, "%s: not %d hex digits", at, SHA256_HEX - 1);
    memcpy(k->data_key, text, sizeof k->data_key);
    return 0;
}

static int take_ready(struct meeting_member *k, const json_t *o, struct err *e)
{
    int port;

    if (json_get_int(&port, o, "port", 1, UINT16_MAX, "", e) < 0 ||
        take_key(k, json_object_get(o, "data_key"), "/data_key", e) < 0)
        return e->code;
    k->port = port;
    return 0;
}

/* A process that was started again after all had met finds no plan for it. */
static bool has_new_hello(struct meeting_member *k, const json_t *hello)
{
    const char *nonce = json_text_at(hello, "nonce");

    if (!nonce[0] || strcmp(nonce, k->nonce) == 0)
        return false;
    snprintf(k->nonce, sizeof k->nonce, "%s", nonce); /* the refusal is for it as well */
    return true;
}

/* Reads whether process `r` is ready. ERR_LOST: it has failed. */
static int read_ready(struct meeting *m, int r, struct err *e)
{
    json_t *o = get_mine(m, "ready", r), *hello = !o && r > 0 ? get_mine(m, "hello", r) : NULL;
    int rc = heard_failure(m, r, o, e);

    if (has_new_hello(&m->members[r], hello) && (rc = heard_failure(m, r, hello, e)) == 0)
        rc = err_set(e, ERR_LOST, "process %d (node %d) was started again after all had met", r,
                     m->members[r].node);
    else if (rc == 0 && o && take_ready(&m->members[r], o, e) < 0)
        rc = refuse_file(m, "ready", r, e);
    json_decref(hello);
    json_decref(o);
    if (rc < 0)
        meeting_give_up(m, e);
    return rc;
}

static int lead_start(struct meeting *m, struct err *e)
{
    json_t *ports, *keys;
    bool is_whole = true;

    for (int r = 0; r < m->n; r++) {
        if (m->members[r].port == 0 && read_ready(m, r, e) < 0)
            return e->code;
        is_whole &= m->members[r].port > 0;
    }
    if (!is_whole)
        return 0;
    ports = json_array();
    keys = json_array();
    for (int r = 0; r < m->n; r++) {
        append_of_rank(&ports, json_integer(m->members[r].port));
        append_of_rank(&keys, json_string(m->members[r].data_key));
    }
    if (put(m, "start", -1,
            json_pack("{s:s, s:o, s:o}", "launch", m->launch, "ports", ports, "data_keys", keys), e) < 0)
        return e->code;
    return 1;
}

static int take_start(struct meeting *m, const json_t *start, struct err *e)
{
    const json_t *ports = json_object_get(start, "ports"), *keys = json_object_get(start, "data_keys");

    for (int r = 0; r < m->n; r++) {
        json_int_t port = json_integer_value(json_array_get(ports, (size_t)r));
        char at[32];

        if (port < 1 || port > UINT16_MAX)
            return err_set(e, ERR_CONFIG, "/ports/%d: not a port", r);
        snprintf(at, sizeof at, "/data_keys/%d", r);
        if (take_key(&m->members[r], json_array_get(keys, (size_t)r), at, e) < 0)
            return e->code;
        m->members[r].port = (int)port;
    }
    return 1;
}

static int follow_start(struct meeting *m, struct err *e)
{
    json_t *o = get_mine(m, "start", -1);
    int rc = 0;

    if (o && json_object_get(o, "failed")) {
        rc = ended_by_leader(m, o, "failed", ERR_LOST, e);
    } else if (o) {
        rc = take_start(m, o, e);
        if (rc < 0)
            refuse_file(m, "start", -1, e);
    }
    json_decref(o);
    return rc;
}

int meeting_start(struct meeting *m, struct err *e)
{
    look_again(m);
    return m->rank == 0 ? lead_start(m, e) : follow_start(m, e);
}

void meeting_give_up(struct meeting *m, const struct err *why)
{
    struct err ignored;

    if (m->rank != 0)
        return;
    put(m, "plan", -1,
        json_pack("{s:s, s:o, s:b, s:o}", "launch", m->launch, "refused", json_text(why->text, 900),
                  "has_failed", why->code != ERR_CONFLICT, "members", members_json(m)),
        &ignored);
    put(m, "start", -1, json_pack("{s:s, s:o}", "launch", m->launch, "failed", json_text(why->text, 900)),
        &ignored);
}

/* The members that came before are told once, each further one when it comes. */
static bool lead_failing(struct meeting *m, bool is_new)
{
    bool is_whole = true;

    for (int r = 1; r < m->n; r++) {
        struct meeting_member *k = &m->members[r];
        bool was_here = k->is_here;
        struct err ignored;

        if (!was_here)
            read_hello(m, r, &ignored);
        is_new |= k->is_here && !was_here;
        is_whole &= k->is_here;
    }
    if (is_new)
        meeting_give_up(m, &m->failure);
    return is_whole;
}

bool meeting_tell_failure(struct meeting *m, const struct err *why)
{
    bool is_new = m->failure.code == 0;
    struct err e;

    if (m->has_ended)
        return true;
    m->failure = *why;
    look_again(m);
    if (m->rank == 0)
        return lead_failing(m, is_new);
    if (m->attempt > 0) {
        json_t *o = json_pack("{s:s}", "launch", m->launch);

        if (o)
            add_failure(o, why);
        put(m, "ready", m->rank, o, &e);
        return true;
    }
    if (is_new && m->launch[0])
        say_hello(m, &e);
    return follow_gathering(m, &e) != 0;
}

void meeting_say_ended(struct meeting *m, enum job_state state, const char *reason, const char *message)
{
    struct err ignored;

    put(m, "ended", m->rank,
        json_pack("{s:s, s:s, s:s, s:o}", "launch", m->launch, "state", job_state_name(state), "reason",
                  reason, "message", json_text(message, 1000)),
        &ignored);
}

void meeting_read_ends(struct meeting *m)
{
    look_again(m);
    for (int r = 1; r < m->n; r++) {
        struct meeting_member *k = &m->members[r];
        json_t *o = k->is_ended ? NULL : get_mine(m, "ended", r);

        if (!o)
            continue;
        k->is_ended = true;
        if (!job_state_parse(&k->end, json_text_at(o, "state")) || !job_state_is_terminal(k->end))
            k->end = JOB_FAILED;
        snprintf(k->reason, sizeof k->reason, "%s", json_text_at(o, "reason"));
        snprintf(k->message, sizeof k->message, "%s", json_text_at(o, "message"));
        json_decref(o);
    }
}

void meeting_say_stop(struct meeting *m, const char *reason, bool has_failed)
{
    struct err ignored;

    put(m, "stop", -1,
        json_pack("{s:s, s:o, s:b}", "launch", m->launch, "reason", json_text(reason, 199), "has_failed",
                  (int)has_failed),
        &ignored);
}

bool meeting_is_stopped(struct meeting *m, char reason[200], bool *has_failed)
{
    json_t *o;

    look_again(m);
    o = get(m, "cancel", -1);
    if (!o && m->rank != 0)
        o = get_mine(m, "stop", -1);
    if (!o)
        return false;
    snprintf(reason, 200, "%s", json_text_at(o, "reason"));
    *has_failed = json_is_true(json_object_get(o, "has_failed"));
    json_decref(o);
    return true;
}

bool meeting_takes_checkpoint(struct meeting *m)
{
    char path[PATH_MAX];
    struct err ignored;

    return m->rank == 0 && name_file(path, m, "checkpoint", -1, &ignored) == 0 && unlink(path) == 0;
}

void meeting_missing(const struct meeting *m, char *out, size_t size)
{
    int n = 0;

    out[0] = '\0';
    if (m->rank != 0) {
        snprintf(out, size, "process 0 (node %d)", m->members[0].node);
        return;
    }
    for (int r = 0; r < m->n; r++) {
        const struct meeting_member *k = &m->members[r];
        size_t at = strlen(out);

        if (k->port > 0 || (m->attempt == 0 && k->is_here && k->has_address))
            continue;
        if (n++ >= 8)
            continue;
        if (m->attempt == 0 && k->is_here)
            snprintf(out + at, size - at, "%sthe address of %.100s, process %d (node %d)", at ? ", " : "",
                     k->given, r, k->node);
        else
            snprintf(out + at, size - at, "%sprocess %d (node %d)", at ? ", " : "", r, k->node);
    }
    if (n > 8)
        snprintf(out + strlen(out), size - strlen(out), " and %d more", n - 8);
}

void meeting_key(uint8_t out[SHA256_BYTES], const struct meeting *m, const uint8_t secret[SHA256_BYTES])
{
    hmac_sha256(out, secret, SHA256_BYTES, m->launch, strlen(m->launch));
}
