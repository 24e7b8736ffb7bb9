/* The agent as programs see it: every route, over real connections, with a runner that only pretends. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/job_action.h"
#include "codecs/codec.h"
#include "shared/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(a_job_goes_from_reservation_to_its_results)
{
    struct fixture f = {0};

    fixture_open(&f);
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
    assert_non_null(strstr(r.text, "Location: /v1/jobs/j-abcdef"));
    assert_non_null(strstr(r.text, "X-Request-Id: r-"));
    assert_true(reply_has(&r, "state", "preparing"));
    assert_non_null(strstr(r.body, "\"requirements\":[\"settings\",\"codec\",\"model\",\"data\"]"));
    job_send_packages(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "ready");
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202);
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202); /* the same again */
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/wait", NULL), 200);
    assert_true(reply_has(&r, "state", "succeeded"));
    assert_non_null(strstr(r.body, "\"eval_accuracy\":0.94"));
    assert_non_null(
        strstr(r.body, "\"nodes\":[{\"node\":0,\"role\":\"worker\",\"address\":\"127.0.0.1:15387\"}]"));

    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL), 200);
    assert_non_null(
        strstr(r.body, "\"name\":\"final.safetensors\",\"bytes\":7,\"sha256\":\"9a129038d9a00aed"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/final.safetensors", NULL), 200);
    assert_string_equal(r.body, "weights");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=train", NULL), 200);
    assert_string_equal(r.body, "epoch,loss\n1,0.5\n"); /* half a row stays away */
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=comm", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=confusion", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=node", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_non_null(strstr(r.body, "fake runner"));
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-abcdef", NULL), 204);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 404);
    fixture_close(&f);
}

TEST(the_runner_is_born_as_the_protocol_says)
{
    struct fixture f = {0};
    static char text[4096];
    struct err e;
    char path[256], *p;
    size_t len;

    setenv("SECRET_OF_THE_AGENT", "x", 1);
    fixture_open(&f);
    job_run(&f, "j-abcdef", "birth");
    job_until(&f, "j-abcdef", "succeeded");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/birth.txt", f.folder);
    assert_ok(file_read(&p, &len, path, sizeof text, &e));
    snprintf(text, sizeof text, "%s", p);
    free(p);
    assert_non_null(strstr(text, "fds: 0 1 2 3 4 \n"));
    assert_non_null(strstr(text, "stdin: /dev/null\n"));
    assert_non_null(strstr(text, "files: 1024\n"));
    assert_non_null(strstr(text, "core: 0\n"));
    assert_non_null(strstr(text, "leader: yes\n"));
    assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
    assert_non_null(strstr(text, "OPENBLAS_NUM_THREADS=1\n"));
    assert_null(strstr(text, "SECRET_OF_THE_AGENT"));
    fixture_close(&f);
}

TEST(events_stream_as_they_come_and_end_with_the_end)
{
    static struct client c, again;
    struct fixture f = {0};

    fixture_open(&f);
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
    client_open(&c, &f);
    client_get(&c, &f, "/v1/jobs/j-abcdef/events", "Accept: application/x-ndjson\r\n");
    client_expect(&c, &f, "\"seq\":1,");
    job_send_packages(&f, "j-abcdef", "ok");
    client_expect(&c, &f, "\"state\":\"ready\"");
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202);
    client_expect(&c, &f, "\"event\":\"progress\"");
    client_expect(&c, &f, "\"event\":\"end\",\"state\":\"succeeded\"");
    client_expect(&c, &f, "\r\n0\r\n\r\n");
    client_close(&c);

    client_open(&again, &f);
    client_get(&again, &f, "/v1/jobs/j-abcdef/events?after=9", "");
    client_expect(&again, &f, "id: 10\nevent: log\ndata: {\"seq\":10,");
    client_expect(&again, &f, "\r\n0\r\n\r\n");
    assert_null(strstr(again.text, "\"seq\":9,"));
    client_close(&again);
    fixture_close(&f);
}

static void follow_events(struct client *c, struct fixture *f, const char *id)
{
    char path[96];

    client_open(c, f);
    snprintf(path, sizeof path, "/v1/jobs/%s/events", id);
    client_get(c, f, path, "");
    client_expect(c, f, "\"seq\":1,");
}

TEST(a_reservation_ends_at_once_when_its_stream_closes)
{
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    job_reserve(&f, &r, "j-second", false);
    assert_true(reply_has(&r, "state", "pending"));
    assert_true(reply_has(&r, "reason", "AgentBusy"));
    follow_events(&c, &f, "j-first1");
    client_close(&c);
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(task_find(&f.agent, "j-first1")->job.reason, "LeaseExpired");
    assert_string_equal(job_state_name(task_find(&f.agent, "j-second")->job.state), "preparing");
    fixture_close(&f);
}

