/* A training program as its node's monitor runs it. The programs are shell scripts. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/base/process.h"
#include "shared/job/reason.h"
#include "shared/job/settings.h"
#include "shared/sandbox/sandbox.h"
#include "shared/trainer/trainer_package.h"
#include "tests/lib/node_run.h"
#include "tests/unit/unit.h"

enum { MEMORY = 3 * 4096, FAILED = 90 };

/* The agent's orders: the interpreter is a shell. */
static const char job[] =
    "{\"job\":\"j-1\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"workers_on_host\":2,"
    "\"trainer_python\":\"/bin/sh\"}\n";

/* In the node's process: ends it with a message of its own. */
static _Noreturn void give_up(const struct err *e)
{
    fprintf(stderr, "%s\n", e->text);
    _exit(FAILED);
}

/* What a test chooses for the process of its node, which is forked. */
static const char *program;
static bool is_python;
static void (*with_program)(struct node_process *n, int wire);

static int write_settings(struct err *e)
{
    struct settings s;
    json_t *doc;
    char *text;
    int rc;

    settings_default(&s);
    strcpy(s.codec, "fedavg");
    strcpy(s.trainer, "train");
    strcpy(s.arguments, "--lr\n0.1 and more\n");
    doc = settings_json(&s);
    text = json_line(doc);
    rc = file_write("../packages/settings.json", text, strlen(text), 0600, e);
    free(text);
    json_decref(doc);
    return rc;
}

static int write_packages(struct err *e)
{
    const struct trainer_file file = {
        .name = "train", .bytes = program, .len = strlen(program), .is_executable = !is_python};
    const struct trainer_main main = {.file = "train", .is_python = is_python};

    return file_mkdirs("../packages", 0700, e) < 0 || write_settings(e) < 0
               ? e->code
               : trainer_package_write("../packages/" TRAINER_PACKAGE_NAME, &file, 1, &main, e);
}

/* The node's process. */
static void run_program(struct node_process *n)
{
    struct orders_job read;
    int wire, memory;
    struct orders o;
    struct err e;

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &read, &e) < 0 || write_packages(&e) < 0 ||
        monitor_start_trainer(&n->monitor, MEMORY, &wire, &memory, &e) < 0)
        give_up(&e);
    close(memory);
    with_program(n, wire);
}

static void start_node(struct node_run *t, const char *text, void (*with)(struct node_process *, int wire))
{
    program = text;
    is_python = strncmp(text, "#!", 2) != 0;
    with_program = with;
    node_run_start(t, "node.log", run_program, (struct node_process){0});
    node_run_give(t, job);
}

static void end_program(struct node_process *n, double grace_s)
{
    double until = clock_now() + UNIT_WAIT_S;
    bool has_ended = false;
    struct err e;

    while (!has_ended)
        if (monitor_end_trainer(&n->monitor, grace_s, &has_ended, &e) < 0 ||
            (!has_ended && clock_now() > until && err_set(&e, ERR_TIMEOUT, "the program does not end") < 0))
            give_up(&e);
}

static void end_gently(struct node_process *n, int wire)
{
    struct err e;

    if (monitor_release_trainer(&n->monitor, false, &e) < 0)
        give_up(&e);
    close(wire);
    end_program(n, 60);
}

/* The socket as /bin/sh uses it: a packet is a line, read at once, which the shell's own `read` does not. */
#define RECEIVE "line=$(dd bs=4096 count=1 <&3 2>/dev/null)\n"

static const char *receive_line(int wire)
{
    static char line[4096];
    ssize_t n = recv(wire, line, sizeof line - 1, 0);

    line[n > 0 ? n : 0] = '\0';
    return line;
}

