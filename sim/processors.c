/* processors -- processors shared by the nodes of one machine (--processors). A node that needs one while
 * none is free is queued. There is no preemption: a runner that waits releases its processor (mesh_tcp.c),
 * and a step is shorter than the kernel's time slices. */
#include "sim/sim.h"

enum { NONE = -1 };

void sim_processors_init(struct sim *s)
{
    s->n_free = s->how.processors;
    s->first_wanting = s->last_wanting = NONE;
}

static void give(struct sim_node *n)
{
    n->has_processor = true;
    n->has_computed = false;
}

static void queue_for_processor(struct sim *s, struct sim_node *n)
{
    n->wants_processor = true;
    n->next_wanting = NONE;
    if (s->first_wanting == NONE)
        s->first_wanting = n->slot;
    else
        s->nodes[s->last_wanting].next_wanting = n->slot;
    s->last_wanting = n->slot;
}

/* Takes the first node from the queue that has not ended. NULL: there is none. */
static struct sim_node *take_next_queued(struct sim *s)
{
    while (s->first_wanting != NONE) {
        struct sim_node *n = &s->nodes[s->first_wanting];

        s->first_wanting = n->next_wanting;
        n->wants_processor = false;
        if (!sim_node_is_over(n))
            return n;
    }
    return NULL;
}

bool sim_processor_is_wanted(const struct sim *s)
{
    return s->first_wanting != NONE;
}

bool sim_processor_take(struct sim *s, struct sim_node *n)
{
    if (s->how.processors == 0 || s->explorer || n->has_processor)
        return true;
    if (s->n_free == 0) {
        if (!n->wants_processor)
            queue_for_processor(s, n);
        return false;
    }
    s->n_free--;
    give(n);
    return true;
}

int sim_processor_leave(struct sim *s, struct sim_node *n, struct err *e)
{
    struct sim_node *next;

    if (!n->has_processor)
        return 0;
    n->has_processor = false;
    next = take_next_queued(s);
    if (!next) {
        s->n_free++;
        return 0;
    }
    give(next);
    return sim_node_keep_busy(s, next, s->queue.now, e);
}

int sim_processor_yield(struct sim *s, struct sim_node *n, struct err *e)
{
    queue_for_processor(s, n);
    return sim_processor_leave(s, n, e);
}
