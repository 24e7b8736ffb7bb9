#include "agent/api/gate.h"

#include "shared/http/http_server_private.h"
#include "tests/unit/unit.h"

static struct token token = {.name = "owner", .scope = SCOPE_ADMIN, .is_valid = true};
static const char *const allowed[] = {"gpu-box", NULL};
static const struct gate_rules rules = {
    .bound_host = "127.0.0.1", .port = 15387, .allow_hosts = allowed, .token = &token};

#define AUTH                                                                                                 \
    {                                                                                                        \
        "Authorization", "Bearer right-token"                                                                \
    }
#define HOST                                                                                                 \
    {                                                                                                        \
        "Host", "127.0.0.1:15387"                                                                            \
    }
#define JSON                                                                                                 \
    {                                                                                                        \
        "Content-Type", "application/json"                                                                   \
    }
#define LENGTH                                                                                               \
    {                                                                                                        \
        "Content-Length", "10"                                                                               \
    }
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct gate_case {
    const char *method, *target;
    struct header headers[8];
    enum problem want;
};

/* Reads the head as the server does. False, with *why: it is not valid. */
static bool read_head(struct request_head *out, const struct gate_case *c, const char **why)
{
    int n = snprintf(out->bytes, sizeof out->bytes, "%s %s HTTP/1.1\r\n", c->method, c->target);
    ssize_t len;

    for (size_t i = 0; i < N_OF(c->headers) && c->headers[i].name; i++)
        n += snprintf(out->bytes + n, sizeof out->bytes - (size_t)n, "%s: %s\r\n", c->headers[i].name,
                      c->headers[i].value);
    n += snprintf(out->bytes + n, sizeof out->bytes - (size_t)n, "\r\n");
    out->n_seen = 0;
    len = head_find_end(out->bytes, (size_t)n, &out->n_seen, why);
    return len == n && head_parse(&out->head, out->bytes, (size_t)n, why);
}

static bool check(const struct gate_case *c, const struct gate_rules *by, bool is_loopback,
                  struct request *rq, struct gate_refusal *answer)
{
    static struct request_head box;
    const struct gate_input in = {.head = &box.head,
                                  .is_loopback = is_loopback,
                                  .local_host = "10.0.0.7",
                                  .now = 1.5,
                                  .disk_free = 1 << 20};
    const char *why;

    sha256(token.digest, "right-token", 11);
    if (read_head(&box, c, &why))
        return gate_check(by, &in, rq, answer);
    *answer = (struct gate_refusal){.problem = BAD_REQUEST};
    snprintf(answer->detail, sizeof answer->detail, "%s", why);
    return false;
}