TEST(a_program_runs_in_a_folder_beside_the_nodes_with_its_arguments)
{
    struct node_run t;

    start_node(&t,
               "#!/bin/sh\n"
               "echo \"in ${PWD##*/psgd-unit-??????}: $# $1, $2; fd $PSGD_TRAINER_FD\"\n"
               "echo \"$TMPDIR\" | grep -q '^/.*/trainer/tmp$' && [ -d \"$TMPDIR\" ] && echo has a tmp >&2\n"
               "echo \"$PYTHONPATH\" | grep -q '^/.*/python$' && echo \"$PYTHONUNBUFFERED finds psgd\"\n"
               "[ -n \"$OMP_NUM_THREADS\" ] && [ -z \"$OPENBLAS_NUM_THREADS\" ] && echo shares processors\n"
               "[ -t 0 ] || cat; ls /proc/self/fd | tr '\\n' ' '\n",
               end_gently);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_string_equal(t.events, "");
    assert_non_null(strstr(t.log, "train runs as process "));
    assert_non_null(strstr(t.log, "/trainer/program/train --lr 0.1 and more\n"));
    assert_non_null(strstr(t.log, "in /trainer/program: 2 --lr, 0.1 and more; fd 3\n"));
    assert_non_null(strstr(t.log, "has a tmp\n"));
    assert_non_null(strstr(t.log, "1 finds psgd\n"));
    assert_non_null(strstr(t.log, "shares processors\n"));
    assert_non_null(strstr(t.log, "0 1 2 3 4 \n")); /* 4 is the folder that ls reads */
    node_run_clear(&t);
}

TEST(the_interpreter_of_the_orders_runs_a_program_that_is_not_executable)
{
    struct node_run t;

    start_node(&t, "echo \"$0 has no line that names a shell\"\n", end_gently);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, ": /bin/sh /"));
    assert_non_null(strstr(t.log, "train has no line that names a shell\n"));
    node_run_clear(&t);
}

static void talk(struct node_process *n, int wire)
{
    if (send(wire, "a record\n", 9, 0) != 9 || strcmp(receive_line(wire), "got a record\n") != 0)
        _exit(FAILED);
    end_gently(n, wire);
}

TEST(the_program_and_the_node_have_the_two_ends_of_a_socket)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\n" RECEIVE "echo got $line >&3; cat <&3; echo end of file\n", talk);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "end of file\n"));
    node_run_clear(&t);
}

static void ask_for_memory(struct node_process *n)
{
    struct orders_job read;
    int wire, memory, seals;
    struct orders o;
    struct err e;
    float *v;

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &read, &e) < 0 || write_packages(&e) < 0 ||
        monitor_start_trainer(&n->monitor, MEMORY, &wire, &memory, &e) < 0)
        give_up(&e);
    seals = fcntl(memory, F_GET_SEALS);
    v = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (v == MAP_FAILED || seals != (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) || v[MEMORY / 4 - 1] != 0)
        _exit(1);
    v[MEMORY / 4 - 1] = 1;
    if (fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) == 0 || errno != EPERM || ftruncate(memory, 0) == 0)
        _exit(2);
    end_gently(n, wire);
}

TEST(the_memory_has_its_size_and_nobody_can_change_that_or_forbid_writing)
{
    struct node_run t;

    program = "#!/bin/sh\n";
    is_python = false;
    node_run_start(&t, "node.log", ask_for_memory, (struct node_process){0});
    node_run_give(&t, job);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

static size_t count_text(const char *in, const char *text)
{
    size_t n = 0;

    for (const char *at = strstr(in, text); at; at = strstr(at + 1, text))
        n++;
    return n;
}

/* A node that does not look at the program: it waits for a peer, or computes. */
static void do_something_else(struct node_process *n, int wire)
{
    (void)n;
    (void)wire;
    loop_for(60);
}

/* A node that waits for the program's answer. */
static void await_answer(struct node_process *n, int wire)
{
    struct err e;

    if (receive_line(wire)[0])
        _exit(FAILED);
    if (monitor_explain_trainer(&n->monitor, &e) != ERR_TRAINER)
        give_up(&e);
    report_end(&n->report, "failed", REASON_TRAINER_FAILED, e.text);
    end_program(n, 0);
}

TEST(the_end_of_a_program_is_reported_once_whether_or_not_the_node_waits_for_it)
{
    static const struct {
        const char *program, *message;
    } cases[] = {
        {"#!/bin/sh\necho first >&2; echo it fails >&2; exit 3\n", "train ended with status 3: it fails"},
        {"#!/bin/sh\nexit 3\n", "train ended with status 3, and wrote nothing to stderr"},
        {"#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n",
         "train ended with status 1: ModuleNotFoundError: No module named 'torch' (/bin/sh)"},
        {"#!/bin/sh\nkill -9 $$\n", "train was killed by signal 9 (Killed); it has used 0.0 GiB of memory"},
        {"#!/bin/sh\nkill -SEGV $$\n", "train was killed by signal 11 (Segmentation fault)"},
        {"#!/bin/sh\n",
         "train has ended, and the job has not: does it ask psgd for steps until there are no more?"},
    };

    for (size_t i = 0; i < 2 * N_OF(cases); i++) {
        bool waits = i % 2;
        char line[512];
        struct node_run t;

        start_node(&t, cases[i / 2].program, waits ? await_answer : do_something_else);
        node_run_finish(&t, "node.log");
        assert_true(waits ? WEXITSTATUS(t.status) == 7
                          : WIFSIGNALED(t.status) && WTERMSIG(t.status) == SIGTERM);
        snprintf(line, sizeof line,
                 "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"TrainerFailed\",\"message\":\"%s\"}\n",
                 cases[i / 2].message);
        assert_string_equal(t.events, line);
        node_run_clear(&t);
    }
}

TEST(a_program_that_closes_its_socket_and_runs_is_named_and_ended)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\nexec 3>&-; exec sleep 600\n", await_answer);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.events, "\"train has closed its connection to psgd, and still runs\""));
    node_run_clear(&t);
}

