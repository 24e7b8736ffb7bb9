#include "submit/sweep/sweep_agents.h"

#include "tests/unit/unit.h"

static struct err e;

TEST(lanes_have_equal_shares_of_workers_and_spares_with_their_keys)
{
    static const char text[] =
        "{\"Worker\": [\"a:1\", \"b:1\", \"c:1\", \"d:1\", \"e:1\"], \"Spare\": [\"x:1\", \"y:1\"], "
        "\"nodes\": "
        "{\"d:1\": {\"advertise\": \"10.0.0.4\", \"token_file\": \"/t/four\", \"fingerprint\": "
        "\"sha256//+/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}}}";
    json_t *doc = json_loads(text, 0, NULL), *first, *second;
    struct worker_list all, of_lane;

    assert_ok(worker_list_parse(&all, doc, "the list", &e));
    first = sweep_share_agents(&all, 0, 2);
    second = sweep_share_agents(&all, 1, 2);
    assert_ok(worker_list_parse(&of_lane, first, "lane 1", &e));
    assert_true(of_lane.n_workers == 2 && of_lane.n_spares == 1);
    assert_string_equal(of_lane.nodes[0].address, "a:1");
    assert_string_equal(of_lane.nodes[2].address, "x:1");
    worker_list_clear(&of_lane);
    assert_ok(worker_list_parse(&of_lane, second, "lane 2", &e));
    assert_string_equal(of_lane.nodes[0].address, "c:1");
    assert_string_equal(of_lane.nodes[1].address, "d:1");
    assert_string_equal(of_lane.nodes[1].advertise, "10.0.0.4");
    assert_string_equal(of_lane.nodes[1].token_file, "/t/four");
    assert_string_equal(of_lane.nodes[1].pin, all.nodes[3].pin);
    assert_string_equal(of_lane.nodes[2].address, "y:1");
    worker_list_clear(&of_lane);
    worker_list_clear(&all);
    json_decref(first);
    json_decref(second);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_have_equal_shares_of_workers_and_spares_with_their_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
