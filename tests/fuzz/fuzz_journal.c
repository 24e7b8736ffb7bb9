/* Any file as a journal. What is recovered must be a prefix of it, hold only events in a valid sequence,
 * and be recovered whole the second time. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/job.h"
#include "agent/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char path[64];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static int replay(void *arg, const struct event *ev, struct err *e)
{
    return job_apply(arg, ev, e);
}

/* The journal's end, or -1 if it is refused, in which case the file must be unchanged. */
static off_t recover(struct job *job, uint64_t *n_read)
{
    struct journal j;
    off_t cut, at = 0, end;
    char line[EVENT_LINE_MAX + 1];
    struct err e;
    size_t len;

    job_init(job);
    *n_read = 0;
    if (journal_open(&j, path, replay, job, &cut, &e) < 0) {
        must(e.code == ERR_CONFIG);
        return -1;
    }
    must(j.n_events == job->last_seq);
    for (*n_read = 0; journal_next(&j, &at, line, &len); ++*n_read)
        must(len <= EVENT_LINE_MAX);
    end = j.end;
    journal_close(&j);
    return end;
}

static void remove_file(void)
{
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static int fd = -1;
    struct job first, second;
    uint64_t n_first, n_second;
    off_t end;

    if (fd < 0) {
        snprintf(path, sizeof path, "/dev/shm/psgd-fuzz-journal-%ld", (long)getpid());
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        must(fd >= 0 && atexit(remove_file) == 0);
    }
    must(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len);
    end = recover(&first, &n_first);
    must(end >= 0 || lseek(fd, 0, SEEK_END) == (off_t)len);
    must(end <= (off_t)len && (end <= 0 || bytes[end - 1] == '\n'));
    must(recover(&second, &n_second) == end && n_second == n_first);
    must(first.state == second.state && first.last_seq == second.last_seq);
    job_clear(&first);
    job_clear(&second);
    return 0;
}