TEST(a_ready_job_is_released_with_its_runner)
{
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    follow_events(&c, &f, "j-first1");
    job_send_packages(&f, "j-first1", "ok");
    job_until(&f, "j-first1", "ready");
    client_close(&c);
    job_until(&f, "j-first1", "cancelled");
    fixture_close(&f);
}

TEST(a_start_that_does_not_fit_the_pipe_ends_the_job_with_the_reason)
{
    static char fill[4096];
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    job_send_packages(&f, "j-first1", "ok");
    job_until(&f, "j-first1", "ready");
    t = task_find(&f.agent, "j-first1");
    kill(-t->runner.pid, SIGSTOP);
    while (write(t->runner.control_fd, fill, sizeof fill) > 0)
        continue;
    assert_int_equal(job_send_start(&f, &r, "j-first1"), 500);
    job_until(&f, "j-first1", "failed");
    assert_string_equal(t->job.reason, "Internal");
    assert_non_null(strstr(t->job.message, "the pipe to job_runner"));
    fixture_close(&f);
}

TEST(a_started_job_does_not_need_its_submitter)
{
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    follow_events(&c, &f, "j-first1");
    job_send_packages(&f, "j-first1", "ok");
    job_until(&f, "j-first1", "ready");
    job_send_start(&f, &r, "j-first1");
    client_close(&c);
    job_until(&f, "j-first1", "succeeded");
    fixture_close(&f);
}

TEST(a_reservation_without_a_sign_of_life_expires)
{
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    t = task_find(&f.agent, "j-first1");
    t->lease_at = clock_now() - 1;
    timer_set(&f.agent.loop, &t->tick, clock_now());
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(t->job.reason, "LeaseExpired");
    fixture_close(&f);
}

TEST(the_time_limit_ends_a_job_as_failed)
{
    /* The second one's codec fails because the signal has woken it. */
    static const char *const behave[] = {"forever", "stumble"};
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(behave); i++) {
        char id[] = "j-first1";

        id[7] = (char)('1' + i);
        job_run(&f, id, behave[i]);
        t = task_find(&f.agent, id);
        t->limit_at = clock_now() - 1;
        timer_set(&f.agent.loop, &t->tick, clock_now());
        job_until(&f, id, "failed");
        assert_string_equal(t->job.reason, "TimeLimit");
    }
    fixture_close(&f);
}

TEST(a_busy_agent_queues_or_refuses)
{
    struct fixture f = {.opt.queue = 1};

    fixture_open(&f);
    job_run(&f, "j-first1", "forever");
    assert_int_equal(job_reserve(&f, &r, "j-second", true), 409);
    assert_true(reply_has(&r, "code", "AGENT_BUSY"));
    assert_non_null(strstr(r.body, "runs j-first1 (node 0"));
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 201);
    assert_int_equal(job_reserve(&f, &r, "j-third1", false), 429);
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 200); /* the same again */
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", NULL), 202);
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(job_state_name(task_find(&f.agent, "j-second")->job.state), "preparing");
    fixture_close(&f);
}

TEST(a_job_of_more_nodes_than_a_process_can_be_linked_with_is_refused)
{
    struct fixture f = {0};

    fixture_open(&f);
    f.agent.job_files = runner_files(1) - 1;
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 413);
    assert_true(reply_has(&r, "code", "TOO_LARGE"));
    assert_non_null(strstr(r.body, "may need 1024 open files, a process at 127.0.0.1"));
    assert_non_null(strstr(r.body, "has at most 1023"));
    f.agent.job_files++;
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
    fixture_close(&f);
}

TEST(cancel_works_from_every_state)
{
    static const char *const states[] = {"pending", "preparing", "ready", "running", "stopping"};

    for (size_t i = 0; i < N_OF(states); i++) {
        struct fixture f = {0};

        fixture_open(&f);
        if (i == 0)
            job_reserve(&f, &r, "j-before", false);
        job_reserve(&f, &r, "j-abcdef", false);
        if (i >= 2) {
            job_send_packages(&f, "j-abcdef", i == 4 ? "deaf" : "forever");
            job_until(&f, "j-abcdef", "ready");
        }
        if (i >= 3)
            job_send_start(&f, &r, "j-abcdef");
        if (i == 4)
            assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":60}"), 202);
        job_until(&f, "j-abcdef", states[i]);
        assert_int_equal(
            ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"reason\":\"enough\",\"grace_s\":0.2}"), 202);
        job_until(&f, "j-abcdef", "cancelled");
        assert_string_equal(task_find(&f.agent, "j-abcdef")->job.reason, "UserCancelled");
        assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL), 200);
        fixture_close(&f);
    }
}

