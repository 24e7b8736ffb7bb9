/* start: doCommit, sends each node, when all are ready, the list of its peers with the public halves of their
 * keys, and the order to start. If one node fails to start, none runs. A node that ends before it gets its
 * order ends the job, like a node that ends while the job runs: other nodes may run already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/job/peer_list.h"
#include "submit/results/job_index.h"
#include "submit/stages/silence.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"

static const double REPEAT_S = 0.1;

enum { UNDER_WAY_MAX = 32 }; /* orders at once, and so connections with an order in their buffers */

/* Workers of one machine that always share memory; and as many for each processor: nodes that wait no longer
 * spin with more (runner/base/affinity.h), and shared memory gains less than its links cost. */
enum { TOGETHER_MAX = 16, TOGETHER_PER_PROCESSOR = 4 };

static bool is_crowded(const struct submission *s)
{
    for (size_t i = 0; s->settings.node_count > TOGETHER_MAX && i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];
        int count = n->agent.cpus > 0 ? submission_workers_beside(s, n) : 0;

        if (count > TOGETHER_MAX && count > TOGETHER_PER_PROCESSOR * n->agent.cpus)
            return true;
    }
    return false;
}

/* The orders are few texts, each for many nodes: one with all nodes of the job, and one for workers that need
 * servers only, with the servers. */
struct start_orders {
    char *whole, *of_servers; /* of_servers NULL: all nodes get the whole list */
};

static void order_free(char *order)
{
    if (order)
        explicit_bzero(order, strlen(order)); /* it has the secret */
    free(order);
}

static void orders_clear(struct start_orders *o)
{
    order_free(o->whole);
    order_free(o->of_servers);
    *o = (struct start_orders){0};
}

/* The order with the nodes from `first` on. */
static char *order_text(const struct submission *s, size_t first, const char *secret, bool crowded)
{
    char *text = malloc((s->n_nodes - first) * PEER_TEXT + 256), *end = text;

    if (!text)
        return NULL;
    end += sprintf(end, "{\"attempt\":%d,\"secret\":\"%s\",%s\"peers\":\"", s->attempt, secret,
                   crowded ? "\"is_crowded\":true," : "");
    for (size_t i = first; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];
        struct peer p = {.node = n->at.node,
                         .data_port = n->view.data_port,
                         .address = n->at.address,
                         .host = node_host(n)};

        hex_decode(p.key, sizeof p.key, n->view.data_key);
        if (i > first)
            *end++ = ';';
        end += peer_print(end, &p);
    }
    stpcpy(end, "\"}\n");
    return text;
}

static int orders_begin(struct start_orders *o, const struct submission *s, struct err *e)
{
    size_t n_workers = (size_t)s->settings.node_count;
    bool crowded = is_crowded(s), is_star = s->settings.server_count > 0 && !s->runs_events;
    uint8_t secret[SHA256_BYTES];
    char hex[SHA256_HEX];

    random_bytes(secret, sizeof secret);
    hex_encode(hex, secret, sizeof secret);
    *o = (struct start_orders){.whole = order_text(s, 0, hex, crowded)};
    if (is_star)
        o->of_servers = order_text(s, n_workers, hex, crowded);
    explicit_bzero(secret, sizeof secret);
    explicit_bzero(hex, sizeof hex);
    if (o->whole && (!is_star || o->of_servers))
        return 0;
    orders_clear(o);
    return err_set(e, ERR_NOMEM, "no memory for the orders of %zu nodes", s->n_nodes);
}

static const char *order_of(const struct start_orders *o, const struct job_node *n)
{
    return o->of_servers && !node_is_server(n) ? o->of_servers : o->whole;
}

static int send_order(struct submission *s, struct job_node *n, const char *order, struct err *e)
{
    return node_ask(s->http, n, "POST", order, strlen(order), e, "/v1/jobs/%s/start", s->id);
}

/* Takes the answer to an order. An agent that ended before it answered may have carried out the order, and
 * another node may run already: so the order, which has no further effect, is repeated for
 * --agent-timeout. */
static int take_answer(struct submission *s, struct job_node *n, const char *order, struct err *e)
{
    double until = clock_now() + s->opt->agent_timeout_s, next;
    int rc;

    while ((rc = node_answer(n, e)) == ERR_UNREACHABLE && !n->is_ended && clock_now() < until) {
        for (next = clock_now() + REPEAT_S; clock_now() < next;)
            http_poll(s->http, REPEAT_S);
        if (submission_check_time(s, e) < 0 || send_order(s, n, order, e) < 0)
            return e->code;
        while (n->call.busy)
            http_poll(s->http, 1);
    }
    if (rc == ERR_UNREACHABLE)
        silence_lose(s, n, e);
    return rc;
}

/* How far the order to one node is. */
enum order_state { ORDER_WAITS, ORDER_IS_SENT, ORDER_IS_TAKEN };

/* Takes the answers that have come, and sends as many orders as may be on their way at once. */
static int advance_orders(struct submission *s, const struct start_orders *o, enum order_state *of,
                          size_t *n_taken, struct err *e)
{
    size_t n_under_way = 0;

    *n_taken = 0;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        if (of[i] == ORDER_IS_SENT && !n->call.busy) {
            if (take_answer(s, n, order_of(o, n), e) < 0)
                return e->code;
            of[i] = ORDER_IS_TAKEN;
        }
        if (of[i] == ORDER_WAITS && n_under_way < UNDER_WAY_MAX) {
            if (send_order(s, n, order_of(o, n), e) < 0)
                return e->code;
            of[i] = ORDER_IS_SENT;
        }
        n_under_way += of[i] == ORDER_IS_SENT;
        *n_taken += of[i] == ORDER_IS_TAKEN;
    }
    return 0;
}

static int send_orders(struct submission *s, const struct start_orders *o, struct err *e)
{
    enum order_state *of = calloc(s->n_nodes, sizeof *of);
    int rc = of ? 0 : err_set(e, ERR_NOMEM, "no memory for the orders of %zu nodes", s->n_nodes);
    size_t n_taken = 0;

    while (rc == 0 && n_taken < s->n_nodes) {
        rc = advance_orders(s, o, of, &n_taken, e);
        if (rc < 0 || n_taken == s->n_nodes)
            break;
        http_poll(s->http, 1);
        rc = submission_check_time(s, e);
    }
    submission_finish_calls(s); /* after a failure: their body is freed */
    free(of);
    if (rc < 0)
        return silence_await_end(s, e);
    s->is_started = true;
    return 0;
}

static int check_ready(const struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        if (n->view.data_port == 0 || !n->view.data_key[0])
            return err_set(e, ERR_PROTOCOL, "node(%d): %s is ready but reports no %s", n->at.node, n->label,
                           n->view.data_port == 0 ? "data_port" : "data_key");
    }
    return 0;
}

int stage_start(struct submission *s, struct err *e)
{
    struct start_orders o;
    int rc;

    if (submission_check_time(s, e) < 0 || check_ready(s, e) < 0)
        return e->code;
    /* Saved before the orders are sent: afterwards the job may run even if this process dies. */
    if (job_index_save(s, e) < 0 || orders_begin(&o, s, e) < 0)
        return e->code;
    rc = send_orders(s, &o, e);
    orders_clear(&o);
    if (rc < 0) {
        job_index_remove(s->id);
        return rc;
    }
    if (s->is_started) /* otherwise a node has ended: stage_watch finds the cause, and ends the others */
        console_info("Start job %s.", s->id);
    return 0;
}
