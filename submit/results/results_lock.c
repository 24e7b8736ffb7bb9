#include "submit/results/results_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/job/job_folder.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

enum { LOOK_MS = 200 };

int results_lock(struct submission *s, struct err *e)
{
    struct pollfd p = {.fd = interrupt_fd(), .events = POLLIN};
    bool has_told = false;
    char path[PATH_MAX];

    if (!s->job_folder[0] || s->lock_fd > 0)
        return 0;
    if (file_join(path, sizeof path, s->job_folder, JOB_FOLDER_COLLECT, e) < 0)
        return e->code;
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (s->lock_fd > 0 && flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        if (interrupt_check(e) < 0) {
            results_unlock(s);
            return e->code;
        }
        if (!has_told)
            console_info("Waiting for another command, which makes the results of %s.", s->id);
        has_told = true;
        poll(&p, 1, LOOK_MS);
    }
    return 0;
}

void results_unlock(struct submission *s)
{
    if (s->lock_fd > 0)
        close(s->lock_fd);
    s->lock_fd = 0;
}
