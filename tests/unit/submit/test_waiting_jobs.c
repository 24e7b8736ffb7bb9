#include "submit/browse/waiting_jobs.h"

#include <string.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

static json_t *read_answer(const char *text)
{
    struct err e;
    json_t *o;

    assert_int_equal(json_parse(&o, text, strlen(text), "answer", &e), 0);
    return o;
}

static void add_answer(json_t *list, const char *text)
{
    json_t *o = read_answer(text);

    waiting_jobs_add(list, o);
    json_decref(o);
}

TEST(a_job_that_waits_for_two_agents_is_in_the_list_once_and_the_largest_number_counts)
{
    json_t *list = json_array(), *expected;

    add_answer(
        list,
        "{\"queues\":[{\"user\":\"ann\",\"waiting\":2,\"jobs\":[{\"id\":\"j-one\"},{\"id\":\"j-two\"}]}]}");
    add_answer(
        list,
        "{\"queues\":[{\"user\":\"ann\",\"waiting\":1,\"jobs\":[{\"id\":\"j-two\"},{\"id\":\"j-three\"}]},"
        "{\"user\":\"bob\",\"waiting\":7}]}");
    expected = read_answer("[{\"user\":\"ann\",\"waiting\":3,\"jobs\":[{\"id\":\"j-one\"},{\"id\":\"j-two\"},"
                           "{\"id\":\"j-three\"}]},"
                           "{\"user\":\"bob\",\"waiting\":7,\"jobs\":[]}]");
    assert_true(json_equal(list, expected));
    json_decref(expected);
    json_decref(list);
}

TEST(an_answer_that_is_malformed_adds_nothing_that_is_no_job)
{
    json_t *list = json_array(),
           *expected = read_answer("[{\"user\":\"ann\",\"waiting\":1000000,\"jobs\":[]}]");

    waiting_jobs_add(list, NULL);
    add_answer(list, "{\"queues\":7}");
    add_answer(list, "{\"queues\":[7,{\"user\":7},{\"waiting\":1}]}");
    assert_int_equal(json_array_size(list), 0);
    add_answer(
        list,
        "{\"queues\":[{\"user\":\"ann\",\"waiting\":1e300,\"jobs\":[7,{\"id\":7},{\"id\":\"../../x\"}]}]}");
    assert_true(json_equal(list, expected));
    json_decref(expected);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_waits_for_two_agents_is_in_the_list_once_and_the_largest_number_counts),
        cmocka_unit_test(an_answer_that_is_malformed_adds_nothing_that_is_no_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