TEST(a_runner_that_said_its_end_and_hangs_is_killed_soon_whatever_grace_it_had)
{
    struct fixture f = {0};
    double until = clock_now() + 60;
    struct task *t;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "linger");
    job_until(&f, "j-abcdef", "running");
    t = task_find(&f.agent, "j-abcdef");
    while (t->job.step < 1 && clock_now() < until) /* its trap is set */
        fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":600}"), 202);
    while (!job_state_is_terminal(t->job.state) && clock_now() < until)
        fixture_turn(&f);
    assert_string_equal(job_state_name(t->job.state), "cancelled");
    fixture_close(&f);
}

/* What the agent says is the SHA-256 of this file of j-abcdef. */
static void digest_of(struct fixture *f, const char *name, char hex[SHA256_HEX])
{
    json_t *o, *v;
    size_t i;

    hex[0] = '\0';
    assert_int_equal(ask(f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL), 200);
    o = json_loads(r.body, 0, NULL);
    json_array_foreach(json_object_get(o, "artifacts"), i, v)
    {
        if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
            snprintf(hex, SHA256_HEX, "%s", json_string_value(json_object_get(v, "sha256")));
    }
    json_decref(o);
    assert_int_equal(strlen(hex), SHA256_HEX - 1);
}

TEST(a_file_is_hashed_once_and_again_when_it_has_changed)
{
    struct fixture f = {0};
    char path[256], first[SHA256_HEX], then[SHA256_HEX];
    struct timespec times[2];
    struct stat st;
    int fd;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    digest_of(&f, "final.safetensors", first);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/final.safetensors", f.folder);
    assert_int_equal(stat(path, &st), 0);
    fd = open(path, O_WRONLY);
    assert_int_equal(write(fd, "W", 1), 1);
    times[0] = st.st_atim;
    times[1] = st.st_mtim; /* by size and time it is what it was: nobody reads it */
    assert_int_equal(futimens(fd, times), 0);
    digest_of(&f, "final.safetensors", then);
    assert_string_equal(then, first);
    times[1].tv_sec++;
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    digest_of(&f, "final.safetensors", then);
    assert_string_not_equal(then, first);
    fixture_close(&f);
}

static rlim_t limit_files(rlim_t n)
{
    struct rlimit limit;
    rlim_t old;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    old = limit.rlim_cur;
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return old;
}

TEST(a_data_socket_that_cannot_be_made_is_told_with_its_cause)
{
    const struct job_spec spec = {
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 9};
    struct fixture f = {0};
    struct task *t;
    struct err e;
    rlim_t old;

    fixture_open(&f);
    assert_ok(task_add(&f.agent, &spec, &t, &e));
    old = limit_files(3);
    job_schedule(&f.agent);
    limit_files(old);
    assert_string_equal(t->job.message, "data socket: Too many open files");
    fixture_close(&f);
}

TEST(a_runner_that_dies_is_an_event_with_its_last_words)
{
    static const struct {
        const char *behave, *reason, *message;
        bool starts;
    } cases[] = {
        {"crash", "RunnerDied", "job_runner was killed by signal 11 (Segmentation fault)", true},
        {"crash_early", "RunnerDied", "job_runner was killed by signal 11 (Segmentation fault)", false},
        {"exit_early", "RunnerDied", "job_runner exited with status 0", false},
        {"too_eager", "RunnerDied", "job_runner reported success before it was started", false},
        {"fail_load", "CodecLoadFailed", "no such symbol", false},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct fixture f = {0};
        struct task *t;

        fixture_open(&f);
        job_reserve(&f, &r, "j-abcdef", false);
        job_send_packages(&f, "j-abcdef", cases[i].behave);
        t = task_find(&f.agent, "j-abcdef");
        if (cases[i].starts) {
            job_until(&f, "j-abcdef", "ready");
            job_send_start(&f, &r, "j-abcdef");
        }
        job_until(&f, "j-abcdef", "failed");
        assert_string_equal(t->job.reason, cases[i].reason);
        assert_string_equal(t->job.message, cases[i].message);
        if (cases[i].starts) {
            ask_bytes(&f, &r, "GET", "/v1/jobs/j-abcdef/events", "", NULL, 0);
            assert_int_equal(r.status, 401);
            ask(&f, &r, "GET", "/v1/jobs/j-abcdef/events", NULL);
            assert_non_null(strstr(r.body, "\"text\":\"log line 10\""));
            assert_non_null(strstr(r.body, "\"text\":\"log line 29\""));
            assert_null(strstr(r.body, "\"text\":\"log line 9\""));
        }
        fixture_close(&f);
    }
}

