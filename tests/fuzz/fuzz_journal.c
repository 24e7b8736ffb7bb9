/* Any file as a journal. What is recovered must hold only events in a valid sequence, and be recovered whole
 * the second time, without another damaged line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/jobs/job.h"
#include "agent/jobs/journal.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char path[64], aside[96];

static size_t n_damaged;

static int replay(void *arg, const struct event *ev, struct err *e)
{
    return job_apply(arg, ev, e);
}

static void note_damage(void *arg, size_t line, const char *why)
{
    struct job *job = arg;

    must(line > 0);
    job->has_gap = true;
    n_damaged += why != NULL;
}

/* Returns the journal's end. */
static off_t recover(struct job *job, uint64_t *n_read)
{
    const struct journal_replay r = {.event = replay, .damage = note_damage, .arg = job};
    struct journal j;
    off_t cut, at = 0, end;
    char line[EVENT_LINE_MAX + 1];
    struct err e;
    size_t len;

    job_init(job);
    *n_read = 0;
    must(journal_open(&j, path, &r, &cut, &e) == 0);
    must(j.n_events <= job->last_seq && !j.is_doubtful);
    for (*n_read = 0; journal_next(&j, &at, line, &len); ++*n_read)
        must(len <= EVENT_LINE_MAX);
    must(*n_read == j.n_events);
    end = j.end;
    journal_close(&j);
    return end;
}

static void remove_files(void)
{
    unlink(path);
    unlink(aside);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static bool is_registered;
    int fd;
    struct job first, second;
    uint64_t n_first, n_second;
    off_t end;

    if (!is_registered) {
        snprintf(path, sizeof path, "/dev/shm/psgd-fuzz-journal-%ld", (long)getpid());
        snprintf(aside, sizeof aside, "%s" JOURNAL_DAMAGED, path);
        is_registered = true;
        must(atexit(remove_files) == 0);
    }
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
    end = recover(&first, &n_first);
    must(end <= (off_t)len && (end <= 0 || bytes[end - 1] == '\n'));
    n_damaged = 0;
    must(recover(&second, &n_second) == end && n_second == n_first && n_damaged == 0);
    remove_files();
    must(first.state == second.state && first.last_seq == second.last_seq);
    return 0;
}
