/* place: canCommit, requests a slot from every agent. A submitter waits for a slot only while it holds none
 * of an agent that is later in the order of the agents' ids, so that two submitters who want the same agents
 * cannot deadlock by each holding a slot the other waits for: it requests all slots at once where all agents
 * are free, and if another one was faster somewhere, withdraws from the agents behind that one; from there
 * on, and where an agent is busy, it requests one slot after the other. The stream of events of each node is
 * opened with its reservation: if this process dies, the stream closes and the agent is free again. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "submit/job/node_reservation.h"
#include "submit/options/hosts.h"
#include "submit/stages/silence.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

/* From one report of the place in the queue to the next; time without an answer after which a waiting user is
 * informed; until unreachable agents are asked again. */
static const double WAIT_REPORT_S = 30, SLOW_S = 3, ASK_AGAIN_S = 1;

static void print_workers(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        console_info("Add worker (Rule: %s, Id: %d, Address: %s).",
                     node_is_server(&s->nodes[i]) ? "PS" : "Worker", s->nodes[i].at.node,
                     s->nodes[i].at.address);
}

/* A program that accepted the connection may not be an agent, and may never answer. */
static void name_slow_agent(const struct submission *s)
{
    const struct job_node *n = s->nodes;
    char until[TEXT_AMOUNT];

    while (!n->call.busy)
        n++;
    console_info("node(%d): %s has not answered yet; waiting until %s (Ctrl-C stops waiting).", n->at.node,
                 n->label, text_hour(until, clock_wall() + CALL_S - SLOW_S));
}

/* Waits until all calls have ended. `take`, if there is one, is called meanwhile, to use the answers so
 * far. */
static int receive_all(struct submission *s, int (*take)(struct submission *s, char **bodies, struct err *e),
                       char **bodies, struct err *e)
{
    double report_at = clock_now() + SLOW_S;

    while (submission_is_calling(s)) {
        if (clock_now() > report_at) {
            name_slow_agent(s);
            report_at = INFINITY;
        }
        http_poll(s->http, 0.5);
        if (submission_check_time(s, e) < 0 || (take && take(s, bodies, e) < 0))
            return e->code;
    }
    return 0;
}

/* Contacts all agents at once. *n_failed: the number of agents that cannot be used; `e`: the first one's
 * error. */
static int ask_agents(struct submission *s, size_t *n_failed, struct err *e)
{
    struct err other;

    *n_failed = 0;
    if (node_prove_all(s->nodes, s->n_nodes, sizeof *s->nodes, e) < 0)
        return e->code;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (!node_must_prove(&s->nodes[i]) &&
            node_ask(s->http, &s->nodes[i], "GET", NULL, 0, e, "/v1/agent") < 0)
            return e->code;
    if (receive_all(s, NULL, NULL, e) < 0)
        return e->code;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];
        struct err *at = *n_failed ? &other : e;

        if (node_answer(n, at) < 0)
            ++*n_failed;
        else if (reply_agent(&n->agent, n->call.reply, n->call.reply_len, at) < 0 && ++*n_failed)
            err_at(at, "node(%d): %s", n->at.node, n->label);
    }
    return 0;
}

/* The next agents of the list that have no node and were not tried, by their numbers in it. */
struct substitutes {
    size_t worker, spare;
};

/* A job with --retries takes listed workers beyond --node_count first; servers are all in use. NULL: none is
 * left. */
static const struct listed_agent *next_substitute(struct substitutes *u, const struct submission *s,
                                                  const struct job_node *n)
{
    const struct worker_list *w = &s->workers;

    if (s->opt->retries > 0 && !node_is_server(n) && u->worker < w->n_workers)
        return &w->nodes[u->worker++];
    return u->spare < w->n_spares ? &w->nodes[w->n_workers + w->n_servers + u->spare++] : NULL;
}

/* Gives nodes whose agents do not answer to substitutes. *found: the number of these nodes. */
static int substitute_nodes(struct submission *s, struct substitutes *u, size_t *found, struct err *e)
{
    *found = 0;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];
        const struct listed_agent *at;
        struct err why;

        if (node_answer(n, &why) != ERR_UNREACHABLE || !(at = next_substitute(u, s, n)))
            continue;
        console_info("node(%d): %s does not answer; %s %s takes its place.", n->at.node, n->label,
                     at < s->workers.nodes + s->workers.n_workers ? "the worker" : "the spare", at->address);
        if (submission_move_node(s, n, at, e) < 0)
            return e->code;
        ++*found;
    }
    return 0;
}

