/* The agent's HTTP server as clients see it, over real connections: refusals and long waits. */
#include <sys/socket.h>

#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(malformed_requests_are_refused_with_the_reason)
{
#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"
#define PEERS "\"secret\":\"" HEX64 "\",\"peers\":\"0 a:1 a 1 " HEX64 "\"}"
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *expected;
    } cases[] = {
        {"POST", "/v1/jobs", "{", 400, "body:1"},
        {"POST", "/v1/jobs", "[]", 422, "not an object"},
        {"POST", "/v1/jobs", "{\"id\":\"j-x\"}", 422, "/attempt: missing"},
        {"POST", "/v1/jobs", "{\"idd\":\"j-x\"}", 422, "did you mean \\\"id\\\"?"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":2}", 409,
         "JOB_EXISTS"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":1,\"role\":\"worker\",\"node_count\":1}", 422,
         "/node: 1 is not a worker of 1"},
        {"POST", "/v1/jobs",
         "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":-2,\"role\":\"worker\",\"node_count\":1}", 422,
         "/node"},
        {"POST", "/v1/jobs",
         "{\"id\":\"../../x\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":1}", 422, "/id"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"codec.so\":\"" HEX64 "\"}}", 404,
         "no blob"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"code.so\":\"" HEX64 "\"}}", 422,
         "did you mean"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{}}", 422, "/files/codec.so: missing"},
        {"PUT", "/v1/jobs/j-abcdef/packages/codec", "{\"files\":{\"codec.so\":\"../x\"}}", 422,
         "not a SHA-256"},
        {"PUT", "/v1/jobs/j-abcdef/packages/misc", "{}", 404, "settings, codec"},
        {"PUT", "/v1/jobs/j-abcdef/packages", "{}", 422, "/packages: missing"},
        {"PUT", "/v1/jobs/j-abcdef/packages", "{\"packages\":{\"codecs\":{}}}", 422, "did you mean"},
        {"PUT", "/v1/jobs/j-abcdef/packages", "{\"packages\":{\"codec\":{\"files\":{}}}}", 422,
         "/packages/codec: /files/codec.so: missing"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1," PEERS, 409, "WRONG_STATE"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":2," PEERS, 409, "attempt 2"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1,\"key\":\"" HEX64 "\"," PEERS, 422, "/key"},
        {"POST", "/v1/jobs/j-abcdef/start", "{\"attempt\":1,\"secret\":\"" HEX64 "\",\"peers\":[]}", 422,
         "/peers"},
        {"POST", "/v1/jobs/j-abcdef/cancel", "{\"grace_s\":-1}", 422, "/grace_s"},
        {"DELETE", "/v1/jobs/j-abcdef", NULL, 409, "Cancel it first"},
        {"DELETE", "/v1/jobs", NULL, 405, "Allow: GET, HEAD, POST"},
        {"GET", "/v1/jobs/j-zzzzzz", NULL, 404, "unknown job"},
        {"GET", "/v1/jobs?state=nonsense", NULL, 400, "not a state"},
        {"GET", "/v1/jobs?stat=ready", NULL, 400, "did you mean"},
        {"GET", "/v1/jobs?limit=0", NULL, 400, "limit=0"},
        {"GET", "/v1/jobs/j-abcdef/wait?timeout_s=9999", NULL, 400, "timeout_s"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/passwd", NULL, 404, "no artifact"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/train.csv", NULL, 404, "has no train.csv"},
        {"GET", "/v1/jobs/j-abcdef/artifacts/../../token", NULL, 404, "no resource has this path"},
        {"POST", "/v1/queue", "{\"queue\":\"q-1\",\"waiting\":1,\"jobs\":{}}", 422, "/jobs: not a list"},
        {"POST", "/v1/queue", "{\"queue\":\"q-1\",\"waiting\":1,\"jobs\":[null]}", 422,
         "/jobs/0: not an object"},
        {"POST", "/v1/queue", "{\"queue\":\"q-1\",\"waiting\":1,\"jobs\":[{\"id\":\"j-a\"}]}", 422,
         "/jobs/0/name: missing"},
        {"POST", "/v1/queue",
         "{\"queue\":\"q-1\",\"waiting\":1,\"jobs\":[{\"id\":\"j-a\",\"name\":\"a\",\"codec\":\"ssgd\","
         "\"nodes\":\"2\",\"submitted_at\":\"\"}]}",
         422, "/jobs/0/nodes"},
        {"GET", "/v1/blobs/sha256/" HEX64, NULL, 405, "Allow: HEAD, PUT"},
    };
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    for (size_t i = 0; i < N_OF(cases); i++) {
        int status = ask(&f, &r, cases[i].method, cases[i].path, cases[i].body);

        if (status != cases[i].status || !strstr(r.text, cases[i].expected))
            fail_msg("%s %s %s: %s", cases[i].method, cases[i].path, cases[i].body ? cases[i].body : "",
                     r.text);
        if (status != 405)
            assert_non_null(strstr(r.text, "Content-Type: application/problem+json"));
    }
    fixture_close(&f);
}