static void release_and_wait(struct node_process *n, int wire)
{
    struct err e;

    if (monitor_release_trainer(&n->monitor, false, &e) < 0 || send(wire, "stop\n", 5, 0) != 5)
        give_up(&e);
    end_program(n, 60);
    report_end(&n->report, "succeeded", NULL, "done");
}

/* The program ends before the node says that it may: the job has been done meanwhile. */
static void release_ended(struct node_process *n, int wire)
{
    struct err e;

    if (*receive_line(wire))
        _exit(FAILED);
    if (monitor_explain_trainer(&n->monitor, &e) != ERR_TRAINER ||
        monitor_release_trainer(&n->monitor, false, &e) < 0)
        give_up(&e);
    report_end(&n->report, "succeeded", NULL, "done");
}

TEST(a_program_that_fails_after_the_job_leaves_a_warning)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\nkill -9 $$\n", release_ended);
    node_run_finish(&t, "node.log");
    assert_non_null(strstr(t.events, "\"level\":\"warn\",\"text\":\"train was killed by signal 9"));
    assert_int_equal(count_text(t.events, "\"event\":\"end\""), 1);
    assert_non_null(strstr(t.events, "succeeded"));
    node_run_clear(&t);

    start_node(&t, "#!/bin/sh\n" RECEIVE "echo the last lines fail >&2; exit 1\n", release_and_wait);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(
        strstr(t.events, "\"level\":\"warn\",\"text\":\"train ended with status 1: the last lines fail\""));
    assert_int_equal(count_text(t.events, "\"event\":\"end\""), 1);
    assert_non_null(strstr(t.events, "succeeded"));
    node_run_clear(&t);
}

/* The program has ended before the release, and the node has more to do than this process waits for. */
TEST(a_program_that_has_ended_before_its_release_fails_no_node_that_succeeds)
{
    for (int has_failed = 0; has_failed < 2; has_failed++) {
        struct monitor_trainer t = {.has_ended = true, .report_at = clock_now() + 3600};
        struct monitor_state m = {.trainer = &t};

        monitor_trainer_release(&m, has_failed == 1);
        assert_int_equal(monitor_trainer_due(&m) > 0, has_failed);
    }
}

TEST(a_flood_of_output_neither_blocks_the_program_nor_fills_the_log)
{
    struct node_run t;

    start_node(
        &t,
        "#!/bin/sh\nyes 'a line of a flood' | head -c 100000000 >&2; echo >&2; echo the end >&2; exit 5\n",
        await_answer);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_true(strlen(t.log) < OUTPUT_FIRST + OUTPUT_LAST + 1000);
    assert_non_null(strstr(t.log, "the end\n"));
    assert_non_null(strstr(t.events, "train ended with status 5: the end"));
    node_run_clear(&t);
}

/* Starts processes that ignore SIGTERM, of which some are in a session of their own, and writes their numbers
 * to the node's log, its own last. */
