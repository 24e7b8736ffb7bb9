#include "runner/monitor/monitor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/exit_guard.h"
#include "runner/lines/orders.h"
#include "runner/mesh/tcp/tcp_link.h"
#include "runner/monitor/monitor_wire.h"
#include "runner/sandbox/limits.h"
#include "shared/base/process_tree.h"
#include "tests/unit/unit.h"

#define JOB(limit)                                                                                           \
    "{\"job\":\"j-1\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"time_limit_s\":" limit "}\n"
#define START "{\"attempt\":1,\"peers\":[]}\n"
#define KEY   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HANGS "codec spin has not returned from merge() for 0.2 s: does it loop?"

/* A node with its monitor: what the node does is a function, which runs in a process of its own. */
struct node {
    struct monitor monitor;
    struct report report;
    enum phase phase;
    double limit_s, seconds;
};

struct trial {
    const char *folder;
    pid_t pid;
    int control; /* the agent's end of the control pipe */
    int status;
    char *events, *log;
};

static void loop_for(double seconds)
{
    double until = clock_now() + seconds;
    volatile int busy = 1;

    while (clock_now() < until)
        (void)busy;
}

static void block_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
}

static void start(struct trial *t, const char *log, void (*run)(struct node *), struct node n)
{
    int control[2], data = open("/dev/null", O_RDONLY);
    struct err e;

    *t = (struct trial){.folder = unit_folder()};
    assert_int_equal(pipe2(control, O_CLOEXEC), 0);
    t->control = control[1];
    t->pid = fork();
    if (t->pid == 0) {
        setsid();
        close(control[1]);
        if (chdir(t->folder) < 0 || report_open(&n.report, &e) < 0 || !freopen(log, "w", stderr) ||
            setvbuf(stderr, NULL, _IONBF, 0) != 0 ||
            monitor_start(&n.monitor, control[0], data, &n.report, &e) < 0)
            _exit(98);
        run(&n);
        _exit(7);
    }
    close(control[0]);
    close(data);
    assert_true(t->pid > 0);
}

static void give(const struct trial *t, const char *orders)
{
    assert_int_equal(write(t->control, orders, strlen(orders)), strlen(orders));
}

static void read_text(char **out, const char *folder, const char *name)
{
    char path[128];
    struct err e;
    size_t len;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_read(out, &len, path, 4096, &e));
}

static void finish(struct trial *t, const char *log)
{
    assert_int_equal(waitpid(t->pid, &t->status, 0), t->pid);
    if (t->control >= 0)
        close(t->control);
    read_text(&t->events, t->folder, "events.jsonl");
    if (log[0] != '/')
        read_text(&t->log, t->folder, log);
    unit_remove(t->folder);
}

static void trial_clear(struct trial *t)
{
    free(t->events);
    free(t->log);
}

/* A call of the codec, with every signal blocked that a process can block. */
static void be_in_phase(struct node *n)
{
    struct err e;

    if (monitor_watch(&n->monitor, false, "spin", n->limit_s, &e) < 0)
        _exit(99);
    block_signals();
    phase_call(n->monitor.watch, n->phase, "merge");
    loop_for(n->seconds);
}

static bool was_killed(const struct trial *t)
{
    return WIFSIGNALED(t->status) && WTERMSIG(t->status) == SIGKILL;
}

TEST(a_codec_that_hangs_ends_its_node_with_a_report)
{
    static const enum phase of_codec[] = {PHASE_ENCODE, PHASE_DECODE, PHASE_APPLY};

    for (size_t i = 0; i < N_OF(of_codec); i++) {
        struct trial t;

        start(&t, "node.log", be_in_phase,
              (struct node){.phase = of_codec[i], .limit_s = 0.2, .seconds = 60});
        finish(&t, "node.log");
        assert_true(was_killed(&t));
        assert_string_equal(t.log, "CodecFailed: " HANGS "\n");
        assert_string_equal(
            t.events,
            "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":\"" HANGS
            "\"}\n");
        trial_clear(&t);
    }
}