/* So many lines more in the file of its runner's events, and the end. */
static void leave_lines(const struct fixture *f, const char *id, int n)
{
    char path[256];
    FILE *events;

    snprintf(path, sizeof path, "%s/agent/jobs/%s/run/events.jsonl", f->folder, id);
    events = fopen(path, "a");
    assert_non_null(events);
    for (int i = 0; i < n; i++)
        fprintf(events, "{\"event\":\"log\",\"level\":\"info\",\"text\":\"%0500d\"}\n", i);
    fprintf(events, "{\"event\":\"end\",\"state\":\"succeeded\"}\n");
    assert_int_equal(fclose(events), 0);
}

TEST(what_a_dead_runner_has_left_is_read_over_many_turns_and_to_its_end)
{
    enum { LINES = 4096 };
    struct fixture f = {0};
    struct pollfd gone = {.events = POLLIN};
    const struct task *t;
    uint64_t n_before;
    int n_turns = 0;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "deaf");
    t = task_find(&f.agent, "j-abcdef");
    gone.fd = t->runner.pidfd;
    kill(-t->runner.pid, SIGKILL);
    assert_int_equal(poll(&gone, 1, 10000), 1);
    n_before = t->job.last_seq;
    leave_lines(&f, "j-abcdef", LINES);
    for (; t->job.state == JOB_RUNNING; n_turns++)
        fixture_turn(&f);
    assert_true(n_turns > 2 && n_turns <= 512);
    assert_int_equal(t->job.state, JOB_SUCCEEDED);
    assert_true(t->job.last_seq > n_before + LINES);
    fixture_close(&f);
}

TEST(nothing_of_a_runner_survives_its_end)
{
    struct fixture f = {0};
    char path[256], *text;
    struct err e;
    size_t len;
    int child;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "family");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/child.pid", f.folder);
    while (file_read(&text, &len, path, 64, &e) < 0 || len < 2)
        fixture_turn(&f);
    child = atoi(text);
    free(text);
    assert_true(process_is_running(child));
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":0.1}");
    job_until(&f, "j-abcdef", "cancelled");
    for (int i = 0; i < 500 && process_is_running(child);
         i++) /* a killed process may still be on its way out */
        fixture_turn(&f);
    assert_false(process_is_running(child));
    fixture_close(&f);
}

TEST(what_a_runner_plants_is_not_given_out)
{
    static const char *const names[] = {"eval.csv", "comm.csv", "best.safetensors"};
    struct fixture f = {0};
    char path[128];

    fixture_open(&f);
    job_run(&f, "j-abcdef", "links");
    job_until(&f, "j-abcdef", "succeeded");
    for (size_t i = 0; i < N_OF(names); i++) {
        snprintf(path, sizeof path, "/v1/jobs/j-abcdef/artifacts/%s", names[i]);
        assert_int_equal(ask(&f, &r, "GET", path, NULL), 403);
        assert_null(strstr(r.text, "root:"));
    }
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=eval", NULL), 403);
    ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL);
    assert_null(strstr(r.body, "eval.csv"));
    fixture_close(&f);
}

TEST(lines_that_are_not_of_the_form_are_dropped)
{
    struct fixture f = {0};
    const struct task *t;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "noise");
    job_until(&f, "j-abcdef", "succeeded");
    t = task_find(&f.agent, "j-abcdef");
    assert_int_equal(t->n_bad_lines, 4);
    assert_int_equal(t->job.last_seq, 4 + 4 + 2 + 1);
    fixture_close(&f);
}

