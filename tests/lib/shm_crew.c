#include "tests/lib/shm_crew.h"
#include "tests/lib/sealed_memory.h"

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

enum { WHOLE_LIFE_S = 300 };

static const double RENDEZVOUS_S = 60;

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
        n += strstr(line, "memfd:psgd-shared") != NULL;
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

/* Until the descriptor is readable. ERR_TIMEOUT: the deadline has passed. */
static int sleep_on(int fd, double deadline, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    double left = deadline - clock_now();

    if (left <= 0)
        return ERR_TIMEOUT;
    if (poll(&p, 1, (int)(left * 1e3) + 1) < 0 && errno != EINTR)
        return err_errno(e, ERR_IO, "poll");
    return 0;
}

int crew_poll(struct shm_group *a, double deadline, struct err *e)
{
    char what[128];
    int rc = shm_group_poll(a, e);

    while (rc == 0) {
        rc = sleep_on(shm_group_fd(a), deadline, e);
        if (rc == 0)
            rc = shm_group_poll(a, e);
    }
    if (rc != ERR_TIMEOUT)
        return rc;
    shm_group_waits_for(a, what, sizeof what);
    return err_set(e, ERR_TIMEOUT, "%s is not there in time", what);
}

/* As crew_poll, until all have come. */
static int await_all(struct rendezvous *m, double deadline, struct err *e)
{
    int rc = rendezvous_advance(m, e);

    while (rc == 0) {
        rc = sleep_on(rendezvous_fd(m), deadline, e);
        if (rc == 0)
            rc = rendezvous_advance(m, e);
    }
    return rc == ERR_TIMEOUT ? rendezvous_late(m, e) : rc;
}

void crew_join(struct crew *c, struct rendezvous *m, int me)
{
    struct crew_board *b = c->board;
    struct err e;

    memcpy(b->names[me], rendezvous_name(m), sizeof b->names[me]);
    for (int i = me + 1; i < c->n; i++)
        rendezvous_expect(m, i, b->secrets[me][i]);
    atomic_fetch_add(&b->n_named, 1);
    while (atomic_load(&b->n_named) < c->n)
        sched_yield();
    for (int i = 0; i < me; i++)
        must(rendezvous_connect(m, i, b->names[i], b->secrets[i][me], &e), &e, me);
    must(await_all(m, clock_now() + RENDEZVOUS_S, &e), &e, me);
}

static int live(struct crew *c, int me, size_t n_floats, crew_part *part, void *arg)
{
    int nodes[CREW_MAX], fds = crew_fds(), mappings = crew_mappings(), rc;
    size_t bytes = shm_group_bytes(n_floats);
    struct rendezvous_config cfg = {c->n, nodes, me, bytes, bytes, bytes, NULL};
    struct rendezvous *m;
    struct shm_group *a;
    struct err e;

    alarm(WHOLE_LIFE_S);
    for (int i = 0; i < c->n; i++)
        nodes[i] = i;
    must(rendezvous_open(&m, &cfg, &e), &e, me);
    crew_join(c, m, me);
    must(shm_group_open(&a, m, n_floats, &e), &e, me);
    rc = part(c, a, me, arg);
    shm_group_close(a);
    if (crew_fds() != fds || crew_mappings() != mappings) {
        fprintf(stderr, "node %d: %d descriptors and %d mappings are left\n", me, crew_fds() - fds,
                crew_mappings() - mappings);
        return 1;
    }
    return rc;
}

void crew_start(struct crew *c, int n, size_t n_floats, crew_part *part, void *arg)
{
    needs_sealed_memory();
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