#define NUMBERED(pid) "echo process " pid " >&2; : >" pid ".started; "
#define WITH_OTHERS                                                                                          \
    "#!/bin/sh\n"                                                                                            \
    "trap '' TERM\n"                                                                                         \
    "(sleep 600; :) & " NUMBERED(                                                                            \
        "$!") "\n"                                                                                           \
              "setsid sh -c '(sleep 600; :) & " NUMBERED("$!")                                               \
                  NUMBERED("$$") "sleep 600; :' &\n"                                                         \
                                 "until [ \"$(ls | grep -c started)\" = 3 ]; do sleep 0.05; done\n"          \
                                 "echo process $$ >&2\n"

/* Waits until the node's log, which the monitor writes, has so many numbers of processes. */
static void await_numbers(size_t n)
{
    for (size_t seen = 0; seen < n; usleep(10000)) {
        char *log;
        size_t len;
        struct err e;

        if (file_read(&log, &len, "node.log", 1 << 20, &e) < 0)
            give_up(&e);
        seen = count_text(log, "\nprocess ");
        free(log);
    }
}

static void end_after_a_moment(struct node_process *n, int wire)
{
    (void)wire;
    await_numbers(4);
    end_program(n, 0.1);
}

static void just_exit(struct node_process *n, int wire)
{
    (void)n;
    (void)wire;
    await_numbers(4);
}

static void be_killed(struct node_process *n, int wire)
{
    just_exit(n, wire);
    kill(getpid(), SIGKILL);
}

static void hang_in_codec(struct node_process *n, int wire)
{
    struct err e;

    just_exit(n, wire);
    if (monitor_watch(&n->monitor, false, "spin", 0.2, &e) < 0)
        give_up(&e);
    phase_call(n->monitor.watch, PHASE_ENCODE, "merge");
    loop_for(60);
}

static bool is_gone(pid_t pid)
{
    struct process p;

    for (int i = 0; i < UNIT_WAIT_S * 100; i++) {
        if (!process_look(&p, pid) || p.has_ended)
            return true;
        usleep(10000);
    }
    return false;
}

static void assert_all_are_gone(const char *log, size_t n)
{
    size_t n_seen = 0;

    for (const char *at = strstr(log, "\nprocess "); at; at = strstr(at + 1, "\nprocess "), n_seen++)
        assert_true(is_gone((pid_t)atoi(at + strlen("\nprocess "))));
    assert_int_equal(n_seen, n);
}

TEST(nothing_that_a_program_has_started_is_left_however_its_node_ends)
{
    static void (*const ends[])(struct node_process *, int) = {end_after_a_moment, just_exit, be_killed,
                                                               hang_in_codec};

    for (size_t i = 0; i < N_OF(ends); i++) {
        struct node_run t;

        start_node(&t, WITH_OTHERS "sleep 600; sleep 600\n", ends[i]);
        node_run_finish(&t, "node.log");
        assert_all_are_gone(t.log, 4);
        node_run_clear(&t);
    }
}

TEST(nothing_that_a_program_has_started_is_left_when_it_ends)
{
    struct node_run t;

    start_node(&t, WITH_OTHERS "exit 4\n", do_something_else);
    node_run_finish(&t, "node.log");
    assert_all_are_gone(t.log, 4);
    assert_non_null(strstr(t.events, "train ended with status 4: process "));
    node_run_clear(&t);
}

static void end_soon(struct node_process *n, int wire)
{
    if (strcmp(receive_line(wire), "ready\n") != 0)
        _exit(FAILED);
    end_program(n, 0.1);
}

TEST(a_program_that_goes_on_after_the_job_gets_sigterm_and_is_named)
{
    struct node_run t;

    start_node(&t,
               "#!/bin/sh\ntrap 'echo was asked to end; exit 0' TERM; echo ready >&3\n"
               "while :; do sleep 0.05; done\n",
               end_soon);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "was asked to end\n"));
    node_run_clear(&t);
    start_node(&t, "#!/bin/sh\necho ready >&3; exec sleep 600\n", end_soon);
    node_run_finish(&t, "node.log");
    assert_non_null(strstr(t.events, "train had not ended 0.1 s after its job, and was ended"));
    node_run_clear(&t);
    /* Stopped, it ends by SIGTERM all the same. */
    start_node(&t,
               "#!/bin/sh\ntrap 'echo was asked to end; exit 0' TERM; echo ready >&3\n"
               "kill -STOP $$; while :; do sleep 0.05; done\n",
               end_soon);
    node_run_finish(&t, "node.log");
    assert_non_null(strstr(t.log, "was asked to end\n"));
    node_run_clear(&t);
}

