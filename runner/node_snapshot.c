/* node_snapshot -- the model of a running node, for an agent that requests it by SIGURG. */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/net.h"
#include "runner/node.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"

/* A client that requests models all the time must not stop the training: the node writes at most one model a
 * second, and spends at most a fifth of its time on large ones. */
static const double EVERY_S = 1, REST = 4;

static atomic_bool is_wanted;

static void on_sigurg(int sig)
{
    (void)sig;
    flag_raise(&is_wanted);
}

void node_handle_snapshot_signal(void)
{
    const struct sigaction ask = {.sa_handler = on_sigurg, .sa_flags = SA_RESTART};

    sigaction(SIGURG, &ask, NULL);
}

/* Copies a server's model to n->model, if it is not its params. */
static int copy_server_model(struct node *n, struct err *e)
{
    const float *held = exchange_held_model(n->exchange);
    size_t bytes = net_n_params(n->net) * sizeof *held;

    if (!held && n->set.server_count > 1)
        return err_set(e, ERR_CONFLICT, "a server of several holds a part of the model only; ask a worker");
    if (!held)
        return err_set(e, ERR_CONFLICT,
                       "codec %s keeps the model on the workers, not on the server; ask a worker",
                       n->set.codec);
    if (held == net_params(n->net))
        return 0;
    if (!n->model)
        n->model = malloc(bytes);
    if (!n->model)
        return err_set(e, ERR_NOMEM, "no memory for a copy of the model");
    memcpy(n->model, held, bytes);
    return 0;
}

static int write_now(struct node *n, struct err *e)
{
    char name[NAME_MAX + 1];

    if (n->program && n->training->store(n, e) < 0)
        return e->code;
    if (n->job.node < 0 ? copy_server_model(n, e) < 0 : (node_take_model(n), false))
        return e->code;
    if (file_temporary(name, sizeof name, SNAPSHOT_NAME, e) < 0 || node_write_model(n, name, NAN, e) < 0)
        return e->code;
    return 0;
}

bool node_snapshot(struct node *n)
{
    struct stopwatch *watch = exchange_watch(n->exchange);
    double now, end;
    enum phase last;
    struct err e = {0};

    if (!flag_is_up(&is_wanted) || (now = clock_now()) < n->snapshot_at)
        return false;
    flag_lower(&is_wanted);
    last = phase_enter(watch, PHASE_CHECKPOINT);
    report_model(n->report, node_progress(n).step, write_now(n, &e) < 0 ? e.text : NULL);
    end = clock_now();
    n->snapshot_at = end + fmax(EVERY_S, REST * (end - now));
    phase_enter(watch, last);
    return true;
}
