#include "submit/queue/queue_agents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"

enum {
    WAIT_S = 5,           /* after which an agent answers in any case, and is asked again */
    N_FREE_MAX = 1000000, /* that a request may say */
};

static const double SEEN_MAX = 9007199254740992; /* 2^53, as JSON_FIELD_U64 */

/* From a failed request to the next one; the least time between two reports of the jobs; most time to take
 * leave. */
static const double SILENT_S = 1, SAY_S = 0.5, LEAVE_S = 0.5;

int queue_agents_open(struct queue_agents *a, struct err *e)
{
    *a = (struct queue_agents){.http = http_new(e)};
    job_id_new(a->id);
    a->id[0] = 'q';
    return a->http ? 0 : e->code;
}

void queue_agents_close(struct queue_agents *a)
{
    for (size_t i = 0; i < a->n; i++) {
        node_forget(a->http, &a->list[i]->node);
        json_decref(a->list[i]->jobs);
        json_decref(a->list[i]->said);
        free(a->list[i]->body);
        free(a->list[i]);
    }
    free(a->list);
    http_free(a->http);
    *a = (struct queue_agents){0};
}

static bool is_same(const struct queue_agent *q, const struct listed_agent *at, const struct credentials *c)
{
    return strcmp(q->node.at.address, at->address) == 0 &&
           strcmp(q->node.at.token_file, at->token_file) == 0 && strcmp(q->node.at.pin, at->pin) == 0 &&
           strcmp(q->credentials.token_file, c->token_file) == 0 && strcmp(q->credentials.ca, c->ca) == 0 &&
           strcmp(q->credentials.cert, c->cert) == 0 && strcmp(q->credentials.key, c->key) == 0 &&
           q->credentials.insecure_no_tls == c->insecure_no_tls;
}

int queue_agents_add(size_t *number, struct queue_agents *a, const struct listed_agent *at,
                     const struct credentials *c, struct err *e)
{
    struct queue_agent **list, *q;

    for (*number = 0; *number < a->n; ++*number)
        if (is_same(a->list[*number], at, c))
            return 0;
    list = realloc(a->list, (a->n + 1) * sizeof *list);
    if (list)
        a->list = list;
    q = list ? calloc(1, sizeof *q) : NULL;
    if (!q)
        return err_set(e, ERR_NOMEM, "no memory for the list of agents");
    q->credentials = *c;
    q->node.at = *at;
    snprintf(q->node.label, sizeof q->node.label, "agent %s", at->address);
    snprintf(q->why, sizeof q->why, "it has not answered yet");
    a->list[a->n++] = q;
    return 0;
}

/* A count in an agent's answer, which may have any number. */
static double count_at(const json_t *o, const char *key, double max)
{
    return fmin(fmax(0, json_number_at(o, key, 0)), max);
}

static void take_answer(struct queue_agent *q)
{
    struct err e;
    json_t *o;

    q->is_asked = false;
    q->is_known = node_answer(&q->node, &e) == 0 &&
                  json_parse(&o, q->node.call.reply, q->node.call.reply_len, "answer", &e) == 0;
    q->is_answering = q->is_known;
    if (!q->is_known) {
        q->is_turn = false;
        q->n_free = 0;
        q->ask_at = clock_now() + SILENT_S;
        snprintf(q->why, sizeof q->why, "%.300s", e.text);
        return;
    }
    q->is_draining = json_is_true(json_object_get(o, "draining"));
    q->is_turn = json_is_true(json_object_get(o, "is_turn"));
    q->n_free = (int)count_at(o, "free", N_FREE_MAX);
    q->seen = (uint64_t)count_at(o, "seen", SEEN_MAX);
    q->aging_s = json_number_at(o, "aging_s", 600);
    snprintf(q->why, sizeof q->why, "%.300s", json_text_at(o, "why"));
    json_decref(o);
}

int queue_agent_free(const struct queue_agent *q)
{
    return q->is_turn ? q->n_free - q->n_promised : 0;
}

