#include "runner/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/monitor/monitor_wire.h"
#include "shared/base/clock.h"
#include "shared/base/process.h"
#include "tests/lib/node_run.h"
#include "tests/unit/unit.h"

#define HANGS "codec spin has not returned from merge() for 0.2 s: does it loop?"

/* A call of the codec, with every signal blocked that a process can block. */
static void be_in_phase(struct node_process *n)
{
    struct err e;

    if (monitor_watch(&n->monitor, false, "spin", n->limit_s, &e) < 0)
        _exit(99);
    block_signals();
    phase_call(n->monitor.watch, n->phase, "merge");
    loop_for(n->seconds);
}

TEST(a_codec_that_hangs_ends_its_node_with_a_report)
{
    static const enum phase of_codec[] = {PHASE_ENCODE, PHASE_DECODE, PHASE_APPLY};

    for (size_t i = 0; i < N_OF(of_codec); i++) {
        struct node_run t;

        node_run_start(&t, "node.log", be_in_phase,
                       (struct node_process){.phase = of_codec[i], .limit_s = 0.2, .seconds = 60});
        node_run_finish(&t, "node.log");
        assert_true(node_run_was_killed(&t));
        assert_string_equal(t.log, "CodecFailed: " HANGS "\n");
        assert_string_equal(
            t.events,
            "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":\"" HANGS
            "\"}\n");
        node_run_clear(&t);
    }
}

TEST(a_codec_that_hangs_ends_its_node_after_the_agent_has_ended)
{
    struct node_run t;

    node_run_start(&t, "node.log", be_in_phase,
                   (struct node_process){.phase = PHASE_ENCODE, .limit_s = 0.2, .seconds = 60});
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_START);
    close(t.control);
    t.control = -1;
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    assert_non_null(strstr(t.events, HANGS));
    node_run_clear(&t);
}

TEST(the_agent_is_notified_even_if_the_log_cannot_be_written)
{
    struct node_run t;

    node_run_start(&t, "/dev/full", be_in_phase,
                   (struct node_process){.phase = PHASE_DECODE, .limit_s = 0.2, .seconds = 60});
    node_run_finish(&t, "/dev/full");
    assert_true(node_run_was_killed(&t));
    assert_non_null(strstr(t.events, "\"reason\":\"CodecFailed\""));
    node_run_clear(&t);
}

TEST(computing_waiting_and_slow_calls_that_return_are_not_interrupted)
{
    static const struct node_process cases[] = {{.phase = PHASE_COMPUTE, .limit_s = 0.1, .seconds = 0.5},
                                                {.phase = PHASE_WAIT, .limit_s = 0.1, .seconds = 0.5},
                                                {.phase = PHASE_EVALUATE, .limit_s = 0.1, .seconds = 0.5},
                                                {.phase = PHASE_ENCODE, .limit_s = 60, .seconds = 0.1}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct node_run t;

        node_run_start(&t, "node.log", be_in_phase, cases[i]);
        node_run_finish(&t, "node.log");
        assert_true(WIFEXITED(t.status));
        assert_int_equal(WEXITSTATUS(t.status), 7);
        assert_string_equal(t.events, "");
        node_run_clear(&t);
    }
}

/* Is stopped in the midst of a call; the test continues it. */
static void stop_in_call(struct node_process *n)
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
    struct node_run t;
    siginfo_t info;

    node_run_start(&t, "node.log", stop_in_call, (struct node_process){.limit_s = 1});
    assert_int_equal(waitid(P_PID, (id_t)t.pid, &info, WSTOPPED), 0);
    usleep(3000000);
    assert_int_equal(kill(t.pid, SIGCONT), 0);
    node_run_finish(&t, "node.log");
    assert_true(WIFEXITED(t.status));
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

static void watch_twice(struct node_process *n)
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
    struct node_run t;

    node_run_start(&t, "node.log", watch_twice, (struct node_process){.limit_s = 0.2});
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    node_run_clear(&t);
}

static void exit_in_phase(struct node_process *n)
{
    struct err e;

    if (monitor_guard_exit(n->monitor.watch, "codec", "spin", &n->report, &e) < 0)
        _exit(99);
    phase_enter(n->monitor.watch, n->phase);
    exit(0);
}

TEST(a_codec_that_calls_exit_has_failed)
{
    struct node_run t;

    node_run_start(&t, "node.log", exit_in_phase, (struct node_process){.phase = PHASE_DECODE});
    node_run_finish(&t, "node.log");
    assert_true(WIFEXITED(t.status));
    assert_int_equal(WEXITSTATUS(t.status), 1);
    assert_string_equal(t.log, "CodecFailed: codec spin has called exit: a node ends when its job does\n");
    assert_non_null(strstr(t.events, "\"state\":\"failed\",\"reason\":\"CodecFailed\""));
    node_run_clear(&t);
    node_run_start(&t, "node.log", exit_in_phase,
                   (struct node_process){.phase = PHASE_COMPUTE}); /* not the codec's fault */
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 0);
    assert_string_equal(t.events, "");
    node_run_clear(&t);
}

static void block_for_a_minute(struct node_process *n)
{
    (void)n;
    block_signals();
    loop_for(60);
}

TEST(the_time_limit_holds_without_an_agent_and_with_all_signals_blocked)
{
    struct node_run t;

    node_run_start(&t, "node.log", block_for_a_minute, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("0.5") NODE_RUN_START);
    close(t.control);
    t.control = -1;
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    assert_string_equal(t.events,
                        "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"TimeLimit\",\"message\":"
                        "\"the job's time limit is over\"}\n");
    node_run_clear(&t);
}