TEST(a_codec_that_hangs_ends_its_node_after_the_agent_has_ended)
{
    struct trial t;

    start(&t, "node.log", be_in_phase, (struct node){.phase = PHASE_ENCODE, .limit_s = 0.2, .seconds = 60});
    give(&t, JOB("1000") START);
    close(t.control);
    t.control = -1;
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    assert_non_null(strstr(t.events, HANGS));
    trial_clear(&t);
}

TEST(the_agent_is_notified_even_if_the_log_cannot_be_written)
{
    struct trial t;

    start(&t, "/dev/full", be_in_phase, (struct node){.phase = PHASE_DECODE, .limit_s = 0.2, .seconds = 60});
    finish(&t, "/dev/full");
    assert_true(was_killed(&t));
    assert_non_null(strstr(t.events, "\"reason\":\"CodecFailed\""));
    trial_clear(&t);
}

TEST(computing_waiting_and_slow_calls_that_return_are_not_interrupted)
{
    static const struct node cases[] = {{.phase = PHASE_COMPUTE, .limit_s = 0.1, .seconds = 0.5},
                                        {.phase = PHASE_WAIT, .limit_s = 0.1, .seconds = 0.5},
                                        {.phase = PHASE_EVALUATE, .limit_s = 0.1, .seconds = 0.5},
                                        {.phase = PHASE_ENCODE, .limit_s = 60, .seconds = 0.1}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct trial t;

        start(&t, "node.log", be_in_phase, cases[i]);
        finish(&t, "node.log");
        assert_true(WIFEXITED(t.status));
        assert_int_equal(WEXITSTATUS(t.status), 7);
        assert_string_equal(t.events, "");
        trial_clear(&t);
    }
}

/* Is stopped in the midst of a call; the test continues it. */
static void stop_in_call(struct node *n)
{
    struct err e;

    if (monitor_watch(&n->monitor, false, "spin", n->limit_s, &e) < 0)
        _exit(99);
    phase_enter(n->monitor.watch, PHASE_ENCODE);
    raise(SIGSTOP);
    phase_enter(n->monitor.watch, PHASE_COMPUTE);
}

TEST(the_time_in_which_a_node_is_stopped_does_not_count)
{
    struct trial t;
    siginfo_t info;

    start(&t, "node.log", stop_in_call, (struct node){.limit_s = 1});
    assert_int_equal(waitid(P_PID, (id_t)t.pid, &info, WSTOPPED), 0);
    usleep(3000000);
    assert_int_equal(kill(t.pid, SIGCONT), 0);
    finish(&t, "node.log");
    assert_true(WIFEXITED(t.status));
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
}

static void watch_twice(struct node *n)
{
    struct err e;

    if (monitor_watch(&n->monitor, false, "spin", n->limit_s, &e) < 0 ||
        monitor_watch(&n->monitor, false, "spin", 1e6, &e) != ERR_IO)
        _exit(99);
    phase_enter(n->monitor.watch, PHASE_ENCODE);
    loop_for(60);
}

TEST(a_codec_cannot_ask_for_another_limit)
{
    struct trial t;

    start(&t, "node.log", watch_twice, (struct node){.limit_s = 0.2});
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    trial_clear(&t);
}

static void exit_in_phase(struct node *n)
{
    struct err e;

    if (exit_guard_begin(n->monitor.watch, "codec", "spin", &n->report, &e) < 0)
        _exit(99);
    phase_enter(n->monitor.watch, n->phase);
    exit(0);
}

TEST(a_codec_that_calls_exit_has_failed)
{
    struct trial t;

    start(&t, "node.log", exit_in_phase, (struct node){.phase = PHASE_DECODE});
    finish(&t, "node.log");
    assert_true(WIFEXITED(t.status));
    assert_int_equal(WEXITSTATUS(t.status), 1);
    assert_string_equal(t.log, "CodecFailed: codec spin has called exit: a node ends when its job does\n");
    assert_non_null(strstr(t.events, "\"state\":\"failed\",\"reason\":\"CodecFailed\""));
    trial_clear(&t);
    start(&t, "node.log", exit_in_phase, (struct node){.phase = PHASE_COMPUTE}); /* not the codec's fault */
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 0);
    assert_string_equal(t.events, "");
    trial_clear(&t);
}

static void block_for_a_minute(struct node *n)
{
    (void)n;
    block_signals();
    loop_for(60);
}

