#include "agent/jobs/drain.h"

#include <errno.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/job_action.h"
#include "shared/base/file.h"

static int mark_path(char out[PATH_MAX], const struct jobs *jobs, struct err *e)
{
    return file_join(out, PATH_MAX, jobs->opt->dir, "draining", e);
}

int drain_load(struct jobs *jobs, struct err *e)
{
    char path[PATH_MAX];

    if (mark_path(path, jobs, e) < 0)
        return e->code;
    jobs->is_draining = access(path, F_OK) == 0;
    if (!jobs->is_draining && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

static int write_mark(const struct jobs *jobs, bool is_draining, struct err *e)
{
    char path[PATH_MAX];

    if (mark_path(path, jobs, e) < 0)
        return e->code;
    if (is_draining)
        return file_write(path, "", 0, 0600, e);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return file_sync_folder(jobs->opt->dir, e);
}

int drain_set(struct jobs *jobs, bool is_draining, struct err *e)
{
    if (jobs->is_draining == is_draining)
        return 0;
    if (write_mark(jobs, is_draining, e) < 0)
        return e->code;
    jobs->is_draining = is_draining;
    log_line(LOG_LEVEL_INFO, "agent", NULL, is_draining ? "drained: takes no new jobs" : "resumed");
    job_requeue(jobs);
    return 0;
}