TEST(before_the_start_a_node_ends_with_its_agent)
{
    struct node_run t;

    node_run_start(&t, "node.log", block_for_a_minute, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("1000"));
    close(t.control);
    t.control = -1;
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    node_run_clear(&t);
}

static void read_orders(struct node_process *n)
{
    struct orders o = node_process_read_start(n);
    struct orders_job job;
    struct err e;

    _exit(orders_read_job(&o, &job, &e) == ERR_LOST ? 7 : 97);
}

/* Status 7: the end of the orders is reported as that of the monitor, 8: of the agent. */
static void tell_end(struct node_process *n)
{
    struct orders o = node_process_read_start(n);
    struct orders_job job;
    struct err e = {0};

    if (n->seconds > 0)
        process_kill_descendants(getpid(), NULL, NULL);
    if (orders_read_job(&o, &job, &e) != ERR_LOST || monitor_explain_end(&n->monitor, &e) != ERR_LOST)
        _exit(97);
    _exit(n->monitor.is_lost && strstr(e.text, "monitor process has ended")   ? 7
          : !n->monitor.is_lost && strcmp(e.text, "the agent has ended") == 0 ? 8
                                                                              : 96);
}

TEST(the_end_of_the_orders_is_reported_as_the_end_of_the_process_that_has_ended)
{
    struct node_run t;

    node_run_start(&t, "node.log", tell_end, (struct node_process){.seconds = 1});
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_START);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
    node_run_start(&t, "node.log", tell_end, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_START);
    close(t.control);
    t.control = -1;
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 8);
    node_run_clear(&t);
}

/* As a codec that closes descriptors that it has not opened. */
static void close_descriptors(struct node_process *n)
{
    struct orders o = node_process_read_start(n);
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

TEST(a_descriptor_that_the_codec_has_closed_is_not_reported_as_the_end_of_agent_or_monitor)
{
    struct node_run t;

    node_run_start(&t, "node.log", close_descriptors, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_START);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

TEST(orders_longer_than_a_pipe_are_passed_on_and_then_the_end_of_file)
{
    enum { N = 3000 };
    char *text = malloc(N * 160), *at = text;
    struct node_run t;

    at += sprintf(at, NODE_RUN_JOB("1000") "{\"attempt\":1,\"secret\":\"" NODE_RUN_KEY "\",\"peers\":\"");
    for (int i = 0; i < N; i++)
        at += sprintf(at, "%s%d a:1 h %d %064d", i ? ";" : "", i, 1 + i, 0);
    strcpy(at, "\"}\n");
    node_run_start(&t, "node.log", read_orders, (struct node_process){0});
    node_run_give(&t, text);
    close(t.control);
    t.control = -1;
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_string_equal(t.log, "j-1 3000 1000");
    node_run_clear(&t);
    free(text);
}

/* Leaves children in sessions of their own, whose parents have ended, and hangs. Each holds the pipe that
 * the test reads to its end. */
static void have_children(struct node_process *n)
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
    struct node_run t;
    char byte;
    int life[2]; /* every process of the node has the end for writing */

    assert_int_equal(pipe(life), 0);
    node_run_start(&t, "node.log", have_children, (struct node_process){0});
    close(life[1]);
    node_run_finish(&t, "node.log");
    assert_true(node_run_was_killed(&t));
    assert_int_equal(read(life[0], &byte, 1), 0); /* no process is left that holds the other end */
    close(life[0]);
    node_run_clear(&t);
}

/* Sends packets that are no requests; after each the monitor has closed the socket, so each needs a new
 * one. */
static void send_garbage(struct node_process *n)
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
    static const struct node_process cases[] = {{.phase = PHASE_WAIT, .seconds = 1},
                                                {.phase = PHASE_SEND, .seconds = 1},
                                                {.seconds = -1},
                                                {.seconds = 1. / 0.}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct node_run t;

        node_run_start(&t, "node.log", send_garbage, cases[i]);
        node_run_finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), 7);
        node_run_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_codec_that_hangs_ends_its_node_with_a_report),
        cmocka_unit_test(a_codec_that_hangs_ends_its_node_after_the_agent_has_ended),
        cmocka_unit_test(the_agent_is_notified_even_if_the_log_cannot_be_written),
        cmocka_unit_test(computing_waiting_and_slow_calls_that_return_are_not_interrupted),
        cmocka_unit_test(the_time_in_which_a_node_is_stopped_does_not_count),
        cmocka_unit_test(a_codec_cannot_ask_for_another_limit),
        cmocka_unit_test(a_codec_that_calls_exit_has_failed),
        cmocka_unit_test(the_time_limit_holds_without_an_agent_and_with_all_signals_blocked),
        cmocka_unit_test(before_the_start_a_node_ends_with_its_agent),
        cmocka_unit_test(the_end_of_the_orders_is_reported_as_the_end_of_the_process_that_has_ended),
        cmocka_unit_test(
            a_descriptor_that_the_codec_has_closed_is_not_reported_as_the_end_of_agent_or_monitor),
        cmocka_unit_test(orders_longer_than_a_pipe_are_passed_on_and_then_the_end_of_file),
        cmocka_unit_test(the_children_of_a_node_end_with_it_whatever_their_session_is),
        cmocka_unit_test(a_packet_that_is_no_request_ends_the_conversation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
