#include "runner/exit_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/job/reason.h"

static struct {
    const struct stopwatch *watch; /* NULL: an exit is no failure */
    struct report *report;
    char message[192];
} guard;

static void check_exit(void)
{
    if (!guard.watch || !stopwatch_in_codec(guard.watch))
        return;
    fprintf(stderr, REASON_CODEC_FAILED ": %s\n", guard.message);
    report_end(guard.report, "failed", REASON_CODEC_FAILED, guard.message);
    _exit(1);
}

int exit_guard_begin(const struct stopwatch *watch, const char *kind, const char *name, struct report *r,
                     struct err *e)
{
    guard.report = r;
    guard.watch = watch;
    snprintf(guard.message, sizeof guard.message, "%s %s has called exit: a node ends when its job does",
             kind, name);
    return atexit(check_exit) == 0 ? 0 : err_set(e, ERR_NOMEM, "no memory for an exit handler");
}

void exit_guard_end(void)
{
    guard.watch = NULL;
}
