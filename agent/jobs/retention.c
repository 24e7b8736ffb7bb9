#include "agent/jobs/retention.h"

#include <stdint.h>
#include <stdio.h>

#include "agent/base/log.h"
#include "agent/jobs/folder_use.h"
#include "shared/base/clock.h"

static const double DAY_S = 86400, RETRY_S = 60;

/* The wall clock may have been set between two ends: it orders only those of earlier agents. */
static bool ended_before(const struct task *t, const struct task *u)
{
    return t->n_ended != u->n_ended ? t->n_ended < u->n_ended : t->job.finished_at < u->job.finished_at;
}

/* Of its journal and its runner's files, which do not change any more; packages are links to blobs, which
 * have a limit of their own. */
static uint64_t bytes_of(struct task *t)
{
    char path[sizeof t->dir + 8];

    if (t->kept_bytes == 0) {
        snprintf(path, sizeof path, "%s/run", t->dir);
        t->kept_bytes = 1 + folder_use(t->dir, SIZE_MAX).bytes + folder_use(path, SIZE_MAX).bytes;
    }
    return t->kept_bytes;
}

/* The ended jobs, and the one to be removed first. */
struct kept {
    int n;
    uint64_t bytes;
    struct task *oldest;
};

static struct kept count(struct agent *a)
{
    struct kept k = {0};

    for (struct task *t = a->first; t; t = t->next) {
        if (!job_state_is_terminal(t->job.state))
            continue;
        k.n++;
        if (a->opt.keep_gib > 0)
            k.bytes += bytes_of(t);
        if (!k.oldest || ended_before(t, k.oldest))
            k.oldest = t;
    }
    return k;
}

/* Sets `why` and returns true if the oldest is to go. */
static bool is_beyond(const struct agent *a, const struct kept *k, char why[FORGOTTEN_WHY_MAX])
{
    const struct agent_options *o = &a->opt;

    if (k->n > o->keep)
        snprintf(why, FORGOTTEN_WHY_MAX, "this agent keeps the last %d ended jobs (--keep)", o->keep);
    else if (o->keep_gib > 0 && k->n > 1 && k->bytes > (uint64_t)o->keep_gib << 30)
        snprintf(why, FORGOTTEN_WHY_MAX, "this agent keeps %d GiB of ended jobs (--keep-gib)", o->keep_gib);
    else if (o->keep_days > 0 && k->n > 0 && k->oldest->job.finished_at + o->keep_days * DAY_S < clock_wall())
        snprintf(why, FORGOTTEN_WHY_MAX, "this agent keeps ended jobs for %d days (--keep-days)",
                 o->keep_days);
    else
        return false;
    return true;
}

void keep_trim(struct agent *a)
{
    char why[FORGOTTEN_WHY_MAX];
    struct err e;

    if (clock_now() < a->trim_at)
        return;
    for (struct kept k = count(a); is_beyond(a, &k, why); k = count(a))
        if (task_forget(k.oldest, why, &e) < 0) {
            log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: %s", e.text);
            a->trim_at = clock_now() + RETRY_S;
            return;
        }
}
