#include "submit/job/folder_process.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/process.h"
#include "shared/job/job_folder.h"
#include "shared/job/job_state.h"
#include "shared/job/reason.h"

/* The time by the clock of the file system, which is that of a server and not of this machine. */
static double clock_of_files(const char *node)
{
    double now = clock_wall();
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;
    int fd = -1;

    if (file_join(path, sizeof path, node, ".clock-XXXXXX", &ignored) == 0)
        fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return now;
    if (fstat(fd, &st) == 0)
        now = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
    unlink(path);
    close(fd);
    return now;
}

/* Whether its process writes its state no more. Its clock and that of this machine may be apart. */
static bool is_silent(struct folder_process *p, const char *node, const json_t *state)
{
    const double now = clock_now(), written = json_number_at(state, "written_s", 0);

    if (p->heard_at == 0)
        p->heard_at = now - fmax(clock_of_files(node) - p->changed_at, 0);
    else if (written != p->written_s)
        p->heard_at = now;
    p->written_s = written;
    return now - p->heard_at > JOB_FOLDER_GONE_S;
}

bool folder_process_is_gone(struct folder_process *p, const char *node, const json_t *state)
{
    const enum job_folder_lock lock = job_folder_lock(node);
    char here[256] = "", boot[PROCESS_BOOT];

    gethostname(here, sizeof here - 1);
    process_boot(boot);
    if (lock == JOB_FOLDER_FREE && strcasecmp(here, json_text_at(state, "host")) == 0 &&
        strcmp(boot, json_text_at(state, "boot")) == 0)
        return true;
    if (lock != JOB_FOLDER_HELD)
        return is_silent(p, node, state);
    p->heard_at = 0;
    return false;
}

void folder_process_note_gone(json_t *state)
{
    char at[CLOCK_TEXT];

    json_object_set_new(state, "state", json_string(job_state_name(JOB_FAILED)));
    json_object_set_new(state, "reason", json_string(REASON_RUNNER_DIED));
    json_object_set_new(state, "message",
                        json_sprintf("its process on %s, %lld, has ended without reporting why: it was "
                                     "killed, or its machine failed; it wrote its state last at %s",
                                     json_text_at(state, "host"),
                                     (long long)json_integer_value(json_object_get(state, "process")),
                                     clock_text(at, json_number_at(state, "written_s", 0))));
}
