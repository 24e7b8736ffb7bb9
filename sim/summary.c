#include "sim/summary.h"

#include <stdio.h>
#include <string.h>

#include "runner/lines/report.h"
#include "shared/base/json.h"
#include "shared/job/comm.h"
#include "shared/job/reason.h"

static struct comm comm_of(const struct sim_node *n)
{
    const struct exchange_totals *t = exchange_totals(n->x);
    struct comm c = {.sent_messages = t->sent_messages,
                     .recv_messages = t->recv_messages,
                     .raw_bytes = t->raw_bytes,
                     .sent_bytes = t->sent_bytes,
                     .recv_bytes = t->recv_bytes};

    memcpy(c.seconds, exchange_watch(n->x)->spent, sizeof c.seconds);
    return c;
}

static const char *state_of(const struct sim_node *n)
{
    return n->phase == SIM_DONE ? "succeeded" : "failed";
}

static json_t *node_json(const struct sim *s, const struct sim_node *n)
{
    const struct comm c = comm_of(n);
    const char *reason = n->phase == SIM_KILLED ? REASON_NODE_LOST
                         : n->e                 ? report_ending(n->e->code)->reason
                                                : NULL;
    const char *message = n->phase == SIM_KILLED ? "killed, as --kill asks" : n->e ? n->e->text : "";
    json_t *o = json_pack("{s:i, s:s, s:s?, s:o, s:I, s:f, s:o?}", "node", n->node, "state", state_of(n),
                          "reason", reason, "message", json_text(message, SIZE_MAX), "step",
                          (json_int_t)n->step.n_done, "elapsed_s", n->ended_at, "comm", comm_json(&c));

    if (!o)
        return NULL;
    if (n->node >= 0 && n->phase == SIM_DONE) {
        const struct stop why = step_stop(&n->step);
        uint8_t digest[SHA256_BYTES];
        char hex[SHA256_HEX];

        json_object_set_new(o, "stopped", stop_json(&why));
        sim_weights_sha256(digest, s, n);
        hex_encode(hex, digest, sizeof digest);
        json_object_set_new(o, "params_sha256", json_string(hex));
        json_object_set_new(o, "combined_nothing", json_boolean(exchange_combined_nothing(n->x)));
    }
    json_object_set_new(o, "loss", json_real_or_null(n->step.loss));
    json_object_set_new(o, "accuracy", json_real_or_null(n->step.accuracy));
    json_object_set_new(o, "eval_loss", json_real_or_null(n->eval_loss));
    json_object_set_new(o, "eval_accuracy", json_real_or_null(n->eval_accuracy));
    return o;
}

static json_t *search_json(const struct explore_result *f)
{
    return json_pack("{s:I, s:I, s:b, s:o, s:s}", "orders", (json_int_t)f->n_orders, "different",
                     (json_int_t)f->n_different, "is_complete", f->is_complete, "failure",
                     json_text(f->failure, SIZE_MAX), "order", f->order);
}

static uint64_t count_left_out(const struct sim *s)
{
    uint64_t n = 0;

    for (int i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].step.n_left_out;
    return n;
}

json_t *sim_summary(const struct sim *s, const struct explore_result *found, double seconds)
{
    uint64_t n_messages = mesh_sim_messages(s->net);
    json_t *nodes = json_array();
    char overhead[64], steps[SIMULATION_TEXT];
    double step = sim_steps_text(steps, sizeof steps, &s->steps);
    json_t *o;

    sim_overhead_text(overhead, sizeof overhead, &s->overhead);
    o = json_pack("{s:b, s:b, s:f, s:f, s:I, s:f, s:f, s:s, s:f, s:f, s:s, s:b, s:b}", "ok", 1, "succeeded",
                  sim_has_succeeded(s) && !(found && found->failure[0]), "sim_time_s", sim_time(s), "wall_s",
                  seconds, "messages", (json_int_t)n_messages, "messages_per_s",
                  seconds > 0 ? (double)n_messages / seconds : 0.0, "step_time_s", step, "step_time", steps,
                  "eval_time_s", s->eval_time_s, "codec_rate_mbps", s->codec_rate / 1e6, "overhead", overhead,
                  "models_agree", sim_models_agree(s), "models_are_finite", sim_models_are_finite(s));

    if (!o || !nodes) {
        json_decref(o);
        json_decref(nodes);
        return NULL;
    }
    json_object_set_new(o, "left_out", json_integer((json_int_t)count_left_out(s)));
    json_object_set_new(o, "cause", s->cause >= 0 ? json_integer(s->nodes[s->cause].node) : json_null());
    for (int i = 0; i < s->n_nodes; i++)
        json_array_append_new(nodes, node_json(s, &s->nodes[i]));
    json_object_set_new(o, "nodes", nodes);
    json_object_set_new(o, "search", found ? search_json(found) : json_null());
    return o;
}