TEST(each_rule_of_the_gate_has_its_response)
{
    static const struct gate_case cases[] = {
        {"GET", "/healthz", {HOST}, PROBLEM_NONE},
        {"HEAD", "/healthz", {HOST}, PROBLEM_NONE},
        {"GET", "/v1/status", {HOST}, PROBLEM_NONE},
        {"GET", "/v1/jobs", {HOST, AUTH}, PROBLEM_NONE},
        {"GET", "/v1/jobs?state=ready&limit=3", {HOST, AUTH}, PROBLEM_NONE},
        {"GET", "/v1/jobs/j-abcdef/events?after=7", {HOST, AUTH}, PROBLEM_NONE},
        /* the target */
        {"GET", "", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "healthz", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "*", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/healthz/", {HOST, AUTH}, NOT_FOUND},
        {"GET", "//healthz", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs/../agent", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs/j-abc%64ef", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs/j-abcde", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs/j-ABCDEF", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs/j-abcdef/nothing", {HOST, AUTH}, NOT_FOUND},
        {"GET", "/v1/jobs?", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?limit", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?limit=", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?limit=1&limit=2", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?limit=1&", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?nosuch=1", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs?limit=%31", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/healthz?a=b", {HOST, AUTH}, BAD_REQUEST},
        /* the method, whatever the token */
        {"POST", "/healthz", {HOST}, METHOD_NOT_ALLOWED},
        {"OPTIONS", "/v1/jobs", {HOST, AUTH}, METHOD_NOT_ALLOWED},
        {"get", "/v1/jobs", {HOST, AUTH}, BAD_REQUEST},
        {"GET", "/v1/jobs/j-abcdef/start", {HOST, AUTH}, METHOD_NOT_ALLOWED},
        /* Host */
        {"GET", "/healthz", {{0}}, BAD_REQUEST},
        {"GET", "/healthz", {HOST, HOST}, BAD_REQUEST},
        {"GET", "/healthz", {{"Host", "127.0.0.1"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"host", "LOCALHOST:15387"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "gpu-box:15387"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "10.0.0.7"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "127.0.0.1:80"}}, PROBLEM_NONE}, /* the end of a tunnel */
        {"GET", "/healthz", {{"Host", "localhost:9999"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "127.0.0.1:80x"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "gpu-box:80"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "127.0.0.1:"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "evil.example"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "127.0.0.1.evil.example"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "0.0.0.0:15387"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "[::1]:15387"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "[::1]"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "[127.0.0.1"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", ""}}, FORBIDDEN},
        /* other web pages */
        {"GET", "/healthz", {HOST, {"Origin", "http://127.0.0.1:15387"}}, PROBLEM_NONE},
        {"GET", "/healthz", {HOST, {"Origin", "http://127.0.0.1"}}, FORBIDDEN},
        {"GET", "/healthz", {HOST, {"Origin", "https://127.0.0.1:15387"}}, FORBIDDEN},
        /* through a tunnel with another port */
        {"GET", "/healthz", {{"Host", "localhost:99"}, {"Origin", "http://localhost:99"}}, PROBLEM_NONE},
        {"GET", "/healthz", {{"Host", "localhost:99"}, {"Origin", "http://localhost:98"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "localhost:99"}, {"Origin", "http://127.0.0.1:99"}}, FORBIDDEN},
        {"GET", "/healthz", {{"Host", "evil"}, {"Origin", "http://evil"}}, FORBIDDEN},
        {"GET", "/healthz", {HOST, {"Origin", "null"}}, FORBIDDEN},
        {"DELETE", "/v1/jobs/j-abcdef", {HOST, AUTH, {"Origin", "http://evil.example"}}, FORBIDDEN},
        {"GET", "/healthz", {HOST, {"Sec-Fetch-Site", "same-origin"}}, PROBLEM_NONE},
        {"GET", "/healthz", {HOST, {"Sec-Fetch-Site", "cross-site"}}, FORBIDDEN},
        {"GET", "/healthz", {HOST, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "none"}}, FORBIDDEN},
        /* the token */
        {"GET", "/v1/jobs", {HOST}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, {"Authorization", "Bearer wrong"}}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, {"Authorization", "Bearer "}}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, {"Authorization", "Bearer  right-token"}}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, {"Authorization", "Basic right-token"}}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, AUTH, AUTH}, UNAUTHORIZED},
        {"GET", "/v1/jobs", {HOST, {"authorization", "bearer right-token"}}, PROBLEM_NONE},
        /* the body */
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, LENGTH}, PROBLEM_NONE},
        {"POST",
         "/v1/jobs",
         {HOST, AUTH, {"Content-Type", "application/json; charset=utf-8"}, LENGTH},
         PROBLEM_NONE},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON}, LENGTH_REQUIRED},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, LENGTH, LENGTH}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "10, 10"}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "-1"}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "+1"}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", ""}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "99999999999999999999"}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, LENGTH, {"Transfer-Encoding", "chunked"}}, BAD_REQUEST},
        {"POST", "/v1/jobs", {HOST, AUTH, LENGTH}, UNSUPPORTED_MEDIA_TYPE},
        {"POST", "/v1/jobs", {HOST, AUTH, {"Content-Type", "text/plain"}, LENGTH}, UNSUPPORTED_MEDIA_TYPE},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "65536"}}, PROBLEM_NONE},
        {"POST", "/v1/jobs", {HOST, AUTH, JSON, {"Content-Length", "65537"}}, TOO_LARGE},
        {"GET", "/v1/jobs", {HOST, AUTH, LENGTH}, TOO_LARGE},
        {"GET", "/v1/jobs", {HOST, AUTH, {"Content-Length", "0"}}, PROBLEM_NONE},
        {"POST", "/v1/jobs/j-abcdef/cancel", {HOST, AUTH}, PROBLEM_NONE},
        {"POST", "/v1/jobs/j-abcdef/cancel", {HOST, AUTH, LENGTH}, UNSUPPORTED_MEDIA_TYPE},
        {"PUT", "/v1/blobs/sha256/" HEX64, {HOST, AUTH, JSON, {"Content-Length", "1048576"}}, PROBLEM_NONE},
        {"PUT", "/v1/blobs/sha256/" HEX64, {HOST, AUTH, JSON, {"Content-Length", "1048577"}}, DISK_FULL},
        {"PUT", "/v1/blobs/sha256/" HEX64 "0", {HOST, AUTH, JSON, LENGTH}, NOT_FOUND},
        {"PUT", "/v1/blobs/sha256/x", {HOST, AUTH, JSON, LENGTH}, NOT_FOUND},
    };
    struct request rq;
    struct gate_refusal answer;

    for (size_t i = 0; i < N_OF(cases); i++) {
        bool ok = check(&cases[i], &rules, true, &rq, &answer);

        if (answer.problem != cases[i].want || ok != (answer.problem == PROBLEM_NONE))
            fail_msg("case %zu, %s %s: %s (%s), not %s", i, cases[i].method, cases[i].target,
                     problem_code(answer.problem), answer.detail, problem_code(cases[i].want));
        assert_true(ok || answer.detail[0]);
    }
}

