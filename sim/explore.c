#include "sim/explore.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = EXPLORE_NODES, TIMER, SOURCES }; /* follow the nodes, which are the sources of messages */

/* A choice is (node, source), as a bit: the node at which something happens, and what. */
typedef uint64_t choices;
_Static_assert(EXPLORE_NODES *SOURCES <= 64, "a set of choices fits 64 bits");

struct branch {     /* one choice of the schedule under way */
    choices open;   /* what could have been chosen */
    choices asleep; /* of these: covered by an earlier schedule */
    choices done;   /* chosen at this position in earlier schedules */
    int chosen;
};

struct sim_explorer {
    struct sim *s;
    struct {
        struct sim_message *first, *last;
    } pairs[EXPLORE_NODES][EXPLORE_NODES]; /* by receiver and sender */
    struct branch path[EXPLORE_DEPTH];
    int n_path;
    float *outcome; /* (n_workers, n_params) of the first schedule */
};

static choices bit_of(int node, int source)
{
    return (choices)1 << (node * SOURCES + source);
}

static choices all_of(int node)
{
    return (((choices)1 << SOURCES) - 1) << (node * SOURCES);
}

static int first_of(choices c)
{
    return __builtin_ctzll(c);
}

int sim_explorer_keep(struct sim_explorer *x, struct sim_message *m, struct err *e)
{
    (void)e;
    m->next = NULL;
    if (x->pairs[m->to][m->from].first)
        x->pairs[m->to][m->from].last->next = m;
    else
        x->pairs[m->to][m->from].first = m;
    x->pairs[m->to][m->from].last = m;
    return 0;
}

/* Returns the possible choices. Nodes that have ended receive nothing. */
static choices open_choices(const struct sim_explorer *x)
{
    const struct sim *s = x->s;
    choices open = 0;

    for (int i = 0; i < s->n_nodes; i++) {
        const struct sim_node *n = &s->nodes[i];

        if (sim_node_is_over(n))
            continue;
        for (int k = 0; k < s->n_nodes; k++)
            open |= x->pairs[i][k].first ? bit_of(i, k) : 0;
        if (n->phase == SIM_BEGINS && !exchange_must_wait(n->x))
            open |= bit_of(i, STEP);
        if (isfinite(exchange_wakes_at(n->x)))
            open |= bit_of(i, TIMER);
    }
    return open;
}

/* The same; if there are none, good-byes that were withheld may be. Returns 1, or 0: there is no choice; or a
 * code. */
static int next_choices(const struct sim_explorer *x, choices *open, struct err *e)
{
    *open = open_choices(x);
    if (*open == 0 && sim_tell_waiting(x->s, e) < 0)
        return e->code;
    *open = open_choices(x);
    return *open != 0;
}

/* Executes a choice, and everything at that node that follows without another choice. */
static int take_choice(struct sim_explorer *x, int choice, struct err *e)
{
    struct sim *s = x->s;
    struct sim_node *n = &s->nodes[choice / SOURCES];
    int source = choice % SOURCES;

    if (source < EXPLORE_NODES) {
        struct sim_message *m = x->pairs[n->slot][source].first;

        x->pairs[n->slot][source].first = m->next;
        mesh_sim_deliver(s->net, m);
    } else if (source == TIMER) {
        n->now = fmax(n->now, exchange_wakes_at(n->x));
        n->has_room = true;
    }
    n->may_step = source == STEP;
    if (sim_node_drive(s, n, e) < 0)
        return e->code;
    while (s->n_waking > 0)
        if (sim_node_drive(s, &s->nodes[s->waking[--s->n_waking]], e) < 0)
            return e->code;
    return 0;
}

/* Returns the choice at the end of the schedule; -1: none is left that leads to a new state. */
static int choose_next(struct sim_explorer *x, choices open)
{
    const struct branch *last = x->n_path > 0 ? &x->path[x->n_path - 1] : NULL;
    choices asleep = last ? (last->asleep | last->done) & ~all_of(last->chosen / SOURCES) : 0;

    if (!(open & ~asleep))
        return -1;
    x->path[x->n_path++] = (struct branch){
        .open = open, .asleep = asleep & open, .chosen = first_of(open & ~asleep)};
    return x->path[x->n_path - 1].chosen;
}

/* Copies the weights of all workers, one after the other. */
static void copy_outcome(const struct sim *s, float *to)
{
    for (int i = 0; i < s->set.node_count; i++)
        memcpy(to + (size_t)i * s->workload->n_params, s->nodes[i].params,
               s->workload->n_params * sizeof *to);
}

static bool has_other_outcome(const struct sim_explorer *x)
{
    const struct sim *s = x->s;

    for (int i = 0; i < s->set.node_count; i++)
        if (memcmp(x->outcome + (size_t)i * s->workload->n_params, s->nodes[i].params,
                   s->workload->n_params * sizeof *x->outcome) != 0)
            return true;
    return false;
}