static void say_asked(int signal)
{
    (void)signal;
    if (write(STDOUT_FILENO, "was asked to end\n", 17) == 17)
        _exit(0);
}

/* This file as a program: it moves to the group of a process that it has started. */
static int move_to_other_group(bool ends)
{
    pid_t child = fork();

    while (child == 0)
        pause();
    if (child < 0 || setpgid(child, child) < 0 || setpgid(0, child) < 0)
        return 1;
    signal(SIGTERM, ends ? say_asked : SIG_IGN);
    fprintf(stderr, "process %ld\nprocess %ld\n", (long)child, (long)getpid());
    if (write(3, "ready\n", 6) == 6)
        for (;;)
            pause();
    return 1;
}

static void end_later(struct node_process *n, int wire)
{
    if (strcmp(receive_line(wire), "ready\n") != 0)
        _exit(FAILED);
    end_program(n, 1);
}

TEST(a_program_that_has_moved_to_another_process_group_is_ended)
{
    char self[PATH_MAX], text[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(n > 0);
    self[n] = '\0';
    for (int ends = 0; ends < 2; ends++) {
        struct node_run t;

        snprintf(text, sizeof text, "#!/bin/sh\nexec '%s' %s\n", self, ends ? "ends" : "ignores");
        start_node(&t, text, ends ? end_later : end_soon);
        node_run_finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), 7);
        assert_all_are_gone(t.log, 2);
        assert_true(!ends || strstr(t.log, "was asked to end\n"));
        node_run_clear(&t);
    }
}

/* The monitor is this process's only child. */
static void signal_monitor(int signal)
{
    char path[64];
    int pid;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    f = fopen(path, "r"); /* file_read() takes the size 0 of such a file for its own */
    if (!f || fscanf(f, "%d", &pid) != 1)
        _exit(FAILED);
    fclose(f);
    kill(pid, signal);
}

static void kill_monitor(struct node_process *n, int wire)
{
    (void)n;
    (void)wire;
    await_numbers(1);
    signal_monitor(SIGKILL);
}

static void ask_stopped_monitor(struct node_process *n, int wire)
{
    bool has_ended;
    struct err e;

    (void)wire;
    signal_monitor(SIGSTOP);
    n->monitor.answer_s = 0.1;
    for (int i = 0; i < 2; i++) /* and no answer is taken for that of a later request */
        if (monitor_end_trainer(&n->monitor, 0.1, &has_ended, &e) != ERR_LOST || !n->monitor.is_lost)
            _exit(FAILED);
    fprintf(stderr, "%s\n", e.text);
    signal_monitor(SIGKILL);
}

TEST(a_monitor_that_is_stopped_ends_its_node_with_a_reason)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\nexec sleep 600\n", ask_stopped_monitor);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "this node's monitor process has not answered: it is stopped, or hangs\n"));
    node_run_clear(&t);
}

TEST(a_program_ends_with_its_monitor)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\necho process $$ >&2; exec sleep 600\n", kill_monitor);
    node_run_finish(&t, "node.log");
    assert_all_are_gone(t.log, 1);
    node_run_clear(&t);
}

/* Statuses: the message of the first failure must have these words. */
static const char *words;

static void fail_to_start(struct node_process *n)
{
    struct orders_job read;
    int wire, memory;
    struct orders o;
    struct err e = {0};

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &read, &e) < 0 || (program && write_packages(&e) < 0))
        give_up(&e);
    if (monitor_start_trainer(&n->monitor, MEMORY, &wire, &memory, &e) != ERR_TRAINER ||
        !strstr(e.text, words) || wire >= 0 || memory >= 0)
        give_up(&e);
}

TEST(a_program_that_cannot_be_run_is_refused_with_the_reason)
{
    static const struct {
        const char *program, *words;
    } cases[] = {{NULL, "the job's training program: No such file or directory"},
                 {"#!/no/such/interpreter\n", "cannot run "},
                 {"#!/no/such/interpreter\n", "/trainer/program/train: No such file or directory"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct node_run t;

        program = cases[i].program;
        words = cases[i].words;
        is_python = false;
        node_run_start(&t, "node.log", fail_to_start, (struct node_process){0});
        node_run_give(&t, job);
        node_run_finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), 7);
        node_run_clear(&t);
    }
}

