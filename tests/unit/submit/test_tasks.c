#include "submit/launch/tasks.h"

#include "tests/unit/unit.h"

static struct options o;
static struct tasks t;

/* The code of tasks_open for a command line of `launch`. */
static int open_of(struct err *e, const char *const *args)
{
    struct unit_argv a;

    unsetenv("PSGD_TOKEN_FILE");
    unit_argv(&a, "launch", args);
    assert_int_equal(options_parse(&o, FOR_SUBMIT | FOR_LAUNCH, a.n, a.of, e), 0);
    return tasks_open(&t, &o, e);
}
#define OPEN(...) open_of(&e, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_task_is_one_of_its_list_and_worker_0_is_the_chief)
{
    char name[TASK_NAME];
    struct err e = {0};

    assert_ok(OPEN("--job_name", "worker", "--worker_hosts", "localhost:1,localhost:2", "--ps_hosts",
                   "localhost:3,localhost:4"));
    assert_true(tasks_is_chief(&t));
    assert_int_equal(tasks_count(&t), 4);
    assert_string_equal(tasks_name(name, t.own), "/job:worker/task:0");
    tasks_clear(&t);
    assert_ok(OPEN("--job_name", "ps", "--task_index", "1", "--worker_hosts", "localhost:1,localhost:2",
                   "--ps_hosts", "localhost:3,localhost:4"));
    assert_false(tasks_is_chief(&t));
    assert_string_equal(t.own->address, "localhost:4");
    assert_string_equal(tasks_chief(&t)->address, "localhost:1");
    assert_string_equal(tasks_name(name, t.own), "/job:ps/task:1");
    assert_null(t.token_file);
    tasks_clear(&t);
}

TEST(tasks_of_several_machines_share_a_token)
{
    struct err e = {0};

    assert_int_equal(OPEN("--job_name", "worker", "--worker_hosts", "a:1,b:2"), ERR_USAGE);
    assert_error_has("hosts beyond this machine need --token-file FILE");
    assert_ok(OPEN("--job_name", "worker", "--worker_hosts", "a:1,b:2", "--token-file", "cluster.token"));
    assert_string_equal(t.token_file, "cluster.token");
    tasks_clear(&t);
    assert_int_equal(OPEN("--job_name", "worker", "--worker_hosts", "127.0.0.1:1,b:2", "--token-file", "x"),
                     ERR_USAGE);
    assert_error_has("1 of the 2 hosts are loopback addresses, which no other machine reaches");
}

TEST(an_impossible_task_is_wrong_usage)
{
    struct err e = {0};

    assert_int_equal(OPEN("--job_name", "worker"), ERR_USAGE);
    assert_error_has("launch needs --worker_hosts");
    assert_int_equal(OPEN("--worker_hosts", "localhost:1"), ERR_USAGE);
    assert_error_has("launch needs --job_name");
    assert_int_equal(OPEN("--job_name", "ps", "--worker_hosts", "localhost:1"), ERR_USAGE);
    assert_error_has("--task_index 0: --ps_hosts has 0 tasks");
    assert_int_equal(OPEN("--job_name", "worker", "--task_index", "1", "--worker_hosts", "localhost:1"),
                     ERR_USAGE);
    assert_error_has("--task_index 1: --worker_hosts has 1 task, from 0 on");
    assert_int_equal(OPEN("--job_name", "worker", "--worker_hosts", "localhost:1,localhost:2", "-n", "1"),
                     ERR_USAGE);
    assert_error_has("all 2 workers of --worker_hosts take part");
    assert_int_equal(OPEN("--job_name", "worker", "--worker_hosts", "localhost:1", "--detach"), ERR_USAGE);
    assert_error_has("--detach: not with launch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_one_of_its_list_and_worker_0_is_the_chief),
        cmocka_unit_test(tasks_of_several_machines_share_a_token),
        cmocka_unit_test(an_impossible_task_is_wrong_usage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
