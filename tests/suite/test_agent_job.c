/* Jobs on an agent from reservation to removal, with a fake runner. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(a_job_runs_from_reservation_to_results)
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
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202); /* idempotent */
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/wait", NULL), 200);
    assert_true(reply_has(&r, "state", "succeeded"));
    assert_non_null(strstr(r.body, "\"eval_accuracy\":0.94"));
    assert_non_null(strstr(r.body, "\"node_count\":1,\"server_count\":0,"));

    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL), 200);
    assert_non_null(
        strstr(r.body, "\"name\":\"final.safetensors\",\"bytes\":264,\"sha256\":\"447f083060cd62c2"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/final.safetensors", NULL), 200);
    assert_memory_equal(r.body, "\370\0\0\0\0\0\0\0{\"__metadata__\"", 23);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=train", NULL), 200);
    /* The incomplete row is omitted. */
    assert_string_equal(r.body, "time_s,node,role,epoch,batch,batches,step\n0.1,0,worker,2,2,2,4\n");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=comm", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=confusion", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=node", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_non_null(strstr(r.body, "fake runner"));
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-abcdef", NULL), 204);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 410);
    fixture_close(&f);
}

static int name_two_packages(struct fixture *f, const char *model_hex, const char *codec_hex)
{
    char body[512];

    snprintf(body, sizeof body,
             "{\"packages\":{\"model\":{\"files\":{\"model.json\":\"%s\"}},"
             "\"codec\":{\"files\":{\"codec.so\":\"%s\"}}}}",
             model_hex, codec_hex);
    return ask(f, &r, "PUT", "/v1/jobs/j-abcdef/packages", body);
}

TEST(packages_that_are_named_at_once_are_taken_when_the_agent_lacks_none_of_their_blobs)
{
    struct fixture f = {0};
    char model[SHA256_HEX], codec[SHA256_HEX], list[SHA256_HEX + 32];
    uint8_t object[OBJECT_BYTES], digest[SHA256_BYTES];

    fixture_open(&f);
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
    object_begin(object);
    sha256(digest, object, sizeof object);
    hex_encode(codec, digest, sizeof digest);
    blob_send(model, &f, "{}", 2);
    assert_int_equal(name_two_packages(&f, model, codec), 200);
    snprintf(list, sizeof list, "{\"lacks\":[\"%s\"]}", codec);
    assert_non_null(strstr(r.body, list));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_non_null(strstr(r.body, "\"requirements\":[\"settings\",\"codec\",\"model\",\"data\"]"));
    blob_send(codec, &f, object, sizeof object);
    for (int i = 0; i < 2; i++) { /* the same again changes nothing */
        assert_int_equal(name_two_packages(&f, model, codec), 200);
        assert_non_null(strstr(r.body, "{\"lacks\":[]}"));
        assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
        assert_non_null(strstr(r.body, "\"requirements\":[\"settings\",\"data\"]"));
    }
    fixture_close(&f);
}

TEST(a_worker_with_a_training_program_waits_for_it_and_is_told_the_interpreter)
{
    struct fixture f = {.opt = {.trainers = TRAINERS_ANY, .trainer_python = "/bin/sh"}};
    char hex[SHA256_HEX], body[256];

    fixture_open(&f);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs",
                         "{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"codec\":"
                         "\"fedavg\",\"node_count\":1,\"trainer\":\"train.py\"}"),
                     201);
    job_send_packages(&f, "j-abcdef", "ok");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "state", "preparing"));
    assert_non_null(strstr(r.body, "\"requirements\":[\"trainer\"]"));
    blob_send(hex, &f, "program", 7);
    snprintf(body, sizeof body, "{\"files\":{\"trainer.safetensors\":\"%s\"}}", hex);
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/trainer", body), 204);
    job_until(&f, "j-abcdef", "ready");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_non_null(strstr(
        r.body, "\"trainer_python\":\"/bin/sh\",\"trainer_isolation\":\"none\",\"trainer_data\":\"\"}"));
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

static void until_streams(struct fixture *f, unsigned n)
{
    double until = clock_now() + UNIT_WAIT_S;

    while (task_find(&f->agent.jobs, "j-first1")->n_streams != n && clock_now() < until)
        fixture_turn(f);
    assert_int_equal(task_find(&f->agent.jobs, "j-first1")->n_streams, n);
}