TEST(request_heads_that_only_the_server_library_accepts_are_refused)
{
    static const struct {
        const char *head;
        const char *status;
    } cases[] = {
        {"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "400"},
        {"GET /healthz HTTP/1.1\r\n\r\n", "400"},
        {"GET /%68ealthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"},
        {"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
        {"FOO /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
         "400"},
        {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
    };
    static struct client c;
    struct fixture f = {0};

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(cases); i++) {
        char want[32];

        snprintf(want, sizeof want, "HTTP/1.1 %s ", cases[i].status);
        client_open(&c, &f);
        client_send(&c, cases[i].head, strlen(cases[i].head));
        client_expect(&c, &f, want);
        client_close(&c);
    }
    fixture_close(&f);
}

TEST(bytes_that_are_no_http_request_do_not_harm_the_agent)
{
    static struct client c;
    struct fixture f = {0};
    unsigned seed = 1;
    char junk[64];

    fixture_open(&f);
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizeof junk; k++)
            junk[k] = (char)(rand_r(&seed) >> 8);
        client_open(&c, &f);
        client_send(&c, junk, sizeof junk);
        for (int k = 0; k < 3; k++)
            fixture_turn(&f);
        client_close(&c);
    }
    assert_int_equal(ask_bytes(&f, &r, "GET", "/healthz", "", NULL, 0), 200);
    fixture_close(&f);
}

TEST(a_missing_token_is_logged_even_after_another_refusal)
{
    static const struct {
        const char *head, *status;
    } cases[] = {
        {"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404 "},
        {"GET /v1/agent HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 401 "},
    };
    static struct client c;
    struct stderr_catch caught;
    struct fixture f = {0};

    fixture_open(&f);
    stderr_catch_begin(&caught);
    for (size_t i = 0; i < N_OF(cases); i++) {
        client_open(&c, &f);
        client_send(&c, cases[i].head, strlen(cases[i].head));
        client_expect(&c, &f, cases[i].status);
        client_close(&c);
    }
    stderr_catch_end(&caught);
    assert_non_null(strstr(caught.text, "/v1/agent from 127.0.0.1 refused: a token is needed"));
    assert_null(strstr(caught.text, "/nothing"));
    fixture_close(&f);
}

TEST(bytes_of_an_unauthenticated_client_cannot_control_the_terminal_that_shows_the_log)
{
    static const char head[] = "GET /healthz HTTP/1.1\r\nHost: a\302\2332Jb\r\n\r\n"; /* U+009B: CSI */
    static struct client c;
    struct stderr_catch caught;
    struct fixture f = {0};

    fixture_open(&f);
    stderr_catch_begin(&caught);
    client_open(&c, &f);
    client_send(&c, head, sizeof head - 1);
    client_expect(&c, &f, "HTTP/1.1 403 ");
    client_close(&c);
    stderr_catch_end(&caught);
    assert_non_null(strstr(caught.text, "this agent is not \"a??2Jb\""));
    fixture_close(&f);
}

