/* The texts that describe a simulation. */
#include "tests/unit/unit.h"

#include <math.h>

#include "shared/job/simulation.h"

static struct err e;

TEST(a_link_is_a_rate_a_latency_and_optional_jitter)
{
    struct sim_link l;

    assert_ok(sim_link_parse(&l, "100Mbit,20ms,5ms", &e));
    assert_true(l.bytes_per_s == 12.5e6 && l.latency_s == 0.02 && l.jitter_s == 0.005);
    assert_ok(sim_link_parse(&l, "1.5Gbit,10us", &e));
    assert_true(l.bytes_per_s == 187.5e6 && l.jitter_s == 0);
    assert_ok(sim_link_parse(&l, "any,0s", &e));
    assert_true(l.bytes_per_s == 0 && l.latency_s == 0);
}

TEST(a_step_time_is_one_of_a_list)
{
    static const char *const wrong[] = {"",    "x",   "1,",    ",1",
                                        "1;2", "0",   "1e-10", "2e6",
                                        "-1",  "nan", "inf",   "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    struct sim_steps t;

    assert_ok(sim_steps_parse(&t, "0.25", &e));
    assert_true(t.n == 1 && t.s[0] == 0.25);
    assert_ok(sim_steps_parse(&t, "1e-3,2,0.5", &e));
    assert_true(t.n == 3 && t.s[0] == 1e-3 && t.s[1] == 2 && t.s[2] == 0.5);
    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(sim_steps_parse(&t, wrong[i], &e), ERR_CONFIG);
        assert_error_has("is not the time of a step");
    }
}

TEST(an_overhead_is_a_rate_and_a_time)
{
    static const char *const wrong[] = {"", "1Gbit", "1Gbit,5", "0Gbit,5us", "1Gbit,5us,5us", "1Gbit,5us "};
    struct sim_overhead o;

    assert_ok(sim_overhead_parse(&o, "8Gbit,5us", &e));
    assert_true(o.bytes_per_s == 1e9 && fabs(o.message_s - 5e-6) < 1e-12);
    assert_ok(sim_overhead_parse(&o, "any,0s", &e));
    assert_true(o.bytes_per_s == 0 && o.message_s == 0);
    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(sim_overhead_parse(&o, wrong[i], &e), ERR_CONFIG);
        assert_non_null(strstr(e.hint, "12Gbit,5us"));
    }
}

TEST(a_speed_is_one_value_a_range_or_a_list)
{
    struct sim_speed s;

    assert_ok(sim_speed_parse(&s, "0.5", &e));
    assert_true(s.low == 0.5 && s.high == 0.5 && s.n == 0);
    assert_ok(sim_speed_parse(&s, "0.5-2", &e));
    assert_true(s.low == 0.5 && s.high == 2);
    assert_ok(sim_speed_parse(&s, "3=0.1,-2=8", &e));
    assert_true(s.low == 1 && s.n == 2 && s.of[0].node == 3 && s.of[1].node == -2 && s.of[1].speed == 8);
}

TEST(losses_and_cuts_are_lists)
{
    struct sim_kills k;
    struct sim_cuts c;

    assert_ok(sim_kills_parse(&k, "3@1.5s,-2@900ms", &e));
    assert_true(k.n == 2 && k.of[0].node == 3 && k.of[0].at == 1.5 && k.of[1].node == -2 &&
                k.of[1].at == 0.9);
    assert_ok(sim_kills_parse(&k, "", &e));
    assert_int_equal(k.n, 0);
    assert_ok(sim_cuts_parse(&c, "0-3+7|4-6@2s-5s,1|2@1ms-2ms", &e));
    assert_int_equal(c.n, 2);
    assert_true(sim_cut_has(&c.of[0], 0, 2) && sim_cut_has(&c.of[0], 0, 7) && !sim_cut_has(&c.of[0], 0, 4));
    assert_true(sim_cut_has(&c.of[0], 1, 6) && !sim_cut_has(&c.of[0], 1, 7));
    assert_true(c.of[0].from == 2 && c.of[0].to == 5 && c.of[1].to == 0.002);
}