TEST(an_agent_without_an_interpreter_refuses_a_program_in_python)
{
    struct node_run t;

    program = "echo\n";
    words = "agent --trainer-python PATH names one";
    is_python = true;
    node_run_start(&t, "node.log", fail_to_start, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("1000"));
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

static void start_again(struct node_process *n, int wire)
{
    int wires[2];
    struct err e;

    if (monitor_start_trainer(&n->monitor, MEMORY, &wires[0], &wires[1], &e) != ERR_TRAINER ||
        !strstr(e.text, "runs already"))
        give_up(&e);
    end_gently(n, wire);
}

TEST(a_codec_cannot_start_the_program_again)
{
    struct node_run t;

    start_node(&t, "#!/bin/sh\ncat <&3\n", start_again);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

TEST(limits_for_codecs_do_not_hold_for_the_program)
{
    struct rlimit data, size;
    struct node_run t;

    if (IS_SANITIZED)
        skip();
    assert_int_equal(getrlimit(RLIMIT_DATA, &data), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &size), 0);
    if (data.rlim_max != RLIM_INFINITY || size.rlim_max != RLIM_INFINITY)
        skip();
    setrlimit(RLIMIT_DATA, &(struct rlimit){(rlim_t)256 << 20, data.rlim_max});
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)64 << 20, size.rlim_max});
    program = "#!/bin/sh\necho \"$(ulimit -d) $(ulimit -f)\"\n";
    is_python = false;
    with_program = end_gently;
    node_run_start(&t, "node.log", run_program, (struct node_process){0});
    setrlimit(RLIMIT_DATA, &data);
    setrlimit(RLIMIT_FSIZE, &size);
    node_run_give(&t, job);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "\nunlimited unlimited\n"));
    node_run_clear(&t);
}

/* A file of a data set, beside the packages. */
static void run_with_data(struct node_process *n)
{
    struct err e;

    if (file_mkdirs("../data", 0755, &e) < 0 || file_write("../data/set", "x", 1, 0644, &e) < 0)
        give_up(&e);
    run_program(n);
}

static const char trying[] =
    "#!/bin/sh\n"
    "try() { name=$1; shift; if sh -c \"$1\" >/dev/null 2>&1; then echo can $name; else echo "
    "cannot $name; fi; }\n"
    "try make 'mkdir d && echo x >d/file && rm d/file && rmdir d'\n"
    "try link 'ln -s train link && mv link other'\n"
    "try temporary 'echo x >\"$TMPDIR/x\"'\n"
    "try home 'echo x >\"$HOME/x\"'\n"
    "try system 'cat /etc/passwd /proc/self/status && echo >/dev/null'\n"
    "try data 'cat \"$HOME/../data/set\"'\n"
    "try log 'cat ../../run/node.log'\n"
    "try package 'cat ../../packages/settings.json'\n"
    "try beside 'echo x >../../outside'\n"
    "try data_set 'echo x >>../../data/set'\n"
    "try tmp 'echo x >/tmp/psgd-confined'\n"
    "kill -0 $PPID && echo can signal || echo cannot signal\n"
    "echo said >/dev/stderr\n"
    "echo \"user $(id -u) $(id -g) $(id -G | wc -w), $(pwd), $(stat -c %u train), $(ls \"$HOME/..\" | tr "
    "'\\n' ' ')\"\n";