TEST(the_time_limit_holds_without_an_agent_and_with_all_signals_blocked)
{
    struct trial t;

    start(&t, "node.log", block_for_a_minute, (struct node){0});
    give(&t, JOB("0.5") START);
    close(t.control);
    t.control = -1;
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    assert_string_equal(t.events,
                        "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"TimeLimit\",\"message\":"
                        "\"the job's time limit is over\"}\n");
    trial_clear(&t);
}

TEST(before_the_start_a_node_ends_with_its_agent)
{
    struct trial t;

    start(&t, "node.log", block_for_a_minute, (struct node){0});
    give(&t, JOB("1000"));
    close(t.control);
    t.control = -1;
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    trial_clear(&t);
}

/* Prints the number of the peers that it is told of. */
static struct orders read_start(struct node *n)
{
    static const atomic_bool never = false;
    struct orders_start s;
    struct orders_job job;
    struct orders o;
    struct err e;

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &job, &e) < 0 || orders_read_start(&o, &s, job.node, &never, &e) < 0)
        _exit(99);
    fprintf(stderr, "%s %zu %g", job.job, s.n_peers, job.time_limit_s);
    orders_start_clear(&s);
    return o;
}

static void read_orders(struct node *n)
{
    struct orders o = read_start(n);
    struct orders_job job;
    struct err e;

    _exit(orders_read_job(&o, &job, &e) == ERR_LOST ? 7 : 97);
}

/* Status 7: the end of the orders is told as that of the monitor, 8: of the agent. */
static void tell_end(struct node *n)
{
    struct orders o = read_start(n);
    struct orders_job job;
    struct err e = {0};

    if (n->seconds > 0)
        process_tree_kill(getpid(), NULL, NULL);
    if (orders_read_job(&o, &job, &e) != ERR_LOST || monitor_tell_end(&n->monitor, &e) != ERR_LOST)
        _exit(97);
    _exit(n->monitor.is_lost && strstr(e.text, "monitor process has ended")   ? 7
          : !n->monitor.is_lost && strcmp(e.text, "the agent has ended") == 0 ? 8
                                                                              : 96);
}

TEST(the_end_of_the_orders_is_told_as_that_of_the_process_which_has_ended)
{
    struct trial t;

    start(&t, "node.log", tell_end, (struct node){.seconds = 1});
    give(&t, JOB("1000") START);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
    start(&t, "node.log", tell_end, (struct node){0});
    give(&t, JOB("1000") START);
    close(t.control);
    t.control = -1;
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 8);
    trial_clear(&t);
}

/* As a codec does that closes what it has not opened. */
static void close_descriptors(struct node *n)
{
    struct orders o = read_start(n);
    struct orders_job job;
    struct err e = {0};

    close(o.fd);
    if (orders_read_job(&o, &job, &e) != ERR_CODEC || !strstr(e.text, "has been closed in its own process"))
        _exit(97);
    close(n->monitor.fd);
    if (monitor_watch(&n->monitor, false, "other", 1, &e) != ERR_CODEC ||
        !strstr(e.text, "has been closed in its own process"))
        _exit(96);
    _exit(n->monitor.is_lost ? 95 : 7);
}

TEST(a_descriptor_that_the_codec_has_closed_is_not_told_as_the_end_of_agent_or_monitor)
{
    struct trial t;

    start(&t, "node.log", close_descriptors, (struct node){0});
    give(&t, JOB("1000") START);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
}

TEST(orders_longer_than_a_pipe_are_passed_on_and_then_the_end_of_file)
{
    enum { N = 3000 };
    char *text = malloc(N * 160), *at = text;
    struct trial t;

    at += sprintf(at, JOB("1000") "{\"attempt\":1,\"peers\":[");
    for (int i = 0; i < N; i++)
        at += sprintf(at, "%s{\"node\":%d,\"host\":\"h\",\"data_port\":%d,\"key\":\"%064d\"}", i ? "," : "",
                      i, 1 + i, 0);
    strcpy(at, "]}\n");
    start(&t, "node.log", read_orders, (struct node){0});
    give(&t, text);
    close(t.control);
    t.control = -1;
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_string_equal(t.log, "j-1 3000 1000");
    trial_clear(&t);
    free(text);
}