TEST(requests_that_make_no_sense_are_refused_with_the_reason)
{
#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"
#define PEER  "{\"node\":0,\"role\":\"worker\",\"address\":\"a:1\",\"host\":\"a\",\"data_port\":1}"
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *words;
    } cases[] = {
        {"POST", "/v1/jobs", "{", 400, "body:1"},
        {"POST", "/v1/jobs", "[]", 422, "not an object"},
        {"POST", "/v1/jobs", "{\"id\":\"j-x\"}", 422, "/attempt: missing"},
        {"POST", "/v1/jobs", "{\"idd\":\"j-x\"}", 422, "did you mean \\\"id\\\"?"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-abcdef\",\"attempt\":2,\"node\":0,\"role\":\"worker\",\"node_count\":1}", 409,
         "JOB_EXISTS"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":1,\"role\":\"worker\",\"node_count\":1}", 422,
         "/node: 1 is no worker of 1"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":-2,\"role\":\"worker\",\"node_count\":1}", 422,
         "/node"},
        {"POST", "/v1/jobs",
         "{\"id\":\"../../x\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":1}", 422, "/id"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"codec.so\":\"" HEX64 "\"}}", 404,
         "no blob"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"code.so\":\"" HEX64 "\"}}", 422,
         "did you mean"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{}}", 422, "/files/codec.so: missing"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"codec.so\":\"../x\"}}", 422,
         "not a SHA-256"},
        {"PUT", "/v1/jobs/j-abcdef/packages/misc", "{}", 404, "settings, codec"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1,\"peers\":[" PEER "]}", 409, "WRONG_STATE"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":2,\"peers\":[" PEER "]}", 409, "attempt 2"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1,\"key\":\"" HEX64 "\",\"peers\":[" PEER "]}", 422,
         "/key"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1,\"peers\":[]}", 422, "/peers"},
        {"POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":-1}", 422, "/grace_s"},
        {"DELETE", "/v1/jobs/j-abcdef", NULL, 409, "Cancel it first"},
        {"DELETE", "/v1/jobs", NULL, 405, "Allow: GET, HEAD, POST"},
        {"GET", "/v1/jobs/j-zzzzzz", NULL, 404, "not known here"},
        {"GET", "/v1/jobs?state=nonsense", NULL, 400, "not a state"},
        {"GET", "/v1/jobs?stat=ready", NULL, 400, "did you mean"},
        {"GET", "/v1/jobs?limit=0", NULL, 400, "limit=0"},
        {"GET", "/v1/jobs/j-abcdef/wait?timeout_s=9999", NULL, 400, "timeout_s"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/passwd", NULL, 404, "no artefact"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/train.csv", NULL, 404, "has no train.csv"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/../../token", NULL, 404, "nothing at this path"},
        {"GET", "/v1/blobs/sha256/" HEX64, NULL, 405, "Allow: HEAD, PUT"},
    };
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    for (size_t i = 0; i < N_OF(cases); i++) {
        int status = ask(&f, &r, cases[i].method, cases[i].path, cases[i].body);

        if (status != cases[i].status || !strstr(r.text, cases[i].words))
            fail_msg("%s %s %s: %s", cases[i].method, cases[i].path, cases[i].body ? cases[i].body : "",
                     r.text);
        if (status != 405)
            assert_non_null(strstr(r.text, "Content-Type: application/problem+json"));
    }
    fixture_close(&f);
}

/* Of a job on the agent: binds the codec's package to these blobs. */
static int bind_codec(struct fixture *f, const char *object, const char *source, const char *manifest)
{
    char body[512];

    snprintf(body, sizeof body, "{\"files\":{\"codec.so\":\"%s\",\"codec.c\":\"%s\",\"codec.json\":\"%s\"}}",
             object, source, manifest);
    return ask(f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body);
}

static bool has_package_file(const struct fixture *f, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/packages/%s", f->folder, name);
    return access(path, F_OK) == 0;
}

TEST(a_codec_that_is_not_allowed_is_refused_with_its_reservation_or_its_package)
{
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], body[512], list[256];
    struct fixture f = {.opt.codecs = CODECS_ALLOWLIST};
    struct err e;

    fixture_open(&f);
    object_begin(object);
    blob_send(hex, &f, object, sizeof object);
    snprintf(body, sizeof body,
             "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"codec\":\"mean\",\"node_"
             "count\":1,"
             "\"codec_sha256\":\"%s\"}",
             hex);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs", body), 403);
    assert_true(reply_has(&r, "code", "CODEC_REFUSED"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-zzzzzz", NULL), 404);

    job_reserve(&f, &r, "j-abcdef", false);
    snprintf(body, sizeof body, "{\"files\":{\"codec.so\":\"%s\"}}", hex);
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body), 403);
    assert_true(reply_has(&r, "code", "CODEC_REFUSED"));
    assert_non_null(strstr(r.body, hex));
    assert_false(has_package_file(&f, "codec.so"));

    snprintf(list, sizeof list, "%s/agent/codecs.allow", f.folder);
    assert_ok(file_write(list, hex, strlen(hex), 0600, &e));
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body), 204);
    assert_true(has_package_file(&f, "codec.so"));
    fixture_close(&f);
}