static void try_confined(struct node_run *t, const char *level)
{
    static const char *const can[] = {"make", "link", "temporary", "home", "system", "data"},
                             *const cannot[] = {"log", "package", "beside", "data_set", "tmp", "signal"};
    char orders[512], line[64], *folders = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;

    /* Such a program may use /dev/shm, where the tests' folders may be. */
    unsetenv("TMPDIR");
    program = trying;
    is_python = false;
    with_program = end_gently;
    node_run_start(t, "node.log", run_with_data, (struct node_process){0});
    snprintf(orders, sizeof orders, "%.*s,\"trainer_isolation\":\"%s\",\"trainer_data\":\"%s/data\"}\n",
             (int)strlen(job) - 2, job, level, t->folder);
    node_run_give(t, orders);
    node_run_finish(t, "node.log");
    assert_int_equal(WEXITSTATUS(t->status), 7);
    snprintf(line, sizeof line, ", isolation %s: ", level);
    assert_non_null(strstr(t->log, line));
    for (size_t i = 0; i < N_OF(can); i++) {
        snprintf(line, sizeof line, "\ncan %s\n", can[i]);
        if (!strstr(t->log, line))
            fail_msg("the program cannot %s: %s", can[i], t->log);
    }
    for (size_t i = 0; i < N_OF(cannot); i++) {
        snprintf(line, sizeof line, "\ncannot %s\n", cannot[i]);
        assert_non_null(strstr(t->log, line));
    }
    if (folders)
        setenv("TMPDIR", folders, 1);
    free(folders);
}

TEST(a_confined_program_reads_the_system_and_its_data_and_writes_into_its_own_folder)
{
    struct node_run t;

    if (landlock_version() < 6)
        skip();
    try_confined(&t, "files");
    node_run_clear(&t);
}

/* The tests' folder is closed to other users. */
TEST(a_program_of_a_user_of_its_own_reads_and_writes_the_same)
{
    unsigned user, group, groups, owner;
    char folder[256], want[PATH_MAX];
    struct node_run t;
    const char *at;

    if (landlock_version() < 6 || geteuid() != 0 || IS_SANITIZED)
        skip();
    try_confined(&t, "user");
    at = strstr(t.log, "\nuser ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\nuser %u %u %u, %255[^,], %u, ", &user, &group, &groups, folder, &owner),
                     5);
    assert_true(user >= sandbox_user_id(0) && group == user && groups == 1 && owner == user);
    snprintf(want, sizeof want, "%s/trainer/program", t.folder);
    assert_string_equal(folder, want);
    /* Of the folder beside its own one and the data's it sees nothing, and may not list it either. */
    assert_null(strstr(at, "packages"));
    assert_non_null(strstr(t.log, "\nsaid\n"));
    node_run_clear(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_runs_in_a_folder_beside_the_nodes_with_its_arguments),
        cmocka_unit_test(the_interpreter_of_the_orders_runs_a_program_that_is_not_executable),
        cmocka_unit_test(the_program_and_the_node_have_the_two_ends_of_a_socket),
        cmocka_unit_test(the_memory_has_its_size_and_nobody_can_change_that_or_forbid_writing),
        cmocka_unit_test(the_end_of_a_program_is_reported_once_whether_or_not_the_node_waits_for_it),
        cmocka_unit_test(a_program_that_closes_its_socket_and_runs_is_named_and_ended),
        cmocka_unit_test(a_program_that_fails_after_the_job_leaves_a_warning),
        cmocka_unit_test(a_program_that_has_ended_before_its_release_fails_no_node_that_succeeds),
        cmocka_unit_test(a_flood_of_output_neither_blocks_the_program_nor_fills_the_log),
        cmocka_unit_test(nothing_that_a_program_has_started_is_left_however_its_node_ends),
        cmocka_unit_test(nothing_that_a_program_has_started_is_left_when_it_ends),
        cmocka_unit_test(a_program_that_goes_on_after_the_job_gets_sigterm_and_is_named),
        cmocka_unit_test(a_program_that_has_moved_to_another_process_group_is_ended),
        cmocka_unit_test(a_monitor_that_is_stopped_ends_its_node_with_a_reason),
        cmocka_unit_test(a_program_ends_with_its_monitor),
        cmocka_unit_test(a_program_that_cannot_be_run_is_refused_with_the_reason),
        cmocka_unit_test(an_agent_without_an_interpreter_refuses_a_program_in_python),
        cmocka_unit_test(a_codec_cannot_start_the_program_again),
        cmocka_unit_test(limits_for_codecs_do_not_hold_for_the_program),
        cmocka_unit_test(a_confined_program_reads_the_system_and_its_data_and_writes_into_its_own_folder),
        cmocka_unit_test(a_program_of_a_user_of_its_own_reads_and_writes_the_same),
    };

    if (argc > 1)
        return move_to_other_group(strcmp(argv[1], "ends") == 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
