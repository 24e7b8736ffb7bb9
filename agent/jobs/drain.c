#include "agent/jobs/drain.h"

#include <errno.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/job_action.h"
#include "shared/base/file.h"

static int mark_path(char out[PATH_MAX], const struct agent *a, struct err *e)
{
    return file_join(out, PATH_MAX, a->opt.dir, "draining", e);
}

int drain_load(struct agent *a, struct err *e)
{
    char path[PATH_MAX];

    if (mark_path(path, a, e) < 0)
        return e->code;
    a->is_draining = access(path, F_OK) == 0;
    if (!a->is_draining && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

static int write_mark(const struct agent *a, bool is_draining, struct err *e)
{
    char path[PATH_MAX];

    if (mark_path(path, a, e) < 0)
        return e->code;
    if (is_draining)
        return file_write(path, "", 0, 0600, e);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return file_sync_folder(a->opt.dir, e);
}

int drain_set(struct agent *a, bool is_draining, struct err *e)
{
    if (a->is_draining == is_draining)
        return 0;
    if (write_mark(a, is_draining, e) < 0)
        return e->code;
    a->is_draining = is_draining;
    log_line(LOG_LEVEL_INFO, "agent", NULL, is_draining ? "drained: takes no new jobs" : "resumed");
    job_requeue(a);
    return 0;
}