TEST(invalid_requests_are_reported)
{
    static const struct {
        struct gate_case request;
        const char *expected;
    } cases[] = {
        {{"GET", "/v1/jobs", {HOST}, UNAUTHORIZED}, "a token is needed"},
        {{"GET", "/v1/jobs", {HOST, {"Authorization", "Bearer wrong"}}, UNAUTHORIZED}, "is not this agent's"},
        {{"GET", "/v1/jobs", {HOST, AUTH, AUTH}, UNAUTHORIZED}, "more than one Authorization"},
        {{"PUT", "/v1/blobs/sha256/" HEX64, {HOST, AUTH, JSON, {"Content-Length", "1048577"}}, DISK_FULL},
         "1048576 are free for uploads on the agent's disk, and 64 MiB more are reserved"},
    };
    struct request rq;
    struct gate_refusal answer;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_false(check(&cases[i].request, &rules, true, &rq, &answer));
        assert_non_null(strstr(answer.detail, cases[i].expected));
    }
}

TEST(the_status_needs_no_token_on_loopback_only)
{
    static const struct gate_case status = {"GET", "/v1/status", {HOST}, PROBLEM_NONE};
    struct request rq;
    struct gate_refusal answer;

    assert_true(check(&status, &rules, true, &rq, &answer));
    assert_false(rq.is_authorised);
    assert_false(check(&status, &rules, false, &rq, &answer));
    assert_int_equal(answer.problem, UNAUTHORIZED);
}

TEST(without_a_token_every_request_is_authorized_and_the_other_rules_apply)
{
    static const struct gate_rules open_rules = {
        .bound_host = "127.0.0.1", .port = 15387, .allow_hosts = allowed};
    static const struct gate_case jobs = {"GET", "/v1/jobs", {HOST}, PROBLEM_NONE};
    static const struct gate_case evil = {"GET", "/v1/jobs", {{"Host", "evil.example"}}, FORBIDDEN};
    struct request rq;
    struct gate_refusal answer;

    assert_true(check(&jobs, &open_rules, true, &rq, &answer));
    assert_true(rq.is_authorised);
    assert_false(check(&evil, &open_rules, true, &rq, &answer));
}