/* Returns nodes whose substitutes do not answer either to their listed agents, which may answer again. */
static int return_to_listed(struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct worker_list *w = &s->workers;
        struct job_node *n = &s->nodes[i];
        size_t at = node_is_server(n) ? w->n_workers + i - (size_t)s->settings.node_count : i;
        struct err why;

        if (node_answer(n, &why) == ERR_UNREACHABLE && strcmp(n->at.address, w->nodes[at].address) != 0 &&
            submission_move_node(s, n, &w->nodes[at], e) < 0)
            return e->code;
    }
    return 0;
}

/* Gives every node an agent that answers. A further attempt waits for its agents for --agent-timeout: they
 * may be restarting. */
static int contact_agents(struct submission *s, struct err *e)
{
    double until = s->attempt > 1 ? clock_now() + s->opt->agent_timeout_s : 0;
    struct substitutes left = {.worker = (size_t)s->settings.node_count};
    size_t n_failed, n_found;
    struct err why;

    for (;;) {
        if (ask_agents(s, &n_failed, &why) < 0) {
            *e = why;
            return e->code;
        }
        if (n_failed == 0)
            return 0;
        if (substitute_nodes(s, &left, &n_found, e) < 0)
            return e->code;
        if (n_found == 0 && !(why.code == ERR_UNREACHABLE && clock_now() < until))
            break;
        if (n_found == 0 && return_to_listed(s, e) < 0)
            return e->code;
        if (n_found == 0)
            http_poll(s->http, ASK_AGAIN_S);
        if (submission_check_time(s, e) < 0)
            return e->code;
    }
    *e = why;
    if (n_failed > 1)
        console_info("%zu of %zu agents cannot be used; the error is that of the first.", n_failed,
                     s->n_nodes);
    if (e->code == ERR_UNREACHABLE && !e->hint[0])
        err_hint(e, "Is it running there? agent --port N --dir DIR starts one.");
    return e->code;
}

static int by_agent(const void *a, const void *b)
{
    return strcmp((*(struct job_node *const *)a)->agent.id, (*(struct job_node *const *)b)->agent.id);
}

static int sort_by_agent(struct job_node **order, struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        order[i] = &s->nodes[i];
    qsort(order, s->n_nodes, sizeof *order, by_agent);
    for (size_t i = 1; i < s->n_nodes; i++)
        if (strcmp(order[i - 1]->agent.id, order[i]->agent.id) == 0)
            return err_set(e, ERR_CONFIG, "%s: %s and %s are one and the same agent", hosts_name(s->opt),
                           order[i - 1]->at.address, order[i]->at.address);
    return 0;
}

/* The agents whose slots the job has when it asks this one: those with a lower id. */
static int slots_before(const struct submission *s, const struct job_node *n)
{
    int count = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        count += strcmp(s->nodes[i].agent.id, n->agent.id) < 0;
    return count;
}

static char *reservation_line(const struct submission *s, const struct job_node *n)
{
    json_t *o = node_reservation_json(s, n);
    char *line;

    if (o && slots_before(s, n) > 0)
        json_object_set_new(o, "holds", json_integer(slots_before(s, n)));

    if (o && (s->settings.threads > 1 || s->settings.trainer[0]))
        json_object_set_new(o, "workers_on_host", json_integer(submission_workers_beside(s, n)));
    line = o ? json_line(o) : NULL;
    json_decref(o);
    return line;
}

/* ", position 2 of 3, behind j-…"; "" if its agent does not say. */
static void place_in_queue(char *out, size_t size, const struct job_view *v)
{
    out[0] = '\0';
    if (v->queue_position > 0)
        snprintf(out, size, ", position %d of %d%s%s", v->queue_position, v->queue_length,
                 v->queue_behind[0] ? ", behind " : "", v->queue_behind);
}

