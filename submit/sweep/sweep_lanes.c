#include "submit/sweep/sweep_lanes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "submit/sweep/sweep_process.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

struct lanes {
    const struct sweep *s;
    const struct sweep_run *runs; /* (n) */
    size_t n, next;               /* runs[next] is the first one that has not been looked at */
    struct sweep_process at[SWEEP_LANES];
    size_t n_lanes;
};

/* "Run 3 of 8", "Rung 1 of 2, run 3 of 8". */
static void describe_run(char *out, size_t size, const struct lanes *l, size_t i)
{
    int n = 0;

    if (l->s->plan.n_rungs > 1)
        n = snprintf(out, size, "Rung %zu of %zu, run", l->runs[i].rung + 1, l->s->plan.n_rungs);
    else
        n = snprintf(out, size, "Run");
    snprintf(out + n, size - (size_t)n, " %zu of %zu", i + 1, l->n);
}

/* How a run of a later rung begins. */
static const char *beginning(const struct sweep *s, const struct sweep_run *run)
{
    char ignored[PATH_MAX];

    return run->rung == 0 || s->opt->simulate  ? ""
           : sweep_can_resume(ignored, s, run) ? ", from its checkpoint"
                                               : ", anew: it has no checkpoint";
}

static int start_next(struct lanes *l, size_t lane, struct err *e)
{
    size_t i = l->next++;
    const struct sweep_run *run = &l->runs[i];
    char name[SWEEP_NAME], which[96];

    describe_run(which, sizeof which, l, i);
    sweep_name(name, &l->s->plan, run);
    if (sweep_drop_stale(l->s, run, e) < 0)
        return e->code;
    if (sweep_has_succeeded(l->s, run)) {
        console_more("%s, %s, has succeeded before.", which, name);
        return 0;
    }
    console_info("%s: %s%s.", which, name, beginning(l->s, run));
    return sweep_process_start(&l->at[lane], l->s, run, lane, e);
}

/* A job of an earlier attempt may have the agents of any lane: no new job begins until it has ended. */
static bool must_wait(const struct lanes *l)
{
    bool is_waiting = false;

    for (size_t i = 0; i < l->n_lanes; i++)
        is_waiting |= l->at[i].child.pid > 0 && l->at[i].is_waiting;
    return is_waiting && !sweep_has_job(l->s, &l->runs[l->next]) &&
           !sweep_has_succeeded(l->s, &l->runs[l->next]);
}

static int fill_lanes(struct lanes *l, struct err *e)
{
    for (size_t i = 0; i < l->n_lanes; i++)
        while (l->at[i].child.pid == 0 && l->next < l->n)
            if (must_wait(l))
                return 0;
            else if (interrupt_check(e) < 0 || start_next(l, i, e) < 0)
                return e->code;
    return 0;
}

static int end_run(struct sweep_process *p, struct err *e)
{
    char name[SWEEP_NAME], why[SWEEP_WHY];
    enum sweep_state state;

    if (sweep_process_ended(p, &state, why, e) < 0)
        return e->code;
    sweep_name(name, &p->s->plan, &p->run);
    if (state == SWEEP_FAILED)
        console_error("%s: %s (%s)", name, why, p->log);
    return 0;
}

/* Waits until a run ends. Returns 1, or 0 if none runs. */
static int await_lanes(struct lanes *l, struct err *e)
{
    struct pollfd fds[SWEEP_LANES + 1];
    size_t n_running = 0;

    for (size_t i = 0; i < l->n_lanes; i++) {
        bool is_running = l->at[i].child.pid > 0;

        fds[i] = (struct pollfd){.fd = is_running ? l->at[i].child.fd : -1, .events = POLLIN};
        n_running += is_running;
    }
    fds[l->n_lanes] = (struct pollfd){.fd = interrupt_fd(), .events = POLLIN};
    if (n_running == 0)
        return 0;
    if (poll(fds, (nfds_t)l->n_lanes + 1, -1) < 0 && errno != EINTR)
        return err_errno(e, ERR_IO, "poll");
    for (size_t i = 0; i < l->n_lanes; i++)
        if (fds[i].revents && interrupt_check(e) == 0 && end_run(&l->at[i], e) < 0)
            return e->code;
    return interrupt_check(e) < 0 ? e->code : 1;
}

int sweep_carry_out(const struct sweep *s, const struct sweep_run *runs, size_t n, struct err *e)
{
    struct lanes l = {.s = s, .runs = runs, .n = n, .n_lanes = s->n_lanes};
    int rc;

    do {
        rc = fill_lanes(&l, e);
        if (rc == 0)
            rc = await_lanes(&l, e);
    } while (rc > 0);
    sweep_processes_stop(l.at, l.n_lanes);
    return rc;
}