/* Leaves children in sessions of their own, whose parents have ended, and hangs. Each holds the pipe that
 * the test reads to its end. */
static void have_children(struct node *n)
{
    struct err e;

    if (monitor_watch(&n->monitor, false, "spin", 0.2, &e) < 0)
        _exit(99);
    for (int i = 0; i < 20; i++)
        if (fork() == 0) {
            setsid();
            if (fork() > 0)
                pause();
            loop_for(60);
            _exit(0);
        }
    phase_enter(n->monitor.watch, PHASE_ENCODE);
    loop_for(60);
}

TEST(the_children_of_a_node_end_with_it_whatever_their_session_is)
{
    struct trial t;
    char byte;
    int life[2]; /* every process of the node has the end for writing */

    assert_int_equal(pipe(life), 0);
    start(&t, "node.log", have_children, (struct node){0});
    close(life[1]);
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    assert_int_equal(read(life[0], &byte, 1), 0); /* no process is left that holds the other end */
    close(life[0]);
    trial_clear(&t);
}

/* Sends packets that are no requests; after each the monitor has closed the socket, so each needs a new
 * one. */
static void send_garbage(struct node *n)
{
    struct monitor_reply reply;
    struct monitor_request r = {.ask = MONITOR_WATCH, .seconds = n->seconds, .name = "x"};
    size_t len = n->phase == PHASE_WAIT ? sizeof r - 1 : sizeof r;

    if (n->phase == PHASE_SEND)
        r.ask = 77;
    if (send(n->monitor.fd, &r, len, MSG_NOSIGNAL) < 0)
        _exit(98);
    _exit(recv(n->monitor.fd, &reply, sizeof reply, 0) == 0 ? 7 : 1);
}

TEST(a_packet_that_is_no_request_ends_the_conversation)
{
    static const struct node cases[] = {{.phase = PHASE_WAIT, .seconds = 1},
                                        {.phase = PHASE_SEND, .seconds = 1},
                                        {.seconds = -1},
                                        {.seconds = 1. / 0.}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct trial t;

        start(&t, "node.log", send_garbage, cases[i]);
        finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), 7);
        trial_clear(&t);
    }
}

/* Of 256 MiB, which the node may use in all. */
static void share_memory(struct node *n)
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
static void start_limited(struct trial *t, void (*run)(struct node *))
{
    struct rlimit before;

    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    assert_int_equal(prlimit(0, RLIMIT_DATA, &(struct rlimit){LIMIT, before.rlim_max}, NULL), 0);
    start(t, "node.log", run, (struct node){0});
    setrlimit(RLIMIT_DATA, &before);
}

TEST(shared_memory_counts_against_the_limit_of_memory)
{
    struct trial t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, share_memory);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
}

enum { PART = 32 << 20, PARTS = 48 /* six times the limit */ };

/* RLIMIT_DATA counts what may be written to now. */
static void make_read_only(struct node *n)
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
static void grow_stacks(struct node *n)
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
static void fill_page_tables(struct node *n)
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
static void end_the_first_thread(struct node *n)
{
    pthread_t other;

    if (pthread_create(&other, NULL, make_read_only_without_the_first_thread, n) != 0)
        _exit(1);
    pthread_exit(NULL);
}

TEST(a_node_that_gets_around_its_limit_of_memory_is_ended_with_a_report_of_what_it_uses)
{
    void (*const acts[])(struct node *) = {make_read_only, grow_stacks, fill_page_tables,
                                           end_the_first_thread};

    if (IS_SANITIZED)
        skip();
    for (size_t i = 0; i < N_OF(acts); i++) {
        double used, may_use, private, shared, tables;
        struct trial t;

        start_limited(&t, acts[i]);
        finish(&t, "node.log");
        assert_true(was_killed(&t));
        assert_int_equal(
            sscanf(t.log,
                   "OutOfMemory: the node uses %lf GiB of memory, of the %lf GiB that a job may use "
                   "here: %lf GiB are private, %lf GiB shared, %lf GiB page tables",
                   &used, &may_use, &private, &shared, &tables),
            5);
        assert_true(used > may_use && may_use == 0.25 && shared == 0);
        assert_true(acts[i] == fill_page_tables ? tables > may_use : private > may_use);
        assert_non_null(strstr(t.events, "\"reason\":\"OutOfMemory\""));
        trial_clear(&t);
    }
}

