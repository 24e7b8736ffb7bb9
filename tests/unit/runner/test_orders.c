#include "runner/lines/orders.h"

#include <signal.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static const atomic_bool never = false;

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* Orders that the agent has written before it closed its end. */
static void open_with(struct orders *o, const char *text)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
    close(fds[1]);
    orders_open(o, fds[0]);
}

TEST(a_job_and_its_start_are_read_in_sequence)
{
    struct orders_start start;
    struct orders_job job;
    struct orders o;
    struct err e = {0};

    open_with(&o,
              "{\"job\":\"j-abc123\",\"attempt\":2,\"node\":-2,\"role\":\"server\",\"workers_on_host\":3}\n"
              "{\"attempt\":2,\"secret\":\"" KEY "\",\"is_crowded\":true,"
              "\"peers\":\"0 a:1 10.0.0.1 4000 " KEY ";-2 a:2 h 4001 " KEY "\"}\n");
    assert_ok(orders_read_job(&o, &job, &e));
    assert_string_equal(job.job, "j-abc123");
    assert_int_equal(job.node, -2);
    assert_int_equal(job.workers_on_host, 3);
    assert_ok(orders_read_start(&o, &start, &never, &e));
    assert_int_equal(start.attempt, 2);
    assert_true(start.is_crowded);
    assert_int_equal(start.secret[31], 31);
    assert_int_equal(start.peers.n, 2);
    assert_string_equal(start.peers.at[0].host, "10.0.0.1");
    assert_int_equal(start.peers.at[0].data_port, 4000);
    assert_int_equal(start.peers.at[0].key[31], 31);
    orders_start_clear(&start);
    orders_close(&o);
}

TEST(what_the_agent_has_for_training_programs_is_read)
{
    static const char line[] = "{\"job\":\"j-abc123\",\"attempt\":1,\"node\":0,\"role\":\"worker\","
                               "\"trainer_python\":\"/opt/my \\\"env\\\"/bin/python3\","
                               "\"trainer_isolation\":\"files\",\"trainer_data\":\"/data\"}\n";
    struct orders_job job = {0};
    struct orders o;
    struct err e = {0};

    open_with(&o, line);
    assert_ok(orders_read_job(&o, &job, &e));
    assert_string_equal(job.trainer_python, "/opt/my \"env\"/bin/python3");
    assert_int_equal(job.trainer_isolation, TRAINER_ISOLATION_FILES);
    assert_string_equal(job.trainer_data, "/data");
    orders_close(&o);
}

TEST(a_start_may_list_many_nodes)
{
    enum { N = 300 };
    char text[N * 160], *at = text;
    struct orders_start start;
    struct orders_job job;
    struct orders o;
    struct err e = {0};

    at += sprintf(at, "{\"job\":\"j-abc123\",\"attempt\":1,\"node\":0,\"role\":\"worker\"}\n"
                      "{\"attempt\":1,\"secret\":\"" KEY "\",\"peers\":\"");
    for (int i = 0; i < N; i++)
        at += sprintf(at, "%s%d a:1 h %d " KEY, i > 0 ? ";" : "", i, 1000 + i);
    sprintf(at, "\"}\n");
    open_with(&o, text);
    assert_ok(orders_read_job(&o, &job, &e));
    assert_ok(orders_read_start(&o, &start, &never, &e));
    assert_int_equal(start.peers.n, N);
    assert_int_equal(start.peers.at[N - 1].data_port, 1000 + N - 1);
    orders_start_clear(&start);
    for (size_t i = 0; i < o.cap; i++) /* the secret has been removed from it */
        assert_int_equal(o.text[i], 0);
    orders_close(&o);
}

TEST(the_end_of_the_agent_ends_the_wait)
{
    struct orders_start start;
    struct orders o;
    struct err e = {0};

    open_with(&o, "{\"attempt\":1");
    assert_int_equal(orders_read_start(&o, &start, &never, &e), ERR_LOST);
    orders_close(&o);
}

TEST(a_signal_ends_the_wait)
{
    static const atomic_bool now = true;
    struct orders_start start;
    struct orders o;
    struct err e = {0};

    open_with(&o, "");
    assert_int_equal(orders_read_start(&o, &start, &now, &e), ERR_CANCELLED);
    orders_close(&o);
}

TEST(invalid_orders_are_refused_with_their_path)
{
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"{\"secret\":\"" KEY "\",\"peers\":\"\"}\n", "/attempt"},
        {"{\"attempt\":1,\"peers\":\"\"}\n", "/secret"},
        {"{\"attempt\":1,\"secret\":\"xyz\",\"peers\":\"\"}\n", "/secret: not 64 hex digits"},
        {"{\"attempt\":1,\"secret\":\"" KEY "\"}\n", "/peers: missing"},
        {"{\"attempt\":1,\"secret\":\"" KEY "\",\"peers\":[]}\n", "/peers: missing"},
        {"{\"attempt\":1,\"secret\":\"" KEY "\",\"peers\":\"0 a:1 h 70000 " KEY "\"}\n",
         "/peers/0: \"70000\""},
        {"nonsense\n", "order:1:"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct orders_start start;
        struct orders o;
        struct err e = {0};

        open_with(&o, cases[i].line);
        assert_true(orders_read_start(&o, &start, &never, &e) < 0);
        assert_error_has(cases[i].expected);
        orders_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_and_its_start_are_read_in_sequence),
        cmocka_unit_test(what_the_agent_has_for_training_programs_is_read),
        cmocka_unit_test(a_start_may_list_many_nodes),
        cmocka_unit_test(the_end_of_the_agent_ends_the_wait),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(invalid_orders_are_refused_with_their_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