TEST(a_reservation_ends_seconds_after_its_stream_unless_another_is_opened)
{
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    job_reserve(&f, &r, "j-second", false);
    assert_true(reply_has(&r, "state", "pending"));
    assert_true(reply_has(&r, "reason", "AgentBusy"));
    follow_events(&c, &f, "j-first1");
    /* A stream that is opened again in time keeps the reservation. */
    client_close(&c);
    until_streams(&f, 0);
    assert_true(task_find(&f.agent.jobs, "j-first1")->lease_at <= clock_now() + BROKEN_LEASE_S);
    follow_events(&c, &f, "j-first1");
    task_find(&f.agent.jobs, "j-first1")->lease_at = clock_now() - 1;
    for (int i = 0; i < 20; i++)
        fixture_turn(&f);
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-first1")->job.state), "preparing");
    client_close(&c);
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(task_find(&f.agent.jobs, "j-first1")->job.reason, "LeaseExpired");
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-second")->job.state), "preparing");
    fixture_close(&f);
}

TEST(a_reservation_without_keepalive_expires)
{
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    t = task_find(&f.agent.jobs, "j-first1");
    t->lease_at = clock_now() - 1;
    timer_set(&f.agent.loop, &t->tick, clock_now());
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(t->job.reason, "LeaseExpired");
    fixture_close(&f);
}

/* Its submitter, c, reads its event stream. */
static void make_ready(struct fixture *f, struct client *c)
{
    fixture_open(f);
    job_reserve(f, &r, "j-first1", false);
    follow_events(c, f, "j-first1");
    job_send_packages(f, "j-first1", "ok");
    job_until(f, "j-first1", "ready");
}

TEST(the_lease_is_short_until_the_submitter_asks_again)
{
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    t = task_find(&f.agent.jobs, "j-first1");
    assert_true(t->lease_at <= clock_now() + FIRST_LEASE_S);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL), 200);
    assert_true(t->lease_at > clock_now() + FIRST_LEASE_S);
    fixture_close(&f);
}

TEST(a_ready_job_is_released_with_its_runner)
{
    static struct client c;
    struct fixture f = {0};

    make_ready(&f, &c);
    client_close(&c);
    job_until(&f, "j-first1", "cancelled");
    fixture_close(&f);
}

TEST(a_start_that_the_pipe_has_no_room_for_arrives_when_the_runner_reads)
{
    char fill[4096];
    struct fixture f = {0};
    struct task *t;

    memset(fill, ' ', sizeof fill);
    fixture_open(&f);
    job_reserve(&f, &r, "j-first1", false);
    job_send_packages(&f, "j-first1", "ok");
    job_until(&f, "j-first1", "ready");
    t = task_find(&f.agent.jobs, "j-first1");
    kill(-t->runner.pid, SIGSTOP);
    while (write(t->runner.control_fd, fill, sizeof fill) > 0)
        continue;
    assert_int_equal(job_send_start(&f, &r, "j-first1"), 202);
    assert_true(t->runner.n_unsent > 0);
    kill(-t->runner.pid, SIGCONT);
    job_until(&f, "j-first1", "succeeded");
    fixture_close(&f);
}

TEST(a_started_job_does_not_need_its_submitter)
{
    static struct client c;
    struct fixture f = {0};

    make_ready(&f, &c);
    job_send_start(&f, &r, "j-first1");
    client_close(&c);
    job_until(&f, "j-first1", "succeeded");
    fixture_close(&f);
}

TEST(the_time_limit_ends_a_job_as_failed)
{
    /* The second job's codec fails: the signal interrupts it. */
    static const char *const behave[] = {"forever", "stumble"};
    struct fixture f = {0};
    struct task *t;

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(behave); i++) {
        char id[] = "j-first1";

        id[7] = (char)('1' + i);
        job_run(&f, id, behave[i]);
        t = task_find(&f.agent.jobs, id);
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
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 200); /* idempotent */
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", NULL), 202);
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-second")->job.state), "preparing");
    fixture_close(&f);
}