/* Nearly all of it is written to. */
static void use_what_is_allowed(struct node *n)
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
    struct trial t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, use_what_is_allowed);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
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
    struct node *n = arg;
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    struct tcp_places p;
    struct err e;

    d.find(d.owner, 0, &p, &e);
    return NULL;
}

static void make_read_only_meanwhile(struct node *n)
{
    pthread_t asks;

    read_start(n);
    if (pthread_create(&asks, NULL, ask_for_silent, n) != 0)
        _exit(1);
    loop_for(0.1);
    make_read_only(n);
}

TEST(a_node_is_watched_while_its_monitor_waits_for_a_name_server)
{
    struct trial t;

    if (IS_SANITIZED)
        skip();
    start_limited(&t, make_read_only_meanwhile);
    give(&t, JOB("1000") "{\"attempt\":1,\"peers\":["
                         "{\"node\":0,\"host\":\"silent.test\",\"data_port\":9,\"key\":\"" KEY "\"}]}\n");
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    assert_non_null(strstr(t.log, "OutOfMemory: "));
    trial_clear(&t);
}

static void *do_nothing(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static void start_threads(struct node *n)
{
    pthread_attr_t small;
    pthread_t t;

    (void)n;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, (size_t)64 << 10);
    for (int i = 0; i < limits_threads() + 8; i++)
        if (pthread_create(&t, &small, do_nothing, NULL) != 0)
            _exit(1);
    loop_for(60);
}

TEST(a_node_with_too_many_threads_is_ended_with_a_report)
{
    struct trial t;

    start(&t, "node.log", start_threads, (struct node){0});
    finish(&t, "node.log");
    assert_true(was_killed(&t));
    assert_non_null(strstr(t.log, "CodecFailed: the node has "));
    assert_non_null(strstr(t.events, "\"reason\":\"CodecFailed\""));
    trial_clear(&t);
}

/* Is told of node 0 at a port where nothing listens, and of itself, node 1. */
static void dial_others(struct node *n)
{
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    const struct tcp_aim aim = {0};
    struct tcp_places p;
    struct err e;

    read_start(n);
    if (d.find(d.owner, 0, &p, &e) < 0 || p.n != 1 || !p.at[0].is_local || p.at[0].at.ss_family != AF_INET)
        _exit(1);
    if (d.find(d.owner, 5, &p, &e) != ERR_LOST || !strstr(e.text, "not in the agent's list"))
        _exit(2);
    if (d.dial(d.owner, 0, 1, &aim) >= 0 || errno != EHOSTUNREACH)
        _exit(4); /* a place that node 0 lacks */
    if (d.dial(d.owner, 5, 0, &aim) >= 0 || d.find(d.owner, 2, &p, &e) != ERR_LOST)
        _exit(3);
}

TEST(only_nodes_in_the_agents_list_are_connected_to)
{
    struct trial t;

    start(&t, "node.log", dial_others, (struct node){0});
    give(&t, JOB("1000") "{\"attempt\":1,\"peers\":["
                         "{\"node\":0,\"host\":\"127.0.0.1\",\"data_port\":9,\"key\":\"" KEY "\"},"
                         "{\"node\":2,\"host\":\"\",\"data_port\":9,\"key\":\"" KEY "\"}]}\n");
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    trial_clear(&t);
}

/* How many descriptors of this process are connections over a network. */
static int n_connections(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_storage at = {0};
        socklen_t len = sizeof at;

        n += getpeername(fd, (struct sockaddr *)&at, &len) == 0 && at.ss_family == AF_INET;
    }
    return n;
}

