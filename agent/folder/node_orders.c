#include "agent/folder/node_orders.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/jobs/job_end.h"
#include "shared/base/clock.h"
#include "shared/job/reason.h"

/* From one look at the files to the next; and the time in which a runner saves (runner/node.h), with some for
 * its end. Slurm kills this process 30 s after SIGTERM. */
static const double LOOK_S = 0.5, SAVE_GRACE_S = 25;

static void on_signal(void *arg, uint32_t events)
{
    struct node_process *f = arg;
    struct signalfd_siginfo info;

    (void)events;
    if (read(f->stop_watch.fd, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGUSR1)
        f->wants_checkpoint = true;
    else
        f->signal = (int)info.ssi_signo;
}

int node_orders_open(struct node_process *f, struct err *e)
{
    static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

    sigemptyset(&f->stop_set);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        sigaddset(&f->stop_set, taken[i]);
    sigprocmask(SIG_BLOCK, &f->stop_set, NULL);
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would discard the runner's exit status */
    signal(SIGPIPE, SIG_IGN);
    f->stop_watch = (struct watch){
        .fd = signalfd(-1, &f->stop_set, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .arg = f};
    if (f->stop_watch.fd < 0)
        return err_errno(e, ERR_IO, "signalfd");
    return loop_watch(&f->loop, &f->stop_watch, EPOLLIN, e);
}

double node_orders_grace(const struct node_process *f)
{
    return settings_has_checkpoints(&f->set) ? SAVE_GRACE_S : STOP_GRACE_S;
}

/* One node is enough: it asks the others (runner/exchange/save_vote.h). */
static void pass_on_checkpoint(struct node_process *f)
{
    if (!f->wants_checkpoint || f->task->job.state != JOB_RUNNING)
        return;
    f->wants_checkpoint = false;
    runner_ask(&f->task->runner, SIGUSR1);
}

void node_orders_follow(struct node_process *f)
{
    char reason[200];
    bool has_failed = false;

    if (f->signal && !f->task->stop_reason[0]) {
        snprintf(reason, sizeof reason, "%s, by the launcher or a user", strsignal(f->signal));
        job_stop(f->task, REASON_USER_CANCELLED, reason, node_orders_grace(f));
    }
    pass_on_checkpoint(f);
    if (clock_now() - f->looked_at < LOOK_S || f->task->stop_reason[0])
        return;
    f->looked_at = clock_now();
    f->wants_checkpoint |= meeting_takes_checkpoint(&f->meet);
    if (meeting_is_stopped(&f->meet, reason, &has_failed))
        job_stop(f->task, has_failed ? REASON_JOB_FAILED : REASON_USER_CANCELLED, reason,
                 node_orders_grace(f));
}