/* Writes the failure of a schedule that has ended. */
static void check_schedule(struct sim_explorer *x, struct explore_result *out)
{
    struct sim *s = x->s;

    sim_end_hanging(s);
    if (s->cause >= 0)
        snprintf(out->failure, sizeof out->failure, "node %d: %.200s", s->nodes[s->cause].node,
                 s->nodes[s->cause].e ? s->nodes[s->cause].e->text : "lost");
    else if (!sim_models_are_finite(s))
        snprintf(out->failure, sizeof out->failure, "not all weights are finite");
    else if (out->n_orders == 0)
        copy_outcome(s, x->outcome);
    else
        out->n_different += has_other_outcome(x);
    if (out->n_different > 0 && s->set.sync == SYNC_SSGD && !codec_more(s->codec.plugin)->events)
        snprintf(out->failure, sizeof out->failure,
                 "the weights are not those of the first order: the rule depends on timing");
    out->n_orders++;
}

static const char source_names[SOURCES + 1] = "01234st";

static void write_order(const struct sim_explorer *x, char *out)
{
    for (int i = 0; i < x->n_path; i++) {
        if (i > 0)
            *out++ = '.';
        *out++ = (char)('0' + x->path[i].chosen / SOURCES);
        *out++ = source_names[x->path[i].chosen % SOURCES];
    }
    *out = '\0';
}

/* The choices that `text` lists become the schedule. */
static int read_order(struct sim_explorer *x, const char *text, struct err *e)
{
    for (const char *at = text;; at += 3) {
        const char *source = at[0] && at[1] ? strchr(source_names, at[1]) : NULL;

        if (at[0] < '0' || at[0] >= '0' + EXPLORE_NODES || !source || x->n_path == EXPLORE_DEPTH)
            return err_set(e, ERR_CONFIG, "\"%s\" is not an order of deliveries", text);
        x->path[x->n_path++].chosen = (at[0] - '0') * SOURCES + (int)(source - source_names);
        if (!at[2])
            return 0;
        if (at[2] != '.')
            return err_set(e, ERR_CONFIG, "\"%s\" is not an order of deliveries", text);
    }
}

/* Runs one schedule: the choices in the path, then new ones to its end. Returns 1 if it is equivalent to an
 * earlier one. */
static int run_one(struct sim_explorer *x, struct explore_result *out, struct err *e)
{
    int n_given = x->n_path, rc;
    choices open;

    memset(x->pairs, 0, sizeof x->pairs);
    if (sim_restart(x->s, e) < 0 || sim_begin(x->s, e) < 0)
        return e->code;
    for (int depth = 0; (rc = next_choices(x, &open, e)) > 0; depth++) {
        int choice = depth < n_given ? x->path[depth].chosen : -1;

        if (depth == EXPLORE_DEPTH)
            return err_set(e, ERR_CONFIG, "the job is too long: it makes more than %d choices",
                           EXPLORE_DEPTH);
        if (depth < n_given && !(open & (choices)1 << choice))
            return err_set(e, ERR_CONFIG, "this job has no such order: choice %d is not possible", depth + 1);
        if (depth >= n_given && (choice = choose_next(x, open)) < 0)
            return 1;
        if (take_choice(x, choice, e) < 0)
            return e->code;
    }
    if (rc == 0)
        check_schedule(x, out);
    return rc;
}

/* Goes back to the last choice with an alternative; false: there is none. */
static bool go_back(struct sim_explorer *x)
{
    for (; x->n_path > 0; x->n_path--) {
        struct branch *f = &x->path[x->n_path - 1];
        choices left;

        f->done |= (choices)1 << f->chosen;
        left = f->open & ~f->asleep & ~f->done;
        if (left) {
            f->chosen = first_of(left);
            return true;
        }
    }
    return false;
}

static int explore(struct sim_explorer *x, bool is_one, struct explore_result *out, struct err *e)
{
    struct explore_result ignored = {.n_orders = 1};
    int rc;

    do {
        rc = run_one(x, out, e);
        if (rc < 0)
            return rc;
        if (rc == 0)
            write_order(x, out->order);
        if (flag_is_up(&sim_interrupted))
            return err_set(e, ERR_CANCELLED, "stopped after %llu orders, of which none failed",
                           (unsigned long long)out->n_orders);
        if (out->failure[0] || is_one)
            return 0;
        out->is_complete = !go_back(x);
    } while (!out->is_complete);
    /* The last schedule may have been abandoned half-way: repeats it, so that nodes are at their end. */
    x->n_path = 0;
    return read_order(x, out->order, e) < 0 ? e->code : run_one(x, &ignored, e);
}

int sim_explore(struct sim *s, const char *wanted, struct explore_result *out, struct err *e)
{
    struct sim_explorer *x = calloc(1, sizeof *x);
    int rc;

    *out = (struct explore_result){.n_orders = 0};
    if (x)
        x->outcome = malloc((size_t)s->set.node_count * s->workload->n_params * sizeof *x->outcome);
    if (!x || !x->outcome) {
        free(x);
        return err_set(e, ERR_NOMEM, "no memory to search all orders");
    }
    x->s = s;
    s->explorer = x;
    if (s->n_nodes > EXPLORE_NODES)
        rc = err_set(e, ERR_CONFIG, "all orders can be tried with at most %d nodes, not with %d",
                     EXPLORE_NODES, s->n_nodes);
    else if (wanted[0] && read_order(x, wanted, e) < 0)
        rc = e->code;
    else
        rc = explore(x, wanted[0] != '\0', out, e);
    s->explorer = NULL;
    free(x->outcome);
    free(x);
    return rc;
}