TEST(each_scope_reaches_its_routes_and_the_others_are_refused_in_words)
{
    static const struct {
        const char *method, *target;
        enum scope least;
    } cases[] = {
        {"GET", "/v1/agent", SCOPE_READ},
        {"GET", "/v1/jobs/j-abcdef", SCOPE_READ},
        {"GET", "/v1/jobs/j-abcdef/artifacts", SCOPE_READ},
        {"HEAD", "/v1/blobs/sha256/" HEX64, SCOPE_SUBMIT},
        {"DELETE", "/v1/jobs/j-abcdef", SCOPE_SUBMIT},
        {"POST", "/v1/jobs/j-abcdef/cancel", SCOPE_SUBMIT},
        {"POST", "/v1/agent/drain", SCOPE_ADMIN},
    };
    struct member list[3] = {{.name = "r", .scope = SCOPE_READ, .until = 1},
                             {.name = "r", .scope = SCOPE_READ, .until = 2},
                             {.name = "s", .scope = SCOPE_SUBMIT}};
    const struct members members = {.n = 3, .list = list};
    const struct token cluster = {.name = "cluster", .scope = SCOPE_SUBMIT, .is_valid = true};
    struct gate_rules with = rules;
    struct request rq;
    struct gate_refusal answer;

    with.members = &members;
    with.cluster = &cluster;
    sha256(list[0].digest, "old", 3);
    sha256(list[1].digest, "reader", 6);
    sha256(list[2].digest, "submitter", 9);
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct gate_case c = {
            cases[i].method, cases[i].target, {HOST, {"Authorization", "Bearer reader"}}, 0};
        bool ok = check(&c, &with, true, &rq, &answer);

        assert_int_equal(ok, cases[i].least == SCOPE_READ);
        assert_string_equal(rq.who, "r");
        if (!ok)
            assert_non_null(strstr(answer.detail, cases[i].least == SCOPE_ADMIN
                                                      ? "needs a token of scope admin"
                                                      : "scope submit; the one of r"));
        if (!ok)
            assert_int_equal(answer.problem, FORBIDDEN);
        c.headers[1].value = "Bearer submitter";
        assert_int_equal(check(&c, &with, true, &rq, &answer), cases[i].least <= SCOPE_SUBMIT);
        assert_int_equal(rq.scope, SCOPE_SUBMIT);
        c.headers[1].value = "Bearer right-token";
        assert_true(check(&c, &with, true, &rq, &answer));
        assert_int_equal(rq.scope, SCOPE_ADMIN);
        c.headers[1].value = "Bearer old"; /* expired */
        assert_false(check(&c, &with, true, &rq, &answer));
        assert_int_equal(answer.problem, UNAUTHORIZED);
    }
}

TEST(a_client_with_a_certificate_has_the_scope_submit)
{
    static struct gate_case alone = {"GET", "/v1/jobs", {HOST}, PROBLEM_NONE},
                            drain = {"POST", "/v1/agent/drain", {HOST}, FORBIDDEN},
                            right = {"POST", "/v1/agent/drain", {HOST, AUTH}, PROBLEM_NONE},
                            wrong = {"GET",
                                     "/v1/jobs",
                                     {HOST, {"Authorization", "Bearer wrong"}},
                                     UNAUTHORIZED},
                            open = {"GET", "/healthz", {HOST, AUTH}, PROBLEM_NONE};
    struct gate_rules by = rules;
    struct request_head box;
    struct gate_input in = {.head = &box.head, .has_tls = true, .certificate = "CN=ann"};
    const char *why;
    struct request rq;
    struct gate_refusal answer;

    by.takes_certificates = true;
    sha256(token.digest, "right-token", 11);
    assert_true(read_head(&box, &alone, &why));
    assert_true(gate_check(&by, &in, &rq, &answer));
    assert_true(rq.is_authorised);
    assert_string_equal(rq.who, "CN=ann");
    assert_int_equal(rq.scope, SCOPE_SUBMIT);
    assert_true(read_head(&box, &drain, &why));
    assert_false(gate_check(&by, &in, &rq, &answer));
    assert_int_equal(answer.problem, FORBIDDEN);
    /* A token beside it decides; a wrong one is a failure of its own. */
    assert_true(read_head(&box, &right, &why));
    assert_true(gate_check(&by, &in, &rq, &answer));
    assert_string_equal(rq.who, "owner");
    assert_true(read_head(&box, &wrong, &why));
    assert_false(gate_check(&by, &in, &rq, &answer));
    assert_true(answer.has_wrong_token);
    /* A refused certificate counts more than a token, except where nothing is needed. */
    in.certificate = NULL;
    in.certificate_refusal = "it has expired";
    assert_true(read_head(&box, &right, &why));
    assert_false(gate_check(&by, &in, &rq, &answer));
    assert_int_equal(answer.problem, UNAUTHORIZED);
    assert_string_equal(answer.detail, "the client's certificate is not accepted: it has expired");
    assert_false(answer.has_wrong_token);
    assert_true(read_head(&box, &open, &why));
    assert_true(gate_check(&by, &in, &rq, &answer));
    /* None at all. */
    in.certificate_refusal = NULL;
    assert_true(read_head(&box, &alone, &why));
    assert_false(gate_check(&by, &in, &rq, &answer));
    assert_string_equal(answer.detail, "a token or a client's certificate is needed");
}