/* Connects to node 1. Status 8: it has got the connection, 7: it has been refused, and never had it. */
static void link_to_peer(struct node *n)
{
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    static const atomic_bool never = false;
    const uint32_t received = 5;
    struct tcp_link l = {.fd = -1, .received = &received};
    struct tcp_config cfg = {.address = {.job = "j-1", .attempt = 1, .dialer = &d}};
    struct orders_start s;
    struct orders_job job;
    struct orders o;
    struct err e = {0};

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &job, &e) < 0 || orders_read_start(&o, &s, job.node, &never, &e) < 0)
        _exit(99);
    cfg.address.peers = s.peers;
    cfg.address.n_peers = s.n_peers;
    if (tcp_link_resolve(&l, &cfg, s.peers, &e) < 0 ||
        tcp_link_connect(&l, &cfg, n->limit_s > 0 ? LINK_PROBING : LINK_CONNECTING, &e) < 0)
        _exit(98);
    while (e.code == 0 && l.awaits_news) {
        struct pollfd p = {.fd = l.fd, .events = (short)tcp_link_events(&l)};

        if (n_connections() > 0)
            _exit(97);
        poll(&p, 1, -1);
        tcp_link_advance(&l, &cfg, &e);
        if (l.state == LINK_LISTENS && tcp_link_peer_silence(&l) > 60) /* it asks, and is answered */
            _exit(95);
    }
    if (n_connections() != (e.code == 0))
        _exit(96);
    fprintf(stderr, "%s", e.text);
    tcp_link_hang_up(&l);
    orders_start_clear(&s);
    orders_close(&o);
    _exit(e.code ? 7 : 8);
}

/* What is at an address in the table of nodes: it gets a hello of HELLO_BYTES, and makes of it its answer, of
 * whose length. */
struct other_end {
    size_t (*answer)(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES]);
    const char *why; /* the node's message after the address; NULL: it connects */
};

static size_t answer_as_http(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    (void)hello;
    memcpy(out, text, sizeof text - 1);
    return sizeof text - 1;
}

static size_t echo(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    memcpy(out, hello, HELLO_BYTES);
    return HELLO_BYTES;
}

static size_t say_nothing(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    (void)out;
    (void)hello;
    return 0;
}

static struct frame right_answer(void)
{
    return (struct frame){
        .kind = FRAME_HELLO, .job = frame_job("j-1"), .attempt = 1, .from = 1, .to = 0, .len = HELLO_NONCE};
}

static size_t answer_with(uint8_t out[HELLO_BYTES], struct frame f)
{
    frame_pack(out, &f);
    memset(out + FRAME_BYTES, 3, HELLO_NONCE);
    return HELLO_BYTES;
}

static size_t answer_rightly(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    (void)hello;
    return answer_with(out, right_answer());
}

static size_t answer_in_part(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    return answer_rightly(out, hello) - 1;
}

static size_t answer_of_another_job(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    struct frame f = right_answer();

    (void)hello;
    f.job = frame_job("j-2");
    return answer_with(out, f);
}

static size_t answer_as_another_node(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    struct frame f = right_answer();

    (void)hello;
    f.from = 2;
    return answer_with(out, f);
}

static int listen_here(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void give_peer(const struct trial *t, int port)
{
    char orders[512];

    snprintf(orders, sizeof orders,
             JOB("1000") "{\"attempt\":1,\"peers\":["
                         "{\"node\":1,\"host\":\"127.0.0.1\",\"data_port\":%d,\"key\":\"" KEY "\"}]}\n",
             port);
    give(t, orders);
}

/* The hello of node 0, of which a codec chooses nothing. */
static void check_hello(const uint8_t hello[HELLO_BYTES])
{
    const struct frame mine = {
        .kind = FRAME_HELLO, .job = frame_job("j-1"), .attempt = 1, .from = 0, .to = 1, .len = HELLO_NONCE};
    uint8_t expected[FRAME_BYTES];

    frame_pack(expected, &mine);
    assert_memory_equal(hello, expected, sizeof expected);
}

TEST(a_connection_is_handed_over_only_if_the_peer_answers_as_that_node_of_this_job)
{
    static const struct other_end cases[] = {
        {answer_as_http, "it sent something that is no frame of psgd: is another program there?"},
        {say_nothing, "ended the handshake: its key or its job differs, or it has ended"},
        {answer_in_part, "ended the handshake: its key or its job differs, or it has ended"},
        {echo, "sent a handshake that is not for attempt 1 of this node"},
        {answer_of_another_job, "sent a handshake that is not for attempt 1 of this node"},
        {answer_as_another_node, "answers as node 2"},
        {answer_rightly, NULL}};
    int port, listener = listen_here(&port);

    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t hello[HELLO_BYTES], answer[HELLO_BYTES], more;
        struct trial t;
        size_t len;
        int fd;

        start(&t, "node.log", link_to_peer, (struct node){0});
        give_peer(&t, port);
        fd = accept(listener, NULL, NULL);
        assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
        check_hello(hello);
        len = cases[i].answer(answer, hello);
        assert_int_equal(send(fd, answer, len, MSG_NOSIGNAL), len);
        shutdown(fd, SHUT_WR);
        assert_true(recv(fd, &more, 1, 0) <= 0); /* that is all that the node has sent */
        close(fd);
        finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), cases[i].why ? 7 : 8);
        if (cases[i].why) {
            char address[64];

            snprintf(address, sizeof address, "node 1 at 127.0.0.1:%d", port);
            assert_non_null(strstr(t.log, cases[i].why));
            assert_memory_equal(t.log, address, strlen(address));
        }
        trial_clear(&t);
    }
    close(listener);
}

