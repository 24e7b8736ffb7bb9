#include "agent/folder/other_launch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/launch_rank.h"

static int refuse_launch(const struct node_process *f, const struct meeting_offer *first, struct err *e)
{
    err_set(e, ERR_CONFLICT,
            "launch %.100s runs this job already, with process 0 on %.200s; this is launch %.100s",
            first->name, first->machine, f->launch);
    return err_hint(e, "Wait for its end, or cancel the job: job_submit cancel %s.", f->folder);
}

/* Process 0 runs worker 0. */
static bool has_process_0(const struct node_process *f)
{
    char name[JOB_FOLDER_NODE_NAME], folder[PATH_MAX];
    struct err ignored;

    return file_join(folder, sizeof folder, f->folder, job_folder_node_name(name, 0), &ignored) == 0 &&
           job_folder_lock(folder) == JOB_FOLDER_HELD;
}

int other_launch_await(struct node_process *f, struct err *e)
{
    double until = clock_now() + NODE_PROCESS_LOCK_S;
    struct meeting_offer o;

    if (f->rank == 0)
        return 0;
    while (meeting_read_offer(&o, f->folder)) {
        snprintf(f->earlier_offer, sizeof f->earlier_offer, "%s", o.launch);
        if (!launch_is_other(f->launch, o.name) || !has_process_0(f))
            break;
        if (clock_now() > until)
            return refuse_launch(f, &o, e);
        usleep(100000);
    }
    return 0;
}

int other_launch_check(const struct node_process *f, struct err *e)
{
    struct meeting_offer o;

    if (f->rank == 0 || f->meet.attempt > 0 || !meeting_read_offer(&o, f->folder) ||
        strcmp(o.launch, f->earlier_offer) == 0 || !launch_is_other(f->launch, o.name))
        return 0;
    return refuse_launch(f, &o, e);
}