/* Prints the job that holds the slot, the place in the queue, and how long this one waits. */
static void print_queue(struct submission *s, struct job_node *n)
{
    struct job_view now = n->view; /* of a request: the node's own view follows its stream of events */
    bool is_drained;
    char holder[256] = "", place[128];
    char until[TEXT_AMOUNT];
    struct err ignored;

    if (node_get(s->http, n, REPLY_MAX, &ignored, "/v1/jobs/%s", s->id) == 0)
        reply_job(&now, n->call.reply, n->call.reply_len, &ignored);
    is_drained = strcmp(now.reason, REASON_DRAINING) == 0;
    place_in_queue(place, sizeof place, &now);
    if (node_get(s->http, n, REPLY_MAX, &ignored, "/v1/jobs") == 0)
        reply_holder(holder, sizeof holder, n->call.reply, n->call.reply_len, &ignored);
    text_hour(until, clock_wall() + s->deadline - clock_now());
    console_info("node(%d): %s %s%s; waiting in its queue%s, %s%s (Ctrl-C stops waiting).", n->at.node,
                 n->label, is_drained ? "was drained" : "has ",
                 is_drained  ? ""
                 : holder[0] ? holder
                             : "another job",
                 place, s->deadline > 0 ? "until " : "without a time limit", s->deadline > 0 ? until : "");
}

/* Sends the reservation. The caller frees *body, which must stay until the call has ended. */
static int ask_slot(struct submission *s, struct job_node *n, char **body, struct err *e)
{
    *body = reservation_line(s, n);
    if (!*body)
        return err_set(e, ERR_NOMEM, "no memory");
    n->is_reserved = true; /* from here on the agent may hold the slot, even if its answer is lost */
    n->last_seq = 0;
    return node_ask(s->http, n, "POST", *body, strlen(*body), e, "/v1/jobs");
}

/* An agent that does not answer now answered a moment ago: it is retried like an agent that becomes silent
 * later. */
static int take_slot(struct submission *s, struct job_node *n, struct err *e)
{
    if (n->call.err.code == ERR_UNREACHABLE) {
        silence_begin(s, n, &n->call.err, true);
        return 0;
    }
    if (node_answer(n, e) < 0 || node_take_view(n, e) < 0)
        return e->code;
    return node_open_stream(s->http, n, e);
}

/* Requests the reservation, or repeats the request if the agent no longer has it. */
static int request_slot(struct submission *s, struct job_node *n, struct err *e)
{
    char *body;
    int rc = ask_slot(s, n, &body, e);

    while (rc == 0 && n->call.busy)
        http_poll(s->http, 1);
    free(body);
    return rc < 0 ? rc : take_slot(s, n, e);
}

static bool is_queued(const struct job_node *n)
{
    return n->view.state == JOB_PENDING && !n->is_ended;
}

/* Checks a node before the start. The reason for its end is more useful than "the stream closed". If an agent
 * was away and its queue no longer has the node, the reservation is repeated; a slot that was held is not
 * requested again, because it may belong to a submitter that waits for one of ours (see the order above). */
static int check_reservation(struct submission *s, struct job_node *n, struct err *e)
{
    if (n->is_ended)
        return err_set(e, n->view.state == JOB_CANCELLED ? ERR_CANCELLED : ERR_REFUSED,
                       "node(%d): %s ended the reservation: %s%s%s", n->at.node, n->label, n->view.reason,
                       n->view.message[0] ? ": " : "", n->view.message);
    if (silence_look(s, n, e) == 0)
        return 0;
    if (e->code == ERR_NOT_FOUND && n->silent_since > 0 && is_queued(n))
        return request_slot(s, n, e);
    if (e->code == ERR_NOT_FOUND)
        e->code = ERR_BUSY; /* the missing job is not an argument of the command */
    return err_at(e, "node(%d): lost before the start", n->at.node);
}

/* Checks every reserved node; *is_away: an agent is silent. */
static int check_reservations(struct submission *s, bool *is_away, struct err *e)
{
    *is_away = false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        if (n->is_reserved && check_reservation(s, n, e) < 0)
            return e->code;
        *is_away |= n->silent_since > 0;
    }
    return 0;
}

/* Waits until the node has its slot and the agents of all reserved nodes answer. */
static int await_slot(struct submission *s, struct job_node *n, struct err *e)
{
    double reported_at = 0;
    bool is_away;

    for (;;) {
        if (submission_check_time(s, e) < 0 || check_reservations(s, &is_away, e) < 0)
            return e->code;
        if (!is_away && !is_queued(n))
            return 0;
        if (n->silent_since > 0) {
            reported_at = 0;
        } else if (is_queued(n) && (reported_at == 0 || clock_now() - reported_at > WAIT_REPORT_S)) {
            print_queue(s, n);
            reported_at = clock_now();
        }
        http_poll(s->http, 1);
        submission_keep_lease(s);
    }
}