TEST(the_status_needs_no_token_on_loopback_and_reveals_no_secret)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    job_reserve(&f, &r, "j-waiting", false);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/v1/status", "", NULL, 0), 200);
    assert_non_null(strstr(r.body, "\"state\": \"busy\""));
    assert_non_null(strstr(r.body, "j-abcdef"));
    assert_null(strstr(r.body, f.token));
    assert_null(strstr(r.body, "000000007")); /* the job's key */
    assert_int_equal(ask_bytes(&f, &r, "GET", "/healthz", "", NULL, 0), 200);
    assert_string_equal(r.body, "ok\n");
    assert_int_equal(ask_bytes(&f, &r, "GET", "/readyz", "", NULL, 0), 200);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/v1/agent", "", NULL, 0), 401);
    assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    assert_true(reply_has(&r, "slots_free", "0"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs?state=pending", NULL), 200);
    assert_null(strstr(r.body, "\"id\":\"j-abcdef\"")); /* it is only named as the one before */
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs?limit=1", NULL), 200);
    assert_non_null(strstr(r.body, "j-waiting"));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/events", NULL), 200);
    fixture_close(&f);
}

TEST(events_are_streamed_as_they_occur_and_the_stream_ends_with_the_job)
{
    static struct client c, again;
    struct fixture f = {0};

    fixture_open(&f);
    assert_int_equal(job_reserve(&f, &r, "j-abcdef", false), 201);
    client_open(&c, &f);
    client_get(&c, &f, "/v1/jobs/j-abcdef/events", "Accept: application/x-ndjson\r\n");
    client_expect(&c, &f, "\"seq\":1,");
    job_send_packages(&f, "j-abcdef", "ok");
    client_expect(&c, &f, "\"state\":\"ready\"");
    assert_int_equal(job_send_start(&f, &r, "j-abcdef"), 202);
    client_expect(&c, &f, "\"event\":\"progress\"");
    client_expect(&c, &f, "\"event\":\"end\",\"state\":\"succeeded\"");
    client_expect(&c, &f, "\r\n0\r\n\r\n");
    client_close(&c);

    client_open(&again, &f);
    client_get(&again, &f, "/v1/jobs/j-abcdef/events?after=9", "");
    client_expect(&again, &f, "id: 10\nevent: log\ndata: {\"seq\":10,");
    client_expect(&again, &f, "\r\n0\r\n\r\n");
    assert_null(strstr(again.text, "\"seq\":9,"));
    client_close(&again);
    fixture_close(&f);
}

TEST(a_wait_ends_at_its_timeout_or_the_end_of_the_job)
{
    static struct client c;
    struct fixture f = {0};
    double begun;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    client_open(&c, &f);
    client_get(&c, &f, "/v1/jobs/j-abcdef/wait", "Connection: close\r\n");
    begun = clock_now();
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/wait?timeout_s=0.2", NULL), 200);
    assert_true(reply_has(&r, "state", "running"));
    assert_true(clock_now() - begun >= 0.2);
    assert_true(client_receives_nothing(&c)); /* without the notification a wait takes a minute */
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    client_expect(&c, &f, "\"state\":\"cancelled\"");
    client_close(&c);
    fixture_close(&f);
}

TEST(many_streams_of_one_job_all_end_even_if_one_disconnects)
{
    enum { N = 20 };
    static struct client c[N];
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "forever");
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &f);
        client_get(&c[i], &f, "/v1/jobs/j-abcdef/events", "");
    }
    for (int i = 0; i < N; i++)
        client_expect(&c[i], &f, "event: progress");
    for (int i = 0; i < N; i += 2)
        client_close(&c[i]);
    ask(&f, &r, "POST", "/v1/jobs/j-abcdef/cancel", NULL);
    for (int i = 1; i < N; i += 2) {
        client_expect(&c[i], &f, "event: end");
        client_expect(&c[i], &f, "\r\n0\r\n\r\n");
        client_close(&c[i]);
    }
    for (int i = 0; i < 10; i++)
        fixture_turn(&f);
    assert_false(http_server_is_busy(f.server->http));
    fixture_close(&f);
}

TEST(each_problem_has_a_page_for_browsers_and_for_curl)
{
    struct fixture f = {0};
    char path[64];

    fixture_open(&f);
    for (int p = PROBLEM_NONE + 1; p < N_PROBLEMS; p++) {
        snprintf(path, sizeof path, "/problems/%s", problem_code((enum problem)p));
        assert_int_equal(ask_bytes(&f, &r, "GET", path, "", NULL, 0), 200);
        assert_non_null(strstr(r.text, "Content-Type: text/plain; charset=utf-8\r\n"));
        assert_non_null(strstr(r.body, problem_advice((enum problem)p)));
        assert_int_equal(
            ask_bytes(&f, &r, "GET", path, "Accept: text/html,application/xhtml+xml\r\n", NULL, 0), 200);
        assert_non_null(strstr(r.text, "Content-Type: text/html; charset=utf-8\r\n"));
        assert_non_null(strstr(r.text, "Content-Security-Policy: default-src 'none';"));
        assert_non_null(strstr(r.body, problem_advice((enum problem)p)));
    }
    assert_int_equal(ask_bytes(&f, &r, "HEAD", "/problems/GONE", "", NULL, 0), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask_bytes(&f, &r, "GET", "/problems/NONE", "", NULL, 0), 404);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/problems/gone", "", NULL, 0), 404);
    fixture_close(&f);
}