/* The job process, as link_to_peer, does not give up the connection. */
TEST(a_connection_to_a_program_that_does_not_answer_is_given_up)
{
    uint8_t hello[HELLO_BYTES], more;
    int port, fd, listener = listen_here(&port);
    struct trial t;

    start(&t, "node.log", link_to_peer, (struct node){0});
    give_peer(&t, port);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    assert_int_equal(recv(fd, &more, 1, 0), 0);
    close(fd);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "did not finish the handshake in time"));
    close(listener);
    trial_clear(&t);
}

/* To a probe nothing is sent. */
TEST(a_probe_is_not_handed_over_and_tells_when_the_peer_closes_it)
{
    int port, fd, listener = listen_here(&port);
    struct trial t;
    uint8_t any;

    start(&t, "node.log", link_to_peer, (struct node){.limit_s = 1});
    give_peer(&t, port);
    fd = accept(listener, NULL, NULL);
    loop_for(0.1);
    assert_int_equal(recv(fd, &any, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_string_equal(t.log, "node 1 closed the connection");
    close(listener);
    trial_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory_counts_against_the_limit_of_memory),
        cmocka_unit_test(a_node_that_gets_around_its_limit_of_memory_is_ended_with_a_report_of_what_it_uses),
        cmocka_unit_test(a_node_within_its_limit_of_memory_is_not_ended),
        cmocka_unit_test(a_node_is_watched_while_its_monitor_waits_for_a_name_server),
        cmocka_unit_test(a_node_with_too_many_threads_is_ended_with_a_report),
        cmocka_unit_test(only_nodes_in_the_agents_list_are_connected_to),
        cmocka_unit_test(a_connection_is_handed_over_only_if_the_peer_answers_as_that_node_of_this_job),
        cmocka_unit_test(a_connection_to_a_program_that_does_not_answer_is_given_up),
        cmocka_unit_test(a_probe_is_not_handed_over_and_tells_when_the_peer_closes_it),
        cmocka_unit_test(a_codec_that_hangs_ends_its_node_with_a_report),
        cmocka_unit_test(a_codec_that_hangs_ends_its_node_after_the_agent_has_ended),
        cmocka_unit_test(the_agent_is_notified_even_if_the_log_cannot_be_written),
        cmocka_unit_test(computing_waiting_and_slow_calls_that_return_are_not_interrupted),
        cmocka_unit_test(the_time_in_which_a_node_is_stopped_does_not_count),
        cmocka_unit_test(a_codec_cannot_ask_for_another_limit),
        cmocka_unit_test(a_codec_that_calls_exit_has_failed),
        cmocka_unit_test(the_time_limit_holds_without_an_agent_and_with_all_signals_blocked),
        cmocka_unit_test(before_the_start_a_node_ends_with_its_agent),
        cmocka_unit_test(the_end_of_the_orders_is_told_as_that_of_the_process_which_has_ended),
        cmocka_unit_test(a_descriptor_that_the_codec_has_closed_is_not_told_as_the_end_of_agent_or_monitor),
        cmocka_unit_test(orders_longer_than_a_pipe_are_passed_on_and_then_the_end_of_file),
        cmocka_unit_test(the_children_of_a_node_end_with_it_whatever_their_session_is),
        cmocka_unit_test(a_packet_that_is_no_request_ends_the_conversation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