TEST(an_object_of_another_machine_is_left_out_and_its_source_and_manifest_are_artefacts)
{
    static const char source_text[] = "int x;\n";
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], source[SHA256_HEX], manifest[SHA256_HEX], text[512], path[256], *p;
    struct fixture f = {0};
    struct err e;
    size_t len;
    int n;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    object_begin(object);
    object[18] ^= 0x7f; /* e_machine: some other */
    blob_send(hex, &f, object, sizeof object);
    blob_send(source, &f, source_text, strlen(source_text));
    n = snprintf(text, sizeof text,
                 "{\"name\":\"mean\",\"abi\":%d,\"architecture\":\"other\",\"sha256\":\"%s\",\"source_"
                 "sha256\":\"%s\"}",
                 CODEC_ABI, hex, source);
    blob_send(manifest, &f, text, (size_t)n);

    assert_int_equal(bind_codec(&f, hex, source, source), 422);      /* which is no manifest */
    assert_int_equal(bind_codec(&f, source, source, manifest), 403); /* nor an object */
    snprintf(path, sizeof path, "{\"files\":{\"codec.so\":\"%s\"}}", hex);
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", path), 403);
    assert_non_null(strstr(r.body, "its source did not come along"));
    assert_false(has_package_file(&f, "codec.json"));

    f.agent.codecs.cc = "sh"; /* it is only looked for: job_runner compiles */
    assert_int_equal(bind_codec(&f, hex, source, manifest), 204);
    assert_false(has_package_file(&f, "codec.so"));
    assert_true(has_package_file(&f, "codec.c") && has_package_file(&f, "codec.json"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "codec_sha256", hex));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/codec.c", NULL), 200);
    assert_string_equal(r.body, source_text);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/packages/codec.json", f.folder);
    assert_ok(file_read(&p, &len, path, sizeof text, &e));
    assert_string_equal(p, text);
    free(p);
    fixture_close(&f);
}

TEST(a_manifest_of_other_files_is_refused)
{
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], source[SHA256_HEX], manifest[SHA256_HEX], text[512];
    struct fixture f = {0};
    int n;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    object_begin(object);
    blob_send(hex, &f, object, sizeof object);
    blob_send(source, &f, "int x;", 6);
    n = snprintf(text, sizeof text,
                 "{\"name\":\"mean\",\"abi\":%d,\"architecture\":\"other\",\"sha256\":\"%s\"}", CODEC_ABI,
                 hex);
    blob_send(manifest, &f, text, (size_t)n);
    assert_int_equal(bind_codec(&f, hex, source, manifest), 422);
    assert_non_null(strstr(r.body, "/files/codec.json: is of other files"));
    fixture_close(&f);
}

TEST(blobs_are_checked_and_not_sent_twice)
{
    struct fixture f = {0};
    char headers[256];
    const char *path = "/v1/blobs/sha256/2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fixture_open(&f);
    snprintf(headers, sizeof headers,
             "Authorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 3\r\n",
             f.token);
    assert_int_equal(ask(&f, &r, "HEAD", path, NULL), 404);
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "bar", 3), 422);
    assert_true(reply_has(&r, "code", "DIGEST_MISMATCH"));
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "foo", 3), 201);
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "foo", 3), 200);
    assert_int_equal(ask(&f, &r, "HEAD", path, NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 3\r\n"));
    fixture_close(&f);
}

TEST(a_wait_lasts_until_its_time_or_the_end_whichever_is_first)
{
    static struct client c;
    struct fixture f = {0};
    double begun;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    begun = clock_now();
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/wait?timeout_s=0.2", NULL), 200);
    assert_true(reply_has(&r, "state", "running"));
    assert_true(clock_now() - begun < 0.9);
    client_open(&c, &f);
    client_get(&c, &f, "/v1/jobs/j-abcdef/wait", "Connection: close\r\n");
    for (int i = 0; i < 5; i++)
        fixture_turn(&f);
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    client_expect(&c, &f, "\"state\":\"cancelled\"");
    client_close(&c);
    fixture_close(&f);
}

TEST(many_streams_of_one_job_all_end_and_one_that_vanishes_disturbs_nobody)
{
    enum { N = 20 };
    static struct client c[N];
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &f);
        client_get(&c[i], &f, "/v1/jobs/j-abcdef/events", "");
    }
    for (int i = 0; i < N; i++)
        client_expect(&c[i], &f, "event: progress");
    for (int i = 0; i < N; i += 2)
        client_close(&c[i]);
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    for (int i = 1; i < N; i += 2) {
        client_expect(&c[i], &f, "event: end");
        client_expect(&c[i], &f, "\r\n0\r\n\r\n");
        client_close(&c[i]);
    }
    for (int i = 0; i < 10; i++)
        fixture_turn(&f);
    assert_false(http_server_is_busy(f.server));
    fixture_close(&f);
}