TEST(the_page_needs_no_token_and_has_nothing_of_the_agent_in_it)
{
    static const char html[] = "Accept: text/html\r\nSec-Fetch-Site: none\r\n";
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask_bytes(&f, &r, "GET", "/", html, NULL, 0), 200);
        assert_non_null(strstr(r.text, "Content-Type: text/html; charset=utf-8\r\n"));
        assert_non_null(strstr(r.text, "Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
        assert_non_null(strstr(r.text, "Referrer-Policy: no-referrer\r\n"));
        assert_non_null(strstr(r.body, "{\"mode\":\"agent\"}"));
        assert_null(strstr(r.body, f.token));
        assert_null(strstr(r.body, "j-abcdef"));
        assert_null(strstr(r.body, f.agent.id));
    }
    assert_int_equal(ask_bytes(&f, &r, "HEAD", "/", "", NULL, 0), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask_bytes(&f, &r, "GET", "/?token=x", "", NULL, 0), 400);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/", "Sec-Fetch-Site: cross-site\r\n", NULL, 0), 403);
    fixture_close(&f);
}

/* The status of a second request, with the ETag that `r` has. */
static int ask_if_changed(struct fixture *f, const char *method, const char *path)
{
    const char *etag = strstr(r.text, "ETag: ");
    char headers[256];

    assert_non_null(etag);
    snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\nIf-None-Match: %.*s\r\n", f->token,
             (int)strcspn(etag + 6, "\r"), etag + 6);
    return ask_bytes(f, &r, method, path, headers, NULL, 0);
}

TEST(a_client_that_has_a_resource_already_gets_no_body)
{
    static const char *const paths[] = {"/",
                                        "/openapi.json",
                                        "/v1/jobs/j-abcdef",
                                        "/v1/jobs",
                                        "/v1/jobs/j-abcdef/artifacts",
                                        "/v1/jobs/j-abcdef/artifacts/train.csv",
                                        "/v1/jobs/j-abcdef/records.csv?kind=train",
                                        "/v1/jobs/j-abcdef/logs"};
    struct fixture f = {0};

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    for (size_t i = 0; i < N_OF(paths); i++) {
        size_t len;

        assert_int_equal(ask(&f, &r, "GET", paths[i], NULL), 200);
        len = strlen(r.body);
        assert_int_equal(ask_if_changed(&f, "GET", paths[i]), 304);
        assert_string_equal(r.body, "");
        assert_null(strstr(r.text, "\nContent-Type:"));
        assert_int_equal(atoi(strstr(r.text, "\nContent-Length:") + 16), len);
        assert_int_equal(ask_if_changed(&f, "HEAD", paths[i]), 304);
    }
    job_reserve(&f, &r, "j-second", false);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-second", NULL), 200);
    assert_int_equal(ask_if_changed(&f, "GET", "/v1/jobs/j-second"), 304);
    job_send_packages(&f, "j-second", "ok");
    assert_int_equal(ask_if_changed(&f, "GET", "/v1/jobs/j-second"), 200);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_requests_are_refused_with_the_reason),
        cmocka_unit_test(request_heads_that_only_the_server_library_accepts_are_refused),
        cmocka_unit_test(bytes_that_are_no_http_request_do_not_harm_the_agent),
        cmocka_unit_test(a_missing_token_is_logged_even_after_another_refusal),
        cmocka_unit_test(bytes_of_an_unauthenticated_client_cannot_control_the_terminal_that_shows_the_log),
        cmocka_unit_test(the_status_needs_no_token_on_loopback_and_reveals_no_secret),
        cmocka_unit_test(events_are_streamed_as_they_occur_and_the_stream_ends_with_the_job),
        cmocka_unit_test(a_wait_ends_at_its_timeout_or_the_end_of_the_job),
        cmocka_unit_test(each_problem_has_a_page_for_browsers_and_for_curl),
        cmocka_unit_test(the_page_needs_no_token_and_has_nothing_of_the_agent_in_it),
        cmocka_unit_test(a_client_that_has_a_resource_already_gets_no_body),
        cmocka_unit_test(many_streams_of_one_job_all_end_even_if_one_disconnects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