TEST(a_waiting_job_shows_its_place_in_the_queue)
{
    struct fixture f = {0};
    char expected[192];

    fixture_open(&f);
    job_reserve(&f, &r, "j-holder", false);
    assert_non_null(strstr(r.body, "\"queue\":null"));
    job_reserve(&f, &r, "j-first1", false);
    assert_non_null(strstr(r.body, "\"queue\":{\"position\":1,\"length\":1,\"behind\":\"j-holder\"}"));
    job_reserve(&f, &r, "j-second", false);
    assert_non_null(strstr(r.body, "\"queue\":{\"position\":2,\"length\":2,\"behind\":\"j-first1\"}"));
    snprintf(expected, sizeof expected, "waits in the queue of %s, position 2 of 2, behind j-first1",
             f.agent.address);
    assert_true(reply_has(&r, "message", expected));
    ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", NULL);
    ask(&f, &r, "GET", "/v1/jobs/j-second", NULL);
    assert_non_null(strstr(r.body, "\"queue\":{\"position\":1,\"length\":1,\"behind\":\"j-holder\"}"));
    ask(&f, &r, "POST", "/v1/jobs/j-holder/cancel", NULL);
    ask(&f, &r, "GET", "/v1/jobs/j-second", NULL);
    assert_non_null(strstr(r.body, "\"queue\":null"));
    fixture_close(&f);
}

TEST(a_draining_agent_finishes_running_jobs_and_keeps_the_queue)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-first1", "forever");
    job_reserve(&f, &r, "j-second", false);
    assert_int_equal(ask(&f, &r, "POST", "/v1/agent/drain", NULL), 200);
    assert_true(reply_has(&r, "running", "1"));
    assert_true(reply_has(&r, "queued", "1"));
    assert_int_equal(ask(&f, &r, "GET", "/readyz", NULL), 503);
    assert_non_null(strstr(r.body, "\"draining\""));
    ask(&f, &r, "GET", "/v1/status", NULL);
    assert_non_null(strstr(r.body, "\"state\": \"draining\""));
    assert_int_equal(job_reserve(&f, &r, "j-third1", false), 503);
    assert_true(reply_has(&r, "code", "DRAINING"));
    assert_non_null(strstr(r.body, "job_submit agents resume"));
    assert_int_equal(job_reserve(&f, &r, "j-second", false), 200); /* it is known */
    assert_true(reply_has(&r, "reason", "Draining"));
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-first1")->job.state), "running");
    ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", NULL);
    job_until(&f, "j-first1", "cancelled");
    ask(&f, &r, "GET", "/v1/status", NULL);
    assert_non_null(strstr(r.body, "\"state\": \"drained\""));
    job_until(&f, "j-second", "pending");
    assert_int_equal(ask(&f, &r, "POST", "/v1/agent/resume", NULL), 200);
    job_until(&f, "j-second", "preparing");
    assert_int_equal(job_reserve(&f, &r, "j-third1", false), 201);
    assert_true(reply_has(&r, "reason", "AgentBusy"));
    assert_int_equal(ask(&f, &r, "GET", "/readyz", NULL), 200);
    fixture_close(&f);
}

TEST(a_job_with_more_nodes_than_a_process_can_connect_to_is_refused)
{
    struct fixture f = {0};

    fixture_open(&f);
    f.agent.jobs.job_files = runner_files(1) - 1;
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 413);
    assert_true(reply_has(&r, "code", "TOO_LARGE"));
    assert_non_null(strstr(r.body, "may need 1024 open files, a process at 127.0.0.1"));
    assert_non_null(strstr(r.body, "has at most 1023"));
    f.agent.jobs.job_files++;
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
            job_send_packages(&f, "j-abcdef", i == 4 ? "unresponsive" : "forever");
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
        assert_string_equal(task_find(&f.agent.jobs, "j-abcdef")->job.reason, "UserCancelled");
        assert_int_equal(ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL), 200);
        fixture_close(&f);
    }
}

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

TEST(kept_ended_jobs_hold_no_descriptor_and_still_serve_their_events)
{
    struct fixture f = {0};
    double until = clock_now() + UNIT_WAIT_S;
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
        while (n_descriptors() != before &&
               clock_now() < until) /* the agent may have to notice a client's close */
            fixture_turn(&f);
        assert_int_equal(n_descriptors(), before);
        assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1/events?after=0", NULL), 200);
        assert_non_null(strstr(r.body, "\"seq\":1,"));
        assert_non_null(strstr(r.body, "\"state\":\"succeeded\""));
    }
    fixture_close(&f);
}

