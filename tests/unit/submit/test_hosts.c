#include "submit/options/hosts.h"

#include "tests/unit/unit.h"

static struct options o;

/* The code of hosts_read. */
static int read_of(struct worker_list *w, const char *ps, const char *workers, struct err *e)
{
    o = (struct options){0};
    snprintf(o.ps_hosts, sizeof o.ps_hosts, "%s", ps);
    snprintf(o.worker_hosts, sizeof o.worker_hosts, "%s", workers);
    return hosts_read(w, &o, e);
}

TEST(hosts_are_the_workers_and_servers_in_their_order)
{
    struct worker_list w;
    struct err e = {0};

    assert_ok(read_of(&w, "localhost:9001,10.0.0.1", "localhost:9002,[::1]:9003,b:9004", &e));
    assert_int_equal(w.n_workers, 3);
    assert_int_equal(w.n_servers, 2);
    assert_string_equal(w.nodes[0].address, "localhost:9002");
    assert_string_equal(w.nodes[1].address, "[::1]:9003");
    assert_int_equal(w.nodes[2].node, 2);
    assert_string_equal(w.nodes[3].address, "localhost:9001");
    assert_int_equal(w.nodes[3].node, -2);
    assert_string_equal(w.nodes[4].address, "10.0.0.1:15387");
    assert_string_equal(hosts_name(&o), "the list of hosts");
    worker_list_clear(&w);
    assert_ok(read_of(&w, "", "a", &e));
    assert_int_equal(w.n_workers + w.n_servers, 1);
    worker_list_clear(&w);
}

TEST(a_host_that_is_no_address_or_named_twice_is_wrong_usage)
{
    static const char *const wrong[][3] = {
        {"", "a:9002,", "/Worker/1: \"\" is not an address"},
        {"", ",", "/Worker/0: \"\" is not an address"},
        {"", "a:9002,a:99999", "/Worker/1: \"a:99999\": the port is not a number"},
        {"b:x", "a:9002", "/PS/0: \"b:x\": the port is not a number"},
        {"a:9002", "a:9002", "/PS/0: a:9002 is a duplicate of node 0"},
        {"", "a:1;b:2", "is more than one address"},
    };
    struct worker_list w;
    struct err e = {0};

    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(read_of(&w, wrong[i][0], wrong[i][1], &e), ERR_USAGE);
        assert_int_equal(e.code, ERR_USAGE);
        assert_error_has(wrong[i][2]);
    }
}

TEST(a_list_of_hosts_is_counted)
{
    assert_int_equal(hosts_count(""), 0);
    assert_int_equal(hosts_count("a"), 1);
    assert_int_equal(hosts_count("a:1,b:2,c"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_the_workers_and_servers_in_their_order),
        cmocka_unit_test(a_host_that_is_no_address_or_named_twice_is_wrong_usage),
        cmocka_unit_test(a_list_of_hosts_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
