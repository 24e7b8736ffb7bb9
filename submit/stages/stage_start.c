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

enum { UNDER_WAY_MAX = 32 }; /* orders at once: each of a thousand nodes has 200 kB */

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

/* What the orders of all nodes have in common. An order is made when it is sent, and freed when it is
 * answered. */
struct start_orders {
    char **peers; /* (n_nodes) the entry of each node without its closing brace: orders add a key to it */
    size_t n_nodes, len;
    uint8_t data_key[SHA256_BYTES]; /* of the job: the keys of pairs are derived from it */
    bool is_crowded;
};

static void orders_clear(struct start_orders *o)
{
    for (size_t i = 0; o->peers && i < o->n_nodes; i++)
        free(o->peers[i]);
    free(o->peers);
    explicit_bzero(o->data_key, sizeof o->data_key);
    o->peers = NULL;
}

static char *peer_text(const struct job_node *n)
{
    json_t *peer = json_pack("{s:i, s:s, s:s, s:s, s:i}", "node", n->at.node, "role", node_role(n), "address",
                             n->at.address, "host", node_host(n), "data_port", n->view.data_port);
    char *text = peer ? json_dumps(peer, JSON_COMPACT) : NULL;

    json_decref(peer);
    if (text)
        text[strlen(text) - 1] = '\0';
    return text;
}

static int orders_begin(struct start_orders *o, const struct submission *s, struct err *e)
{
    *o = (struct start_orders){
        .peers = calloc(s->n_nodes, sizeof *o->peers), .n_nodes = s->n_nodes, .is_crowded = is_crowded(s)};
    if (o->peers)
        random_bytes(o->data_key, sizeof o->data_key);
    for (size_t i = 0; o->peers && i < s->n_nodes; i++) {
        o->peers[i] = peer_text(&s->nodes[i]);
        if (!o->peers[i])
            orders_clear(o);
        else
            o->len += strlen(o->peers[i]);
    }
    return o->peers ? 0 : err_set(e, ERR_NOMEM, "no memory for the orders of %zu nodes", s->n_nodes);
}

/* The order of node `me`, with the keys of its pairs: a node comes before the later ones of the job. */
static char *order_line(const struct start_orders *o, const struct submission *s, size_t me)
{
    const size_t key_len = strlen(",\"key\":\"\"},") + SHA256_HEX;
    char *line = malloc(o->len + o->n_nodes * key_len + 64), *end = line;
    uint8_t key[SHA256_BYTES];
    char hex[SHA256_HEX];

    if (!line)
        return NULL;
    end += sprintf(end, "{\"attempt\":%d,\"peers\":[", s->attempt);
    for (size_t i = 0; i < o->n_nodes; i++) {
        size_t first = i < me ? i : me, second = i < me ? me : i;

        end = stpcpy(end, o->peers[i]);
        if (i != me) {
            pair_key(key, o->data_key, s->id, s->attempt, s->nodes[first].at.node, s->nodes[second].at.node);
            hex_encode(hex, key, sizeof key);
            end += sprintf(end, ",\"key\":\"%s\"", hex);
        }
        end = stpcpy(end, i + 1 < o->n_nodes ? "}," : "}]");
    }
    stpcpy(end, o->is_crowded ? ",\"is_crowded\":true}\n" : "}\n"); /* an older agent refuses the key */
    explicit_bzero(key, sizeof key);
    explicit_bzero(hex, sizeof hex);
    return line;
}

/* The order of one node, on its way. */
struct sent_order {
    char *line;
    bool is_taken; /* the answer was */
};

static void order_free(struct sent_order *o)
{
    if (o->line)
        explicit_bzero(o->line, strlen(o->line));
    free(o->line);
    o->line = NULL;
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

/* Takes the answers that have come, and sends as many orders as may be on their way at once. */
static int advance_orders(struct submission *s, const struct start_orders *o, struct sent_order *sent,
                          size_t *n_taken, struct err *e)
{
    size_t n_under_way = 0;

    *n_taken = 0;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        if (sent[i].line && !n->call.busy) {
            if (take_answer(s, n, sent[i].line, e) < 0)
                return e->code;
            order_free(&sent[i]);
            sent[i].is_taken = true;
        }
        if (!sent[i].line && !sent[i].is_taken && n_under_way < UNDER_WAY_MAX) {
            sent[i].line = order_line(o, s, i);
            if (!sent[i].line)
                return err_set(e, ERR_NOMEM, "no memory for an order");
            if (send_order(s, n, sent[i].line, e) < 0)
                return e->code;
        }
        n_under_way += sent[i].line != NULL;
        *n_taken += sent[i].is_taken;
    }
    return 0;
}

static int send_orders(struct submission *s, const struct start_orders *o, struct err *e)
{
    struct sent_order *sent = calloc(s->n_nodes, sizeof *sent);
    int rc = sent ? 0 : err_set(e, ERR_NOMEM, "no memory for the orders of %zu nodes", s->n_nodes);
    size_t n_taken = 0;

    while (rc == 0 && n_taken < s->n_nodes) {
        rc = advance_orders(s, o, sent, &n_taken, e);
        if (rc < 0 || n_taken == s->n_nodes)
            break;
        http_poll(s->http, 1);
        rc = submission_check_time(s, e);
    }
    submission_finish_calls(s); /* after a failure: their bodies are freed */
    for (size_t i = 0; sent && i < s->n_nodes; i++)
        order_free(&sent[i]);
    free(sent);
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
    struct start_orders o;
    int rc;

    if (submission_check_time(s, e) < 0 || check_ports(s, e) < 0)
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