TEST(a_key_of_a_job_is_one_of_43_characters)
{
    static const char key[] = "0123456789012345678901234567890123456789-_z";
    struct gate_case c = {"GET", "/v1/jobs/j-abcdef", {HOST, AUTH, {"X-Job-Key", key}}, PROBLEM_NONE};
    struct request rq;
    struct gate_refusal answer;

    assert_true(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(strlen(rq.job_key), 64);
    c.headers[2].value = key + 1;
    assert_false(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(answer.problem, BAD_REQUEST);
    c.headers[2].value = key;
    c.headers[3] = c.headers[2];
    assert_false(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(answer.problem, BAD_REQUEST);
}

TEST(an_attempt_is_one_number_from_1)
{
    struct gate_case c = {"GET", "/v1/jobs/j-abcdef", {HOST, AUTH, {"X-Job-Attempt", "12"}}, PROBLEM_NONE};
    static const char *const wrong[] = {"", "0", "-1", "1 2", "0x1", "99999999"};
    struct request rq;
    struct gate_refusal answer;

    assert_true(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(rq.attempt, 12);
    for (size_t i = 0; i < N_OF(wrong); i++) {
        c.headers[2].value = wrong[i];
        assert_false(check(&c, &rules, true, &rq, &answer));
        assert_int_equal(answer.problem, BAD_REQUEST);
    }
    c.headers[2].value = "1";
    c.headers[3] = c.headers[2];
    assert_false(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(answer.problem, BAD_REQUEST);
}

TEST(a_request_target_may_have_512_bytes)
{
    char target[TARGET_MAX + 2];
    struct gate_case c = {"GET", target, {HOST, AUTH}, NOT_FOUND};
    struct request rq;
    struct gate_refusal answer;
    int n = snprintf(target, sizeof target, "/v1/jobs?state=");

    memset(target + n, 'a', sizeof target - (size_t)n);
    target[TARGET_MAX + 1] = '\0';
    assert_false(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(answer.problem, NOT_FOUND);
    target[TARGET_MAX] = '\0';
    assert_false(check(&c, &rules, true, &rq, &answer));
    assert_int_equal(answer.problem, BAD_REQUEST); /* its value is too long for a query, but it was read */
}

TEST(path_parameters_are_passed_on)
{
    static const struct gate_case c = {"GET",
                                       "/v1/jobs/j-abcdef/artifacts/train.csv",
                                       {HOST, AUTH, {"Accept", "text/html, application/x-ndjson"}},
                                       PROBLEM_NONE};
    struct request rq;
    struct gate_refusal answer;

    assert_true(check(&c, &rules, true, &rq, &answer));
    assert_string_equal(rq.arg[0], "j-abcdef");
    assert_string_equal(rq.arg[1], "train.csv");
    assert_true(rq.wants_ndjson);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_of_the_gate_has_its_response),
        cmocka_unit_test(invalid_requests_are_reported),
        cmocka_unit_test(the_status_needs_no_token_on_loopback_only),
        cmocka_unit_test(without_a_token_every_request_is_authorized_and_the_other_rules_apply),
        cmocka_unit_test(each_scope_reaches_its_routes_and_the_others_are_refused_in_words),
        cmocka_unit_test(a_client_with_a_certificate_has_the_scope_submit),
        cmocka_unit_test(a_key_of_a_job_is_one_of_43_characters),
        cmocka_unit_test(an_attempt_is_one_number_from_1),
        cmocka_unit_test(a_request_target_may_have_512_bytes),
        cmocka_unit_test(path_parameters_are_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
