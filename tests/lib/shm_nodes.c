#include "tests/lib/shm_nodes.h"
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

#include "shared/base/clock.h"
#include "shared/base/crypto.h"

enum { NODE_TIMEOUT_S = 1000 };

static const double RENDEZVOUS_S = 600;

int count_open_fds(void)
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

int count_shared_mappings(void)
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

/* Waits until the descriptor is readable. ERR_TIMEOUT: the deadline has passed. */
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

int shm_nodes_poll(struct shm_group *a, double deadline, struct err *e)
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
    return err_set(e, ERR_TIMEOUT, "%s is not complete in time", what);
}

/* Waits until all nodes have joined. */
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

void shm_nodes_join(struct shm_nodes *c, struct rendezvous *m, int me)
{
    struct shm_nodes_page *b = c->page;
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

static int run_node(struct shm_nodes *c, int me, size_t n_floats, shm_node_main *node_main, void *arg)
{
    int nodes[SHM_NODES_MAX], fds = count_open_fds(), mappings = count_shared_mappings(), rc;
    size_t bytes = shm_group_bytes(n_floats, c->n);
    struct rendezvous_config cfg = {c->n, nodes, me, bytes, bytes, bytes, NULL, NULL};
    struct rendezvous *m;
    struct shm_group *a;
    struct err e;

    alarm(NODE_TIMEOUT_S);
    for (int i = 0; i < c->n; i++)
        nodes[i] = i;
    must(rendezvous_open(&m, &cfg, &e), &e, me);
    shm_nodes_join(c, m, me);
    must(shm_group_open(&a, m, n_floats, &e), &e, me);
    rc = node_main(c, a, me, arg);
    shm_group_close(a);
    if (count_open_fds() != fds || count_shared_mappings() != mappings) {
        fprintf(stderr, "node %d: %d descriptors and %d mappings leaked\n", me, count_open_fds() - fds,
                count_shared_mappings() - mappings);
        return 1;
    }
    return rc;
}

void shm_nodes_start(struct shm_nodes *c, int n, size_t n_floats, shm_node_main *node_main, void *arg)
{
    needs_sealed_memory();
    *c = (struct shm_nodes){.n = n};
    c->page = mmap(NULL, sizeof *c->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->page == MAP_FAILED)
        exit(1);
    random_bytes(c->page->secrets, sizeof c->page->secrets);
    fflush(NULL);
    for (int me = 0; me < n; me++) {
        c->pids[me] = fork();
        if (c->pids[me] == 0) {
            int rc = run_node(c, me, n_floats, node_main, arg);

            fflush(NULL);
            _exit(rc);
        }
    }
}

int shm_nodes_wait(struct shm_nodes *c)
{
    int n_bad = 0;

    for (int i = 0; i < c->n; i++) {
        int status = 1;

        waitpid(c->pids[i], &status, 0);
        n_bad += status != 0;
    }
    munmap(c->page, sizeof *c->page);
    return n_bad;
}
