/* node_stop -- what a running node does by SIGTERM, which ends it, and by SIGUSR1, which asks for a
 * checkpoint. */
#include <inttypes.h>
#include <signal.h>

#include "runner/exchange/save_vote.h"
#include "runner/node.h"
#include "shared/base/clock.h"

static const double FLUSH_S = 1; /* time in which the last messages are sent, before the node ends */

atomic_bool node_interrupted;
static _Atomic double interrupted_at; /* clock_now, once node_interrupted is up */
static atomic_bool is_asked_to_save;

static void on_sigterm(int sig)
{
    (void)sig;
    if (!flag_is_up(&node_interrupted))
        atomic_store(&interrupted_at, clock_now());
    flag_raise(&node_interrupted);
}

static void on_sigusr1(int sig)
{
    (void)sig;
    flag_raise(&is_asked_to_save);
}

void node_handle_stop_signals(void)
{
    const struct sigaction term = {.sa_handler = on_sigterm}; /* without SA_RESTART: it interrupts a wait */
    const struct sigaction save = {.sa_handler = on_sigusr1, .sa_flags = SA_RESTART};

    sigaction(SIGTERM, &term, NULL);
    sigaction(SIGUSR1, &save, NULL);
}

bool node_saves_at_end(const struct node *n)
{
    return n->job.ends_with_agent && !n->executing && n->mesh && save_vote_is_used(n->exchange);
}

bool node_is_late(void)
{
    return flag_is_up(&node_interrupted) && clock_now() > atomic_load(&interrupted_at) + NODE_SAVE_S;
}

static int cancel_with(uint64_t step, struct err *e)
{
    return err_set(e, ERR_CANCELLED, "asked to stop; all nodes have a checkpoint after step %" PRIu64, step);
}

/* The others wait for what is in the queue. */
static void flush_messages(struct node *n)
{
    double until = clock_now() + FLUSH_S;
    struct mesh_event ev;
    struct err ignored;

    while (mesh_queued(n->mesh) > 0 && clock_now() < until && mesh_poll(n->mesh, &ev, until, &ignored) == 0)
        mesh_buf_put(ev.buf);
}

/* If no step was done since the last checkpoint on request, that one counts: the node that asked for it may
 * have ended before SIGTERM reached this one. */
static bool is_kept_at_end(const struct node *n)
{
    return save_vote_is_at_kept(n->exchange) ||
           (n->has_asked_to_end && save_vote_kept(n->exchange) > n->kept_before);
}

static int ask_to_end(struct node *n, struct err *e)
{
    n->has_asked_to_end = true;
    n->kept_before = save_vote_kept(n->exchange);
    return save_vote_ask(n->exchange, e);
}

static int end_when_saved(struct node *n, struct err *e)
{
    if (!n->has_asked_to_end && ask_to_end(n, e) < 0)
        return e->code;
    if (is_kept_at_end(n)) {
        flush_messages(n);
        return cancel_with(save_vote_kept(n->exchange), e);
    }
    if (node_is_late())
        return err_set(
            e, ERR_CANCELLED,
            "asked to stop; not all nodes ended their round and wrote a checkpoint within %d s, so "
            "that an earlier one counts: --local-steps N makes rounds shorter",
            NODE_SAVE_S);
    return 0;
}

int node_heed_signals(struct node *n, struct err *e)
{
    if (flag_is_up(&is_asked_to_save)) {
        flag_lower(&is_asked_to_save);
        if (!n->executing && save_vote_ask(n->exchange, e) < 0)
            return e->code;
    }
    if (!flag_is_up(&node_interrupted))
        return 0;
    return node_saves_at_end(n) ? end_when_saved(n, e) : err_set(e, ERR_CANCELLED, "asked to stop");
}

int node_explain_stop(const struct node *n, struct err *e)
{
    if (e->code != ERR_LOST || !flag_is_up(&node_interrupted) || !node_saves_at_end(n))
        return e->code;
    /* Another node got its signal first, and has ended with that vote. */
    if (n->has_asked_to_end && save_vote_has_saved(n->exchange))
        return err_set(e, ERR_CANCELLED, "asked to stop; this node has a checkpoint after step %" PRIu64,
                       n->worker.saved_step);
    return is_kept_at_end(n) ? cancel_with(save_vote_kept(n->exchange), e) : e->code;
}
