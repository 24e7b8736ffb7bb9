/* What a node may use, as its monitor reads it: memory of each kind, and threads. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp_link.h"
#include "shared/sandbox/sandbox.h"
#include "tests/lib/node_run.h"
#include "tests/unit/unit.h"

/* Of 256 MiB, which the node may use in all. */
static void share_memory(struct node_process *n)
{
    const struct shm_source s = monitor_source(&n->monitor);
    int fd = s.memory(s.owner, (size_t)160 << 20);
    char *rest = mmap(NULL, (size_t)160 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (fd < 0 || ftruncate(fd, (off_t)320 << 20) == 0)
        _exit(1); /* it may have that much, but not let it grow */
    if (rest != MAP_FAILED)
        _exit(2); /* the same memory again, privately */
    if (s.memory(s.owner, (size_t)160 << 20) >= 0 || errno != ENOMEM)
        _exit(3); /* and again, shared */
    if (s.memory(s.owner, 1) >= 0 || errno != EPIPE)
        _exit(4); /* not whole pages: no request */
}

enum { LIMIT = 256 << 20 };

/* A node that may use LIMIT bytes. */
static void start_limited(struct node_run *t, void (*run)(struct node_process *))
{
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    assert_int_equal(prlimit(0, RLIMIT_DATA, &(struct rlimit){LIMIT, before.rlim_max}, NULL), 0);
    node_run_start(t, "node.log", run, (struct node_process){0});
    setrlimit(RLIMIT_DATA, &before);
}

TEST(shared_memory_counts_against_the_limit_of_memory)
{
    struct node_run t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, share_memory);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

enum { PART = 32 << 20, PARTS = 48 /* six times the limit */ };

/* RLIMIT_DATA counts what may be written to now. */
static void make_read_only(struct node_process *n)
{
    (void)n;
    for (int i = 0; i < PARTS; i++) {
        char *part = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (part == MAP_FAILED)
            _exit(1);
        memset(part, 1, PART);
        mprotect(part, PART, PROT_READ);
    }
    loop_for(60);
}

/* ... and no stack. */
static void grow_stacks(struct node_process *n)
{
    (void)n;
    for (int i = 0; i < PARTS; i++) {
        char *part = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1,
                          0);

        if (part == MAP_FAILED)
            _exit(1);
        memset(part, 1, PART);
    }
    loop_for(60);
}

/* Each page table maps 2 MiB, of which one page is read: it is the page of zeros, which costs nothing. */
static void fill_page_tables(struct node_process *n)
{
    const size_t of_table = (size_t)2 << 20, bytes = (size_t)6 * LIMIT / 4096 * of_table;
    const volatile char *all = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                                    0);

    (void)n;
    if (all == MAP_FAILED)
        _exit(1);
    madvise((void *)(uintptr_t)all, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += of_table)
        (void)all[i];
    loop_for(60);
}

static void *make_read_only_without_the_first_thread(void *arg)
{
    make_read_only(arg);
    return arg;
}

/* /proc/PID/status is that of the first thread, which has no memory when it has ended. */
static void end_the_first_thread(struct node_process *n)
{
    pthread_t other;

    if (pthread_create(&other, NULL, make_read_only_without_the_first_thread, n) != 0)
        _exit(1);
    pthread_exit(NULL);
}

TEST(a_node_that_gets_around_its_limit_of_memory_is_ended_with_a_report_of_what_it_uses)
{
    void (*const acts[])(struct node_process *) = {make_read_only, grow_stacks, fill_page_tables,
                                                   end_the_first_thread};

    if (IS_SANITIZED)
        skip();
    for (size_t i = 0; i < N_OF(acts); i++) {
        double used, may_use, private, shared, tables;
        struct node_run t;

        start_limited(&t, acts[i]);
        node_run_finish(&t, "node.log");
        assert_true(node_run_was_killed(&t));
        assert_int_equal(
            sscanf(t.log,
                   "OutOfMemory: the node uses %lf GiB of memory, of the %lf GiB that a job may use "
                   "here: %lf GiB are private, %lf GiB shared, %lf GiB page tables",
                   &used, &may_use, &private, &shared, &tables),
            5);
        assert_true(used > may_use && may_use == 0.25 && shared == 0);
        assert_true(acts[i] == fill_page_tables ? tables > may_use : private > may_use);
        assert_non_null(strstr(t.events, "\"reason\":\"OutOfMemory\""));
        node_run_clear(&t);
    }
}

/* Nearly all of it is written to. */
static void use_what_is_allowed(struct node_process *n)
{
    enum { MOST = 220 << 20 };
    char *all = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)n;
    if (all == MAP_FAILED)
        _exit(1);
    memset(all, 1, MOST);
    loop_for(0.3);
}

TEST(a_node_within_its_limit_of_memory_is_not_ended)
{
    struct node_run t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, use_what_is_allowed);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

/* In place of the C library's: a name server of whoever chose the name, which does not answer. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    int (*own)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    for (int i = 0; strcmp(host, "silent.test") == 0 && i < 60; i++)
        poll(NULL, 0, 1000);
    *(void **)&own = dlsym(RTLD_NEXT, "getaddrinfo");
    return own(host, service, hints, out);
}

static void *ask_for_silent(void *arg)
{
    struct node_process *n = arg;
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    struct tcp_places p;
    struct err e;

    d.find(d.owner, 0, &p, &e);
    return NULL;
}

static void make_read_only_meanwhile(struct node_process *n)
{
    pthread_t asks;

    node_process_read_start(n);
    if (pthread_create(&asks, NULL, ask_for_silent, n) != 0)
        _exit(1);
    loop_for(0.1);
    make_read_only(n);
}

TEST(a_node_is_watched_while_its_monitor_waits_for_a_name_server)
{
    struct node_run t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, make_read_only_meanwhile);
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_PEERS("0 a:1 silent.test 9 " NODE_RUN_KEY));
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    assert_non_null(strstr(t.log, "OutOfMemory: "));
    node_run_clear(&t);
}

static void *do_nothing(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void start_threads(struct node_process *n)
{
    pthread_attr_t small;
    pthread_t t;

    (void)n;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)(IS_SANITIZED ? 1024 : 64) << 10);
    for (int i = 0; i < sandbox_threads() + 8; i++)
        if (pthread_create(&t, &small, do_nothing, NULL) != 0)
            _exit(1);
    loop_for(60);
}

TEST(a_node_with_too_many_threads_is_ended_with_a_report)
{
    struct node_run t;

    node_run_start(&t, "node.log", start_threads, (struct node_process){0});
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    assert_non_null(strstr(t.log, "CodecFailed: the node has "));
    assert_non_null(strstr(t.events, "\"reason\":\"CodecFailed\""));
    node_run_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory_counts_against_the_limit_of_memory),
        cmocka_unit_test(a_node_that_gets_around_its_limit_of_memory_is_ended_with_a_report_of_what_it_uses),
        cmocka_unit_test(a_node_within_its_limit_of_memory_is_not_ended),
        cmocka_unit_test(a_node_is_watched_while_its_monitor_waits_for_a_name_server),
        cmocka_unit_test(a_node_with_too_many_threads_is_ended_with_a_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
