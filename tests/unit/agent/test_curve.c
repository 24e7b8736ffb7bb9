/* GET /v1/jobs/{id}/metrics of a whole agent, which starts build/agent for it. */
#include "agent/api/curve.h"

#include <sys/stat.h>

#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

#define PATH "/v1/jobs/j-abcdef/metrics"

static struct fixture f;
static struct reply r;

/* An agent with a job that has ended. */
static void begin(void)
{
    memset(&f, 0, sizeof f);
    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
}

static FILE *records(const char *name)
{
    char path[PATH_MAX];
    FILE *file;

    snprintf(path, sizeof path, "%s/jobs/j-abcdef/run/%s", f.opt.dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void write_rows(int n)
{
    FILE *file = records("train.csv");

    fputs("time_s,node,role,epoch,batch,batches,step,samples,loss,accuracy\n", file);
    for (int i = 1; i <= n; i++)
        fprintf(file, "%d.5,0,worker,1,%d,%d,%d,%d,%d,0.5\n", i, i, n, i, 10 * i, i % 2 ? 1 : 3);
    fputs("9999,0,worker,1,99", file); /* a row that is being written */
    fclose(file);
}

/* A program in place of the agent's own. */
static void replace_program(const char *script)
{
    FILE *file;

    snprintf(f.agent.exe, sizeof f.agent.exe, "%s/program", f.folder);
    file = fopen(f.agent.exe, "w");
    fputs(script, file);
    fclose(file);
    assert_int_equal(chmod(f.agent.exe, 0700), 0);
}

TEST(rows_become_points_and_a_client_that_has_them_gets_304)
{
    char etag[64], headers[256];
    size_t len;

    begin();
    write_rows(500);
    assert_int_equal(ask(&f, &r, "GET", PATH "?names=loss&points=2", NULL), 200);
    assert_non_null(strstr(r.body, "\"rows\":500"));
    assert_non_null(strstr(r.body, "\"loss_min\":[1,1],\"loss_max\":[3,3]"));
    len = strlen(r.body);
    snprintf(etag, sizeof etag, "%.*s", 20, strstr(r.text, "ETag: ") + 6);
    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\nIf-None-Match: %s\r\n", f.token, etag);
    assert_int_equal(ask_bytes(&f, &r, "GET", PATH "?names=loss&points=2", headers, NULL, 0), 304);
    assert_int_equal(atoi(strstr(r.text, "Content-Length:") + 15), len);
    assert_int_equal(ask_bytes(&f, &r, "GET", PATH "?names=loss&points=3", headers, NULL, 0), 200);
    write_rows(501);
    assert_int_equal(ask_bytes(&f, &r, "GET", PATH "?names=loss&points=2", headers, NULL, 0), 200);
    assert_int_equal(ask(&f, &r, "HEAD", PATH, NULL), 200);
    fixture_close(&f);
}

TEST(questions_and_files_that_make_no_curves_are_answered_in_words)
{
    static const struct {
        const char *path;
        int status;
        const char *expected;
    } cases[] = {
        {PATH "?names=lss", 400, "Did you mean \\\"loss\\\"?"},
        {PATH "?x=nothing", 400, "x=nothing"},
        {PATH "?points=1", 400, "points: from 2"},
        {PATH "?file=comm", 400, "file=comm"},
        {PATH "?from=zero", 400, "from=zero"},
        {PATH "?file=codec", 200, "\"rows\":0"}, /* the job keeps none */
        {"/v1/jobs/j-unknown/metrics", 404, "unknown job"},
    };
    FILE *file;

    begin();
    for (size_t i = 0; i < N_OF(cases); i++)
        if (ask(&f, &r, "GET", cases[i].path, NULL) != cases[i].status || !strstr(r.body, cases[i].expected))
            fail_msg("%s: %s", cases[i].path, r.text);
    file = records("train.csv");
    fputs("time_s,node\n1,\"<script>\x01\n", file);
    fclose(file);
    assert_int_equal(ask(&f, &r, "GET", PATH, NULL), 409);
    assert_non_null(strstr(r.body, "the records cannot be read: train.csv: "));
    fixture_close(&f);
}

TEST(a_program_that_fails_or_writes_without_end_is_an_error_of_that_request_only)
{
    begin();
    write_rows(5);
    replace_program("#!/bin/sh\nexec cat /dev/zero\n");
    assert_int_equal(ask(&f, &r, "GET", PATH, NULL), 500);
    assert_non_null(strstr(r.body, "killed by signal"));
    replace_program("#!/bin/sh\nexit 3\n");
    assert_int_equal(ask(&f, &r, "GET", PATH, NULL), 500);
    snprintf(f.agent.exe, sizeof f.agent.exe, "%s/nothing", f.folder);
    assert_int_equal(ask(&f, &r, "GET", PATH, NULL), 500);
    assert_int_equal(curves_count(&f.agent.curves), 0);
    assert_int_equal(ask(&f, &r, "GET", "/healthz", NULL), 200);
    fixture_close(&f);
}

TEST(few_run_at_a_time_and_end_with_their_clients)
{
    enum { N = CURVES_AT_ONCE + CURVES_WAITING };
    static struct client c[N];

    begin();
    write_rows(5);
    replace_program("#!/bin/sh\nexec sleep 1000\n");
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &f);
        client_get(&c[i], &f, PATH, "");
    }
    while (curves_count(&f.agent.curves) < N)
        fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "GET", PATH, NULL), 503);
    assert_int_equal(ask(&f, &r, "GET", "/healthz", NULL), 200);
    for (int i = 0; i < N; i++)
        client_close(&c[i]);
    while (curves_count(&f.agent.curves) > 0)
        fixture_turn(&f);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_points_and_a_client_that_has_them_gets_304),
        cmocka_unit_test(questions_and_files_that_make_no_curves_are_answered_in_words),
        cmocka_unit_test(a_program_that_fails_or_writes_without_end_is_an_error_of_that_request_only),
        cmocka_unit_test(few_run_at_a_time_and_end_with_their_clients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
