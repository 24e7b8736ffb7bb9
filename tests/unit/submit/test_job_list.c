#include "submit/browse/job_list.h"

#include "tests/unit/unit.h"

static const struct listed {
    const char *id, *state;
} none = {NULL, NULL};

/* Puts up to three jobs into the list. */
static void put(struct job_list *s, struct listed a, struct listed b, struct listed c)
{
    const struct listed all[] = {a, b, c};
    struct listed_job *jobs = calloc(N_OF(all), sizeof *jobs);
    size_t n = 0;

    assert_non_null(jobs);
    for (size_t i = 0; i < N_OF(all) && all[i].id; i++, n++) {
        snprintf(jobs[n].id, sizeof jobs[n].id, "%s", all[i].id);
        jobs[n].line = json_pack("{s:s, s:s}", "id", all[i].id, "state", all[i].state);
    }
    job_list_put(s, jobs, n, json_array());
}

/* The events that a reader gets now. */
static void assert_events(struct job_list *s, struct job_list_reader *r, const char *expected)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_int_equal(job_list_events(out, s, r, 0), 0);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

#define LINE(id, state) "{\"id\":\"" id "\",\"state\":\"" state "\"}"

TEST(of_a_list_only_the_jobs_that_have_changed_are_sent_again)
{
    const struct listed a = {"j-a", "running"}, b = {"j-b", "succeeded"}, ended = {"j-a", "failed"};
    struct job_list *s = job_list_new();
    struct job_list_reader r = {0}, late = {0};
    char *text;

    assert_events(s, &r, "event: jobs\ndata: {\"jobs\":[],\"agents\":[]}\n\n");
    put(s, a, b, none);
    assert_events(s, &r,
                  "event: jobs\ndata: {\"jobs\":[" LINE("j-a", "running") "," LINE(
                      "j-b", "succeeded") "],\"agents\":[]}\n\n");
    put(s, a, b, none);
    assert_events(s, &r, "");
    put(s, ended, b, none);
    assert_events(s, &r, "event: changed\ndata: {\"jobs\":[" LINE("j-a", "failed") "],\"agents\":[]}\n\n");
    text = job_list_json(s);
    assert_string_equal(text,
                        "{\"jobs\":[" LINE("j-a", "failed") "," LINE("j-b", "succeeded") "],\"agents\":[]}");
    free(text);
    put(s, b, none, none);
    put(s, b, none, none);
    assert_events(s, &r, "event: jobs\ndata: {\"jobs\":[" LINE("j-b", "succeeded") "],\"agents\":[]}\n\n");
    assert_events(s, &late, "event: jobs\ndata: {\"jobs\":[" LINE("j-b", "succeeded") "],\"agents\":[]}\n\n");
    job_list_close(s);
    job_list_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_list_only_the_jobs_that_have_changed_are_sent_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
