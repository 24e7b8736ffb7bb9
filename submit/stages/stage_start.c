/* start: doCommit, sends each node, when all are ready, the list of its peers with their keys, and the order
 * to start. If one node fails to start, none runs. A node that ends before it gets its order ends the job,
 * like a node that ends while the job runs: other nodes may run already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/job/pair_key.h"
#include "submit/results/job_index.h"
#include "submit/stages/silence.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"

static const double REPEAT_S = 0.1;

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

/* All nodes of the job, for node `me`, with the keys of its pairs. */
static json_t *peers_json(const struct submission *s, size_t me, const uint8_t data_key[SHA256_BYTES])
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i], *mine = &s->nodes[me];
        json_t *peer = json_pack("{s:i, s:s, s:s, s:s, s:i}", "node", n->at.node, "role", node_role(n),
                                 "address", n->at.address, "host", node_host(n), "data_port",
                                 n->view.data_port);
        uint8_t key[SHA256_BYTES];
        char hex[SHA256_HEX];

        if (i != me) {
            pair_key(key, data_key, s->id, s->attempt, i < me ? n->at.node : mine->at.node,
                     i < me ? mine->at.node : n->at.node);
            hex_encode(hex, key, sizeof key);
            json_object_set_new(peer, "key", json_string(hex));
            explicit_bzero(key, sizeof key);
            explicit_bzero(hex, sizeof hex);
        }
        json_array_append_new(list, peer);
    }
    return list;
}

static char *order_line(const struct submission *s, size_t me, const uint8_t data_key[SHA256_BYTES],
                        bool crowded)
{
    json_t *o = json_pack("{s:i, s:o}", "attempt", s->attempt, "peers", peers_json(s, me, data_key));
    char *line;

    if (o && crowded) /* an agent that does not support it refuses */
        json_object_set_new(o, "is_crowded", json_true());
    line = o ? json_line(o) : NULL;
    json_decref(o);
    return line;
}

static void orders_free(char **orders, size_t n)
{
    for (size_t i = 0; orders && i < n && orders[i]; i++) {
        explicit_bzero(orders[i], strlen(orders[i]));
        free(orders[i]);
    }
    free(orders);
}

/* One order per node. The job key, from which the pair keys are derived, is created here and erased on
 * return. */
static char **orders_new(const struct submission *s)
{
    char **orders = calloc(s->n_nodes, sizeof *orders);
    uint8_t data_key[SHA256_BYTES];
    bool crowded = is_crowded(s);

    random_bytes(data_key, sizeof data_key);
    for (size_t i = 0; orders && i < s->n_nodes; i++) {
        orders[i] = order_line(s, i, data_key, crowded);
        if (!orders[i]) {
            orders_free(orders, i);
            orders = NULL;
        }
    }
    explicit_bzero(data_key, sizeof data_key);
    return orders;
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

static int send_orders(struct submission *s, char *const *orders, struct err *e)
{
    struct err other;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n_nodes; i++)
        rc = send_order(s, &s->nodes[i], orders[i], e);
    submission_finish_calls(s);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (take_answer(s, &s->nodes[i], orders[i], rc ? &other : e) < 0)
            rc = e->code;
    if (rc < 0)
        return silence_await_end(s, e);
    s->is_started = true;
    return 0;
}

static int check_ports(const struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.data_port == 0)
            return err_set(e, ERR_PROTOCOL, "node(%d): %s is ready but reports no data_port",
                           s->nodes[i].at.node, s->nodes[i].label);
    return 0;
}

int stage_start(struct submission *s, struct err *e)
{
    char **orders;
    int rc;

    if (submission_check_time(s, e) < 0 || check_ports(s, e) < 0)
        return e->code;
    /* Saved before the orders are sent: afterwards the job may run even if this process dies. */
    if (job_index_save(s, e) < 0)
        return e->code;
    orders = orders_new(s);
    if (!orders)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = send_orders(s, orders, e);
    orders_free(orders, s->n_nodes);
    if (rc < 0) {
        job_index_remove(s->id);
        return rc;
    }
    if (s->is_started) /* otherwise a node has ended: stage_watch finds the cause, and ends the others */
        console_info("Start job %s.", s->id);
    return 0;
}
