#include "agent/api/etag.h"

#include <unistd.h>

#include "tests/unit/unit.h"

TEST(a_tag_is_found_in_any_form_of_the_header_that_http_allows)
{
    static const struct {
        const char *header;
        bool has_it;
    } cases[] = {
        {NULL, false},
        {"", false},
        {"*", true},
        {"W/\"ab\"", true},
        {"\"ab\"", true},
        {"\"xy\", W/\"ab\"", true},
        {"\"x,y\",\"ab\"", true},
        {"\"xy\" , \t\"ab\"", true},
        {"\"abc\"", false},
        {"\"a\"", false},
        {"ab", false},
        {"\"x\\\",\"", false},
        {"\"x, W/\"ab\"", false}, /* the quotes are those of one tag `x, W/` */
        {"\"xy", false},
        {"W/", false},
        {"W/W/\"ab\"", false},
        {",,,", false},
    };

    for (size_t i = 0; i < N_OF(cases); i++)
        if (etag_is_in(cases[i].header, "W/\"ab\"") != cases[i].has_it)
            fail_msg("%s", cases[i].header ? cases[i].header : "(none)");
    assert_false(etag_is_in("*", ""));
}

static json_t *job(double elapsed_s, const char *state)
{
    return json_pack("{s:s,s:f,s:s}", "id", "j-abcdef", "elapsed_s", elapsed_s, "state", state);
}

static int status_of(struct api_response *rs)
{
    int status = rs->status;

    response_clear(rs);
    return status;
}

TEST(the_tag_of_a_job_changes_with_the_job_and_not_with_its_clock)
{
    struct request rq = {0};
    struct api_response rs = {0};
    char tag[sizeof rs.etag];

    respond_jobs(&rq, &rs, job(1.25, "running"));
    memcpy(tag, rs.etag, sizeof tag);
    assert_non_null(strstr(rs.body, "{\"id\":\"j-abcdef\",\"elapsed_s\":1.25,\"state\"")); /* as it was */
    assert_int_equal(status_of(&rs), 200);
    rq.if_none_match = tag;
    respond_jobs(&rq, &rs, job(7, "running"));
    assert_string_equal(rs.etag, tag);
    assert_null(rs.body);
    assert_int_equal(status_of(&rs), 304);
    respond_jobs(&rq, &rs, job(7, "failed"));
    assert_int_equal(status_of(&rs), 200);
}

TEST(the_tag_of_a_list_is_that_of_its_jobs)
{
    struct request rq = {0};
    struct api_response rs = {0};
    char tag[sizeof rs.etag];

    respond_jobs(&rq, &rs, json_pack("{s:[o,o]}", "jobs", job(1, "running"), job(2, "failed")));
    memcpy(tag, rs.etag, sizeof tag);
    assert_non_null(strstr(rs.body, "\"elapsed_s\":2.0"));
    assert_int_equal(status_of(&rs), 200);
    rq.if_none_match = tag;
    respond_jobs(&rq, &rs, json_pack("{s:[o,o]}", "jobs", job(3, "running"), job(4, "failed")));
    assert_int_equal(status_of(&rs), 304);
    respond_jobs(&rq, &rs, json_pack("{s:[o]}", "jobs", job(3, "running")));
    assert_int_equal(status_of(&rs), 200);
    respond_jobs(&rq, &rs, json_pack("{s:[]}", "jobs"));
    assert_int_equal(status_of(&rs), 200);
}

/* Answers a request for `bytes` of the file from `after`. */
static int file_status(char tag[sizeof((struct api_response *)0)->etag], const char *has, FILE *file,
                       uint64_t after)
{
    const struct request rq = {.if_none_match = has};
    struct api_response rs = {.fd = -1, .kind = RESPONSE_FILE, .after = after};
    struct stat st;

    fflush(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    rs.bytes = (uint64_t)st.st_size - after;
    etag_by_file(&rq, &rs, &st);
    memcpy(tag, rs.etag, sizeof rs.etag);
    return status_of(&rs);
}

TEST(the_tag_of_a_file_changes_when_bytes_are_appended_and_differs_between_its_parts)
{
    const char *folder = unit_folder();
    char path[256], tag[24], other[24];
    FILE *file;

    snprintf(path, sizeof path, "%s/log", folder);
    file = fopen(path, "w");
    fputs("one\n", file);
    assert_int_equal(file_status(tag, NULL, file, 0), 0);
    assert_int_equal(file_status(other, tag, file, 0), 304);
    assert_string_equal(tag, other);
    assert_int_equal(file_status(other, tag, file, 2), 0);
    fputs("two\n", file);
    assert_int_equal(file_status(other, tag, file, 0), 0);
    assert_string_not_equal(tag, other);
    fclose(file);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_found_in_any_form_of_the_header_that_http_allows),
        cmocka_unit_test(the_tag_of_a_job_changes_with_the_job_and_not_with_its_clock),
        cmocka_unit_test(the_tag_of_a_list_is_that_of_its_jobs),
        cmocka_unit_test(the_tag_of_a_file_changes_when_bytes_are_appended_and_differs_between_its_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
