#include "tests/lib/arena_crew.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/clock.h"
#include "shared/crypto.h"

enum { MEETING_S = 20, WHOLE_LIFE_S = 60 };

int crew_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (!d)
        exit(1);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int crew_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    if (!f)
        exit(1);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "memfd:psgd-arena") != NULL;
    fclose(f);
    return n;
}

static void must(int rc, const struct err *e, int me)
{
    if (rc < 0) {
        fprintf(stderr, "node %d: %s\n", me, e->text);
        exit(1);
    }
}

int crew_poll(struct arena *a, double deadline, struct err *e)
{
    struct pollfd p = {.fd = arena_fd(a), .events = POLLIN};

    for (;;) {
        int rc = arena_poll(a, e);
        double left = deadline - clock_now();

        if (rc != 0)
            return rc;
        if (left <= 0)
            return arena_late(a, e);
        if (poll(&p, 1, (int)(left * 1e3) + 1) < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "poll");
    }
}

void crew_meet(struct crew *c, struct arena *a, int me)
{
    struct crew_board *b = c->board;
    struct err e;

    memcpy(b->names[me], arena_name(a), sizeof b->names[me]);
    for (int i = me + 1; i < c->n; i++)
        arena_expect(a, i, b->secrets[me][i]);
    atomic_fetch_add(&b->n_named, 1);
    while (atomic_load(&b->n_named) < c->n)
        sched_yield();
    for (int i = 0; i < me; i++)
        must(arena_connect(a, i, b->names[i], b->secrets[i][me], &e), &e, me);
    must(crew_poll(a, clock_now() + MEETING_S, &e), &e, me);
}

static int live(struct crew *c, int me, size_t n_floats, crew_part *part, void *arg)
{
    int nodes[CREW_MAX], fds = crew_fds(), mappings = crew_mappings(), rc;
    struct arena *a;
    struct err e;

    alarm(WHOLE_LIFE_S);
    for (int i = 0; i < c->n; i++)
        nodes[i] = i;
    must(arena_open(&a, &(struct arena_config){c->n, nodes, me, n_floats}, &e), &e, me);
    crew_meet(c, a, me);
    rc = part(c, a, me, arg);
    arena_close(a);
    if (crew_fds() != fds || crew_mappings() != mappings) {
        fprintf(stderr, "node %d: %d descriptors and %d mappings are left\n", me, crew_fds() - fds,
                crew_mappings() - mappings);
        return 1;
    }
    return rc;
}

void crew_start(struct crew *c, int n, size_t n_floats, crew_part *part, void *arg)
{
    *c = (struct crew){.n = n};
    c->board = mmap(NULL, sizeof *c->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->board == MAP_FAILED)
        exit(1);
    random_bytes(c->board->secrets, sizeof c->board->secrets);
    fflush(NULL);
    for (int me = 0; me < n; me++) {
        c->pids[me] = fork();
        if (c->pids[me] == 0) {
            int rc = live(c, me, n_floats, part, arg);

            fflush(NULL);
            _exit(rc);
        }
    }
}

int crew_wait(struct crew *c)
{
    int n_bad = 0;

    for (int i = 0; i < c->n; i++) {
        int status = 1;

        waitpid(c->pids[i], &status, 0);
        n_bad += status != 0;
    }
    munmap(c->board, sizeof *c->board);
    return n_bad;
}
