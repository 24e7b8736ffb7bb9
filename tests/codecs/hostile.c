/* hostile -- tries what a codec must not be able to do, when it is opened: all gentle acts one after the
 * other, or one of the deadly ones, which may end the process, so that each needs a job of its own. The acts
 * are in the folder hostile/.
 *
 * The results are lines of acts.txt in the run folder: "NAME tries" before an act, then "NAME refused WHY"
 * or "NAME SUCCEEDED". */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec_events.h"
#include "executor.h"
#include "hostile/acts.h"

const struct hostile *hostile_now;

static const struct act *const gentle[] = {hostile_files, hostile_processes, hostile_network, hostile_memory,
                                           hostile_trainer};

enum { N_DEADLY_MAX = 100, N_GENTLE = sizeof gentle / sizeof *gentle };

static const struct codec_option options[] = {
    CODEC_OPTION(struct hostile, act, 0, 0, N_DEADLY_MAX,
                 "0: all gentle acts; else the number of a deadly one"),
    CODEC_OPTION(struct hostile, pid, 1, 1, 1 << 30, "of another process of the agent's user"),
    {0},
};

static void attempt(const struct act *a, int fd)
{
    int why;

    dprintf(fd, "%s tries\n", a->name);
    why = a->run();
    if (why == 0)
        dprintf(fd, "%s SUCCEEDED\n", a->name);
    else
        dprintf(fd, "%s refused %s\n", a->name, strerror(why));
}

/* The deadly act of this number, from 1; NULL: there is none. */
static const struct act *deadly_act(int number)
{
    const struct act *a = hostile_deadly;

    while (a->name && --number > 0)
        a++;
    return a->name ? a : NULL;
}

/* False: errno. */
static bool act_as(struct hostile *h)
{
    const struct act *deadly = h->act > 0 ? deadly_act(h->act) : NULL;
    int fd = open("acts.txt", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    if (h->act > 0 && !deadly) {
        close(fd);
        errno = EINVAL;
        return false;
    }
    hostile_now = h;
    if (deadly)
        attempt(deadly, fd);
    for (int i = 0; h->act == 0 && i < N_GENTLE; i++)
        for (const struct act *a = gentle[i]; a->name; a++)
            attempt(a, fd);
    close(fd);
    return true;
}

static int hostile_open(struct codec *c)
{
    return act_as(c->state) ? CODEC_GO : codec_fail(c, "acts.txt: %s", strerror(errno));
}

static int hostile_on_step(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events hostile = {.on_step = hostile_on_step, .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "hostile", .source = "a test", .state_size = sizeof(struct hostile), .options = options,
             .open = hostile_open, .more = CODEC_MORE(.events = &hostile))

/* The same as an executor, with `act` and `pid` as arguments. */
static int hostile_run(struct executor *x)
{
    static struct hostile h;

    h.act = x->n_args > 0 ? atoi(x->args[0]) : 0;
    h.pid = x->n_args > 1 ? atoi(x->args[1]) : 1;
    return act_as(&h) ? 0 : x->host->fail(x, "acts.txt: %s", strerror(errno));
}

EXECUTOR_PLUGIN(.name = "hostile", .run = hostile_run)