/* Takes the slots of the nodes whose agents have answered: a node's lease is short until its stream is open,
 * so it does not wait for the answers of other agents. */
static int take_answered(struct submission *s, char **bodies, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (!bodies[i] || s->nodes[i].call.busy)
            continue;
        free(bodies[i]);
        bodies[i] = NULL;
        if (take_slot(s, &s->nodes[i], e) < 0)
            return e->code;
    }
    return 0;
}

static int request_all(struct submission *s, struct err *e)
{
    char **bodies = calloc(s->n_nodes, sizeof *bodies);
    int rc = bodies ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu reservations", s->n_nodes);

    for (size_t i = 0; rc == 0 && i < s->n_nodes; i++)
        rc = ask_slot(s, &s->nodes[i], &bodies[i], e);
    if (rc == 0)
        rc = receive_all(s, take_answered, bodies, e);
    for (size_t i = 0; bodies && i < s->n_nodes; i++) {
        if (s->nodes[i].call.busy) /* after a failure */
            http_clear(s->http, &s->nodes[i].call);
        free(bodies[i]);
    }
    free(bodies);
    return rc;
}

/* Sends a request about the job to each of n nodes, and waits for the answers: 404 if an agent has no such
 * job any more, which is as good. An agent that does not answer is found when its slot is requested again. */
static int ask_each(struct submission *s, struct job_node *const *nodes, size_t n, const char *method,
                    const char *what, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (node_ask(s->http, nodes[i], method, NULL, 0, e, "/v1/jobs/%s%s", s->id, what) < 0)
            return e->code;
    return receive_all(s, NULL, NULL, e);
}

/* Gives up n reservations, so that they can be made again. */
static int withdraw(struct submission *s, struct job_node *const *nodes, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        http_clear(s->http, &nodes[i]->stream);
        nodes[i]->is_streaming = false;
    }
    if (ask_each(s, nodes, n, "POST", "/cancel", e) < 0 || ask_each(s, nodes, n, "DELETE", "", e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++) {
        nodes[i]->is_reserved = nodes[i]->is_ended = false;
        nodes[i]->view = (struct job_view){0};
    }
    return 0;
}

static bool are_all_free(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (!s->nodes[i].agent.is_free)
            return false;
    return true;
}

/* Requests all slots at once. *n_held: the first nodes in that order that have a slot, and one that waits for
 * its own, if there is one. */
static int reserve_at_once(size_t *n_held, struct submission *s, struct job_node *const *order, struct err *e)
{
    *n_held = 0;
    if (request_all(s, e) < 0)
        return e->code;
    while (*n_held < s->n_nodes && !is_queued(order[*n_held]))
        ++*n_held;
    if (*n_held == s->n_nodes)
        return 0;
    ++*n_held;
    return withdraw(s, order + *n_held, s->n_nodes - *n_held, e);
}

static int reserve_all(struct submission *s, struct job_node *const *order, struct err *e)
{
    size_t n_held = 0;

    if (are_all_free(s) && reserve_at_once(&n_held, s, order, e) < 0)
        return e->code;
    if (n_held > 0 && await_slot(s, order[n_held - 1], e) < 0)
        return e->code;
    for (size_t i = n_held; i < s->n_nodes; i++)
        if (request_slot(s, order[i], e) < 0 || await_slot(s, order[i], e) < 0)
            return e->code;
    return 0;
}

int stage_place(struct submission *s, struct err *e)
{
    struct job_node **order = calloc(s->n_nodes, sizeof *order);
    int rc;

    if (!order)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    print_workers(s);
    console_info("Try connecting to the cluster.");
    rc = contact_agents(s, e);
    if (rc == 0)
        rc = sort_by_agent(order, s, e);
    if (rc == 0)
        rc = reserve_all(s, order, e);
    free(order);
    for (size_t i = 0; i < s->n_nodes; i++)
        s->nodes[i].is_probed = false; /* later calls are no probes */
    if (rc == 0)
        console_info("Connection with cluster established.");
    return rc;
}