TEST(jobs_in_slots_run_at_a_time_each_with_its_part_of_memory_and_processors)
{
    struct fixture f = {.opt = {.slots = 2}};
    cpu_set_t all, own[2], both;

    f.opt.job_memory_gib = 4;
    fixture_open(&f);
    f.agent.jobs.job_memory = (uint64_t)4 << 30;
    assert_int_equal(jobs_slot_memory(&f.agent.jobs), (uint64_t)2 << 30);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < 2; i++)
        assert_true(jobs_slot_processors(&own[i], &f.agent.jobs, i));
    CPU_OR(&both, &own[0], &own[1]);
    assert_true(CPU_EQUAL(&both, &all));
    CPU_AND(&both, &own[0], &own[1]);
    assert_int_equal(CPU_COUNT(&both), CPU_COUNT(&all) == 1 ? 1 : 0);
    job_run(&f, "j-first1", "forever");
    job_reserve(&f, &r, "j-second", false);
    job_reserve(&f, &r, "j-third1", false);
    job_until(&f, "j-second", "preparing");
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-third1")->job.state), "pending");
    assert_int_equal(task_find(&f.agent.jobs, "j-first1")->job.slot, 0);
    assert_int_equal(task_find(&f.agent.jobs, "j-second")->job.slot, 1);
    assert_int_equal(sched_getaffinity(task_find(&f.agent.jobs, "j-first1")->runner.pid, sizeof both, &both),
                     0);
    assert_true(CPU_EQUAL(&both, &own[0]));
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_int_equal(task_find(&f.agent.jobs, "j-second")->job.slot, 1);
    /* The slot that becomes free is the next job's. */
    ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", "{\"grace_s\":0}");
    job_until(&f, "j-first1", "cancelled");
    job_until(&f, "j-third1", "preparing");
    assert_int_equal(task_find(&f.agent.jobs, "j-third1")->job.slot, 0);
    ask(&f, &r, "GET", "/v1/agent", NULL);
    assert_non_null(strstr(r.body, "\"slots\":2,\"slots_free\":0"));
    fixture_close(&f);
}

TEST(an_agent_with_fewer_slots_than_before_gives_none_until_enough_jobs_have_ended)
{
    struct fixture f = {.opt = {.slots = 2}};
    cpu_set_t set;

    fixture_open(&f);
    job_run(&f, "j-first1", "forever");
    job_reserve(&f, &r, "j-second", false);
    job_until(&f, "j-second", "preparing");
    job_reserve(&f, &r, "j-third1", false);
    fixture_crash(&f);
    f.opt.slots = 1;
    fixture_reopen(&f);
    assert_int_equal(task_find(&f.agent.jobs, "j-second")->job.slot, 0);
    assert_false(jobs_slot_processors(&set, &f.agent.jobs, 0));
    ask(&f, &r, "POST", "/v1/jobs/j-first1/cancel", "{\"grace_s\":0}");
    job_until(&f, "j-first1", "cancelled");
    assert_string_equal(job_state_name(task_find(&f.agent.jobs, "j-third1")->job.state), "pending");
    ask(&f, &r, "POST", "/v1/jobs/j-second/cancel", "{\"grace_s\":0}");
    job_until(&f, "j-third1", "preparing");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_from_reservation_to_results),
        cmocka_unit_test(packages_that_are_named_at_once_are_taken_when_the_agent_lacks_none_of_their_blobs),
        cmocka_unit_test(a_worker_with_a_training_program_waits_for_it_and_is_told_the_interpreter),
        cmocka_unit_test(a_reservation_ends_seconds_after_its_stream_unless_another_is_opened),
        cmocka_unit_test(a_reservation_without_keepalive_expires),
        cmocka_unit_test(the_lease_is_short_until_the_submitter_asks_again),
        cmocka_unit_test(a_ready_job_is_released_with_its_runner),
        cmocka_unit_test(a_start_that_the_pipe_has_no_room_for_arrives_when_the_runner_reads),
        cmocka_unit_test(a_started_job_does_not_need_its_submitter),
        cmocka_unit_test(the_time_limit_ends_a_job_as_failed),
        cmocka_unit_test(a_busy_agent_queues_or_refuses),
        cmocka_unit_test(a_waiting_job_shows_its_place_in_the_queue),
        cmocka_unit_test(a_draining_agent_finishes_running_jobs_and_keeps_the_queue),
        cmocka_unit_test(a_job_with_more_nodes_than_a_process_can_connect_to_is_refused),
        cmocka_unit_test(cancel_works_from_every_state),
        cmocka_unit_test(kept_ended_jobs_hold_no_descriptor_and_still_serve_their_events),
        cmocka_unit_test(jobs_in_slots_run_at_a_time_each_with_its_part_of_memory_and_processors),
        cmocka_unit_test(an_agent_with_fewer_slots_than_before_gives_none_until_enough_jobs_have_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