TEST(invalid_values_are_refused_with_the_valid_form)
{
    static const char *const links[] = {
        "",          "100Mbit",   "100Mbit,20",    "0Mbit,1s",     "100 Mbit,1s", "fast,20ms", "1Mbit,1s,1s,",
        "1Mbit,-1s", "1Mbit,1s ", "1e-300kbit,1s", "1e300Gbit,1s", "1Mbit,1e300s"};
    static const char *const speeds[] = {"",        "0", "2-1", "1=",     "1=0",     "1=2,",
                                         "1=2;3=4", "x", "-1",  "1e-300", "1-1e300", "1=1e-300"};
    static const char *const stragglers[] = {"", "2:3", "0.1", "0.1:0.5", "0.1:2:3", "1:1e300"};
    static const char *const kills[] = {"3", "3@", "3@1", "@1s", "3@1s,", "3@1s 4@2s", "1.5@1s"};
    static const char *const cuts[] = {"0|1", "0|1@2s-1s", "0@1s-2s", "0|@1s-2s", "0|1@1s-2s,", "0|1@1s"};
    struct sim_straggler straggler;
    struct sim_speed speed;
    struct sim_kills kill;
    struct sim_cuts cut;
    struct sim_link link;

    for (size_t i = 0; i < N_OF(links); i++) {
        assert_int_equal(sim_link_parse(&link, links[i], &e), ERR_CONFIG);
        assert_non_null(strstr(e.hint, "100Mbit,20ms"));
    }
    for (size_t i = 0; i < N_OF(speeds); i++)
        assert_int_equal(sim_speed_parse(&speed, speeds[i], &e), ERR_CONFIG);
    for (size_t i = 0; i < N_OF(stragglers); i++)
        assert_int_equal(sim_straggler_parse(&straggler, stragglers[i], &e), ERR_CONFIG);
    for (size_t i = 0; i < N_OF(kills); i++) {
        assert_int_equal(sim_kills_parse(&kill, kills[i], &e), ERR_CONFIG);
        assert_non_null(strstr(e.hint, "unit"));
    }
    for (size_t i = 0; i < N_OF(cuts); i++)
        assert_int_equal(sim_cuts_parse(&cut, cuts[i], &e), ERR_CONFIG);
}

TEST(references_to_nonexistent_nodes_are_refused)
{
    static const struct {
        const char *speed, *kill, *cut, *expected;
    } cases[] = {
        {"7=2", "", "", "--speed: there is no node 7"},
        {"1", "9@1s", "", "--kill: there is no node 9"},
        {"1", "-1@1s", "", "--kill: there is no node -1"},
        {"1", "", "0-4|1@1s-2s", "--cut: there is no node 4"},
        {"1", "", "0|-4@1s-2s", "--cut: there is no node -4"},
        {"1", "", "3-2|0@1s-2s", "--cut: no node is from 3 to 2"},
    };
    struct simulation s;

    for (size_t i = 0; i < N_OF(cases); i++) {
        simulation_default(&s);
        strcpy(s.speed, cases[i].speed);
        strcpy(s.kill, cases[i].kill);
        strcpy(s.cut, cases[i].cut);
        assert_int_equal(simulation_check(&s, 4, 2, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
    simulation_default(&s);
    strcpy(s.speed, "3=2,-3=0.5");
    strcpy(s.cut, "0-3|-3--2@1s-2s");
    assert_ok(simulation_check(&s, 4, 2, &e));
}

TEST(kills_of_nonexistent_nodes_are_refused)
{
    struct simulation s;

    simulation_default(&s);
    strcpy(s.kill, "3@1s,-3@1s");
    assert_ok(simulation_check(&s, 4, 2, &e));
    assert_int_equal(simulation_check(&s, 3, 2, &e), ERR_CONFIG);
    assert_error_has("no node 3");
    assert_int_equal(simulation_check(&s, 4, 1, &e), ERR_CONFIG);
    assert_error_has("no node -3");
}

TEST(the_document_survives_serialization)
{
    struct simulation s, t;
    json_t *doc;

    simulation_default(&s);
    s.gradients = 12345;
    strcpy(s.step_time, "0.25,0.5");
    strcpy(s.kill, "1@2s");
    strcpy(s.server_link, "1Gbit,1ms");
    strcpy(s.overhead, "12Gbit,5us");
    s.processors = 3;
    s.exhaustive = true;
    doc = simulation_json(&s);
    assert_ok(simulation_parse(&t, doc, &e));
    assert_memory_equal(&s, &t, sizeof s);
    json_object_set_new(doc, "overhead", json_string("much"));
    assert_int_equal(simulation_parse(&t, doc, &e), ERR_CONFIG);
    assert_error_has("\"much\" is not an overhead");
    json_object_set_new(doc, "overhead", json_string(""));
    json_object_set_new(doc, "cut", json_string("nonsense"));
    assert_int_equal(simulation_parse(&t, doc, &e), ERR_CONFIG);
    assert_error_has("nonsense");
    json_decref(doc);
}

TEST(an_extreme_codec_rate_is_refused)
{
    struct simulation s, t;
    json_t *doc;

    simulation_default(&s);
    s.codec_rate_mbps = 1e-300;
    doc = simulation_json(&s);
    assert_int_equal(simulation_parse(&t, doc, &e), ERR_CONFIG);
    assert_error_has("codec_rate_mbps");
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_a_rate_a_latency_and_optional_jitter),
        cmocka_unit_test(a_step_time_is_one_of_a_list),
        cmocka_unit_test(an_overhead_is_a_rate_and_a_time),
        cmocka_unit_test(a_speed_is_one_value_a_range_or_a_list),
        cmocka_unit_test(losses_and_cuts_are_lists),
        cmocka_unit_test(invalid_values_are_refused_with_the_valid_form),
        cmocka_unit_test(references_to_nonexistent_nodes_are_refused),
        cmocka_unit_test(kills_of_nonexistent_nodes_are_refused),
        cmocka_unit_test(an_extreme_codec_rate_is_refused),
        cmocka_unit_test(the_document_survives_serialization),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