TEST(the_status_is_for_everybody_here_and_tells_no_secret)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    job_reserve(&f, &r, "j-waiting", false);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/v1/status", "", NULL, 0), 200);
    assert_non_null(strstr(r.body, "\"state\": \"busy\""));
    assert_non_null(strstr(r.body, "j-abcdef"));
    assert_null(strstr(r.body, f.token));
    assert_null(strstr(r.body, "000000007")); /* the job's key */
    assert_int_equal(ask_bytes(&f, &r, "GET", "/healthz", "", NULL, 0), 200);
    assert_string_equal(r.body, "ok\n");
    assert_int_equal(ask_bytes(&f, &r, "GET", "/readyz", "", NULL, 0), 200);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/v1/agent", "", NULL, 0), 401);
    assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    assert_true(reply_has(&r, "slots_free", "0"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs?state=pending", NULL), 200);
    assert_null(strstr(r.body, "j-abcdef"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs?limit=1", NULL), 200);
    assert_non_null(strstr(r.body, "j-waiting"));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/events", NULL), 200);
    fixture_close(&f);
}

TEST(a_log_is_followed_by_the_byte)
{
    static const char text[] = "first line\nsecond line\n";
    struct fixture f = {0};
    static char much[5 << 20];
    char path[128];
    struct err e;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/node.log", f.folder);
    assert_ok(file_write(path, text, sizeof text - 1, 0600, &e));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_string_equal(r.body, text);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=11", NULL), 200);
    assert_string_equal(r.body, text + 11);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=23", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=999999999999", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=-1", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/events?after=x", NULL), 400);
    memset(much, 'x', sizeof much);
    assert_ok(file_write(path, much, sizeof much, 0600, &e));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/logs?after=1", NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 4194304\r\n"));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 5242880\r\n"));
    fixture_close(&f);
}

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(ended_jobs_that_are_kept_take_no_descriptor_and_tell_their_events)
{
    struct fixture f = {0};
    int before;

    fixture_open(&f);
    before = n_descriptors();
    for (int round = 0; round < 2; round++) {
        if (round == 0) {
            job_run(&f, "j-first1", "ok");
            job_until(&f, "j-first1", "succeeded");
            job_reserve(&f, &r, "j-second", false);
            ask(&f, &r, "POST", "/v1/jobs/j-second/cancel", NULL);
        } else {
            fixture_crash(&f);
            fixture_reopen(&f);
        }
        assert_int_equal(n_descriptors(), before);
        assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1/events?after=0", NULL), 200);
        assert_non_null(strstr(r.body, "\"seq\":1,"));
        assert_non_null(strstr(r.body, "\"state\":\"succeeded\""));
    }
    fixture_close(&f);
}

TEST(ended_jobs_beyond_keep_are_forgotten)
{
    struct fixture f = {.opt.keep = 2};
    char id[32], path[128];

    fixture_open(&f);
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "j-job00%d", i);
        snprintf(path, sizeof path, "/v1/jobs/%s/cancel", id);
        job_reserve(&f, &r, id, false);
        ask(&f, &r, "POST", path, NULL);
    }
    assert_null(task_find(&f.agent, "j-job001"));
    assert_non_null(task_find(&f.agent, "j-job002"));
    snprintf(path, sizeof path, "%s/agent/jobs/j-job001", f.folder);
    assert_int_not_equal(access(path, F_OK), 0);
    fixture_close(&f);
}