static json_t *request_json(const struct queue_agents *a, const struct queue_agent *q)
{
    const char *user = getenv("USER");
    json_t *o = json_pack("{s:s, s:o, s:i, s:O?}", "queue", a->id, "submitter",
                          json_text(user && user[0] ? user : "unknown", 64), "waiting", q->n_waiting, "jobs",
                          q->jobs);

    if (o && !q->jobs)
        json_object_del(o, "jobs");
    if (o && q->first_since > 0) {
        json_object_set_new(o, "first", json_string(q->first));
        json_object_set_new(o, "first_since", json_real(q->first_since));
        json_object_set_new(o, "first_is_possible", json_boolean(q->first_is_possible));
    }
    return o;
}

/* An agent that has answered is asked for the next change. */
static int send_request(struct queue_agents *a, struct queue_agent *q, const json_t *said, struct err *e)
{
    json_t *o = json_copy((json_t *)(uintptr_t)said);
    int rc;

    if (o && q->is_known) {
        json_object_set_new(o, "seen", json_integer((json_int_t)q->seen));
        json_object_set_new(o, "is_turn", json_boolean(q->is_turn));
        json_object_set_new(o, "free", json_integer(q->n_free));
    }
    free(q->body);
    q->body = o ? json_line(o) : NULL;
    json_decref(o);
    if (!q->body)
        return err_set(e, ERR_NOMEM, "no memory for a request");
    /* Its token may be another one since it was restarted. */
    if (!q->is_answering && node_find_access(&q->node, &q->credentials, e) < 0)
        return e->code;
    rc = node_ask(a->http, &q->node, "POST", q->body, strlen(q->body), e, "/v1/queue?timeout_s=%d", WAIT_S);
    q->is_asked = rc == 0;
    q->asked_at = clock_now();
    return rc;
}

static void ask_agent(struct queue_agents *a, struct queue_agent *q)
{
    json_t *said = request_json(a, q);
    struct err e;

    if (q->is_asked && !json_equal(said, q->said) && clock_now() > q->asked_at + SAY_S) {
        http_clear(a->http, &q->node.call); /* it waits for a change, and is told of other jobs first */
        q->is_asked = false;
    }
    if (!q->is_asked && clock_now() >= q->ask_at && q->n_promised == 0) {
        json_decref(q->said);
        q->said = json_incref(said);
        if (send_request(a, q, said, &e) < 0) {
            q->is_known = q->is_answering = false;
            q->ask_at = clock_now() + SILENT_S;
            snprintf(q->why, sizeof q->why, "%.300s", e.text);
        }
    }
    json_decref(said);
}

void queue_agents_ask(struct queue_agents *a)
{
    for (size_t i = 0; i < a->n; i++) {
        struct queue_agent *q = a->list[i];
        bool was_told = json_number_at(q->said, "waiting", 0) > 0;

        if (q->n_waiting > 0 || was_told)
            ask_agent(a, q);
    }
}

void queue_agents_take(struct queue_agents *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i]->is_asked && !a->list[i]->node.call.busy)
            take_answer(a->list[i]);
}

void queue_agents_again(struct queue_agents *a, struct queue_agent *q)
{
    http_clear(a->http, &q->node.call);
    q->is_asked = q->is_known = q->is_turn = false;
    q->n_free = 0;
    q->ask_at = 0;
}

void queue_agent_tell_none(struct queue_agent *q)
{
    q->n_waiting = 0;
    q->first[0] = '\0';
    q->first_since = 0;
    q->first_is_possible = false;
}

void queue_agents_leave(struct queue_agents *a)
{
    double until = clock_now() + LEAVE_S;
    bool is_busy = true;

    for (size_t i = 0; i < a->n; i++) {
        queue_agent_tell_none(a->list[i]);
        a->list[i]->asked_at = 0;
        json_decref(a->list[i]->jobs);
        a->list[i]->jobs = NULL;
    }
    queue_agents_ask(a);
    while (is_busy && clock_now() < until) {
        is_busy = false;
        for (size_t i = 0; i < a->n; i++)
            is_busy |= a->list[i]->node.call.busy;
        if (is_busy)
            http_poll(a->http, 0.1);
    }
}