TEST(heads_the_server_library_would_take_are_refused)
{
    static const struct {
        const char *head;
        const char *status;
    } cases[] = {
        {"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "400"},
        {"GET /healthz HTTP/1.1\r\n\r\n", "400"},
        {"GET /%68ealthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
        {"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
        {"FOO /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
         "400"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
    };
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(cases); i++) {
        char want[32];

        snprintf(want, sizeof want, "HTTP/1.1 %s ", cases[i].status);
        client_open(&c, &f);
        client_send(&c, cases[i].head, strlen(cases[i].head));
        client_expect(&c, &f, want);
        client_close(&c);
    }
    fixture_close(&f);
}

TEST(an_address_with_too_many_connections_is_told_of_in_the_log)
{
    enum { MANY = 70 };
    static struct client c[MANY];
    struct stderr_catch caught;
    struct fixture f = {0};
    double until = clock_now() + 60;
    int n_open = 0, status;

    fixture_open(&f);
    stderr_catch_begin(&caught);
    for (int i = 0; i < MANY; i++) {
        client_open(&c[i], &f);
        fixture_turn(&f);
    }
    client_expect_close(&c[MANY - 1], &f);
    stderr_catch_end(&caught);
    assert_non_null(strstr(caught.text, "a connection from 127.0.0.1 is dropped: 64 are open from there"));
    assert_null(strstr(strstr(caught.text, "is dropped") + 1, "is dropped"));
    for (int i = 0; i < 64; i++)
        n_open += recv(c[i].fd, c[i].text, 1, MSG_DONTWAIT) < 0;
    assert_int_equal(n_open, 64);
    for (int i = 0; i < MANY; i++)
        client_close(&c[i]);
    do /* until the agent has seen that they are gone */
        status = ask_bytes(&f, &r, "GET", "/healthz", "", NULL, 0);
    while (status != 200 && clock_now() < until);
    assert_int_equal(status, 200);
    fixture_close(&f);
}

TEST(bytes_that_are_no_request_leave_the_agent_well)
{
    static struct client c;
    struct fixture f = {0};
    unsigned seed = 1;
    char junk[64];

    fixture_open(&f);
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizeof junk; k++)
            junk[k] = (char)(rand_r(&seed) >> 8);
        client_open(&c, &f);
        client_send(&c, junk, sizeof junk);
        for (int k = 0; k < 3; k++)
            fixture_turn(&f);
        client_close(&c);
    }
    assert_int_equal(ask_bytes(&f, &r, "GET", "/healthz", "", NULL, 0), 200);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_from_reservation_to_its_results),
        cmocka_unit_test(the_runner_is_born_as_the_protocol_says),
        cmocka_unit_test(events_stream_as_they_come_and_end_with_the_end),
        cmocka_unit_test(a_reservation_ends_at_once_when_its_stream_closes),
        cmocka_unit_test(a_ready_job_is_released_with_its_runner),
        cmocka_unit_test(a_start_that_does_not_fit_the_pipe_ends_the_job_with_the_reason),
        cmocka_unit_test(a_started_job_does_not_need_its_submitter),
        cmocka_unit_test(a_reservation_without_a_sign_of_life_expires),
        cmocka_unit_test(the_time_limit_ends_a_job_as_failed),
        cmocka_unit_test(a_busy_agent_queues_or_refuses),
        cmocka_unit_test(a_job_of_more_nodes_than_a_process_can_be_linked_with_is_refused),
        cmocka_unit_test(cancel_works_from_every_state),
        cmocka_unit_test(a_runner_that_said_its_end_and_hangs_is_killed_soon_whatever_grace_it_had),
        cmocka_unit_test(a_file_is_hashed_once_and_again_when_it_has_changed),
        cmocka_unit_test(a_data_socket_that_cannot_be_made_is_told_with_its_cause),
        cmocka_unit_test(a_runner_that_dies_is_an_event_with_its_last_words),
        cmocka_unit_test(what_a_dead_runner_has_left_is_read_over_many_turns_and_to_its_end),
        cmocka_unit_test(nothing_of_a_runner_survives_its_end),
        cmocka_unit_test(what_a_runner_plants_is_not_given_out),
        cmocka_unit_test(lines_that_are_not_of_the_form_are_dropped),
        cmocka_unit_test(requests_that_make_no_sense_are_refused_with_the_reason),
        cmocka_unit_test(a_codec_that_is_not_allowed_is_refused_with_its_reservation_or_its_package),
        cmocka_unit_test(an_object_of_another_machine_is_left_out_and_its_source_and_manifest_are_artefacts),
        cmocka_unit_test(a_manifest_of_other_files_is_refused),
        cmocka_unit_test(blobs_are_checked_and_not_sent_twice),
        cmocka_unit_test(a_wait_lasts_until_its_time_or_the_end_whichever_is_first),
        cmocka_unit_test(many_streams_of_one_job_all_end_and_one_that_vanishes_disturbs_nobody),
        cmocka_unit_test(the_status_is_for_everybody_here_and_tells_no_secret),
        cmocka_unit_test(a_log_is_followed_by_the_byte),
        cmocka_unit_test(ended_jobs_that_are_kept_take_no_descriptor_and_tell_their_events),
        cmocka_unit_test(ended_jobs_beyond_keep_are_forgotten),
        cmocka_unit_test(heads_the_server_library_would_take_are_refused),
        cmocka_unit_test(an_address_with_too_many_connections_is_told_of_in_the_log),
        cmocka_unit_test(bytes_that_are_no_request_leave_the_agent_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
