/* Raw requests to a live agent: each is answered as it must be, and the agent answers on. Those of the matrix
 * and the damaged ones are read by tests/lib/request_check.h, a second reading of the same bytes. */
#include <sys/socket.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/raw_heads.h"
#include "tests/lib/request_check.h"
#include "tests/unit/unit.h"

#define TOKEN "Authorization: Bearer $\r\n" /* $: the token */
#define JSON  "Content-Type: application/json\r\n"
#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"

static struct fixture f;
static unsigned n_sent;

/* What an agent answers to these bytes: the status, or 0 if it closes without an answer. */
static int status_of(const char *bytes, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    static struct client c;
    const char *answer;
    int status;

    client_open(&c, &f);
    send(c.fd, bytes, len, MSG_NOSIGNAL);
    shutdown(c.fd, SHUT_WR); /* what is incomplete stays so */
    client_expect_close(&c, &f);
    answer = strncmp(c.text, go_on, sizeof go_on - 1) == 0 ? c.text + sizeof go_on - 1 : c.text;
    status = strlen(answer) > 12 ? atoi(answer + 9) : 0;
    client_close(&c);
    n_sent++;
    return status;
}

static void canary(const char *after)
{
    static const char head[] = "GET /healthz HTTP/1.1\r\n" HOST END;

    if (status_of(head, sizeof head - 1) != 200)
        fail_msg("after \"%s\" the agent does not answer as before", after);
    n_sent--;
}

/* Sends the bytes, and checks the answer and the two readings of the head. */
static void check(const char *bytes, size_t len)
{
    static struct checked_request second;
    static struct request_head box;
    const char *why = NULL;
    enum checked checked = request_read(&second, bytes, len);
    ssize_t found;
    int status;

    memcpy(box.bytes, bytes, len);
    box.n_seen = 0;
    found = head_find_end(box.bytes, len, &box.n_seen, &why);
    if (found > 0 && !head_parse(&box.head, box.bytes, (size_t)found, &why))
        found = -1;
    if ((found > 0) != (checked == CHECKED_OK) || (found < 0) != (checked == CHECKED_INVALID))
        fail_msg("\"%.*s\": %zd (%s) against %d", (int)len, bytes, found, why, (int)checked);
    if (found > 0) {
        assert_int_equal(found, second.len);
        assert_string_equal(box.head.method, second.method);
        assert_string_equal(box.head.target, second.target);
        assert_int_equal(box.head.is_1_0, second.minor == 0);
        assert_int_equal(box.head.body_bytes, second.body);
        assert_int_equal(box.head.n_headers, second.n);
        for (size_t i = 0; i < second.n; i++) {
            assert_string_equal(box.head.headers[i].name, second.headers[i].name);
            assert_string_equal(box.head.headers[i].value, second.headers[i].value);
        }
    }
    status = status_of(bytes, len);
    if ((checked == CHECKED_INVALID && status != (request_is_tls(bytes, len) ? 0 : 400)) ||
        (checked == CHECKED_INCOMPLETE && status != 0) ||
        (status >= 200 && status < 300 && !request_may_succeed(&second, f.agent.address, f.token)) ||
        (status >= 500 && status != 503 && status != 507) || (status > 0 && status < 200))
        fail_msg("\"%.*s\": checked %d, answered %d", (int)len, bytes, (int)checked, status);
    canary(bytes);
}

static const struct raw cases[] = {
    RAW(200, "GET /healthz HTTP/1.1\r\n" HOST END),
    RAW(200, "GET /healthz HTTP/1.0\r\n" HOST END),
    RAW(200, "HEAD /healthz HTTP/1.1\r\n" HOST END),
    RAW(200, "GET /healthz HTTP/1.1\r\nhost:localhost\r\n" END),
    RAW(200, "GET /healthz HTTP/1.1\r\nHOST:\t localhost \t\r\n" END),
    RAW(200, "GET /healthz HTTP/1.1\r\n" HOST "X: a\tb\200\377\r\n" END),
    RAW(200, "GET /healthz HTTP/1.1\r\n" HOST "X:\r\nY: \r\n" END),
    RAW(200, "GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 0\r\n" END),
    RAW(200, "GET /v1/agent HTTP/1.1\r\n" HOST TOKEN END),
    RAW(200, "GET /v1/agent HTTP/1.1\r\n" HOST "authorization: bearer $\r\n" END),
    RAW(200, "GET /v1/jobs?limit=3 HTTP/1.1\r\n" HOST TOKEN END),
    RAW(200, "GET /v1/status HTTP/1.1\r\n" HOST END),
    RAW(400, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON
             "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n" END "{}"),
    RAW(413, "GET /healthz HTTP/1.1\r\n" HOST "Content-Length: 5\r\n" END "hello"),
    RAW(413, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON "Content-Length: 70000\r\n" END),
    RAW(411, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON END),
    RAW(415, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN "Content-Length: 2\r\n" END "{}"),
    RAW(415,
        "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN "Content-Type: text/plain\r\nContent-Length: 2\r\n" END "{}"),
    RAW(422, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON "Content-Length: 2\r\n" END "{}"),
    RAW(422, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON
             "Expect: 100-continue\r\nContent-Length: 2\r\nConnection: "
             "close\r\n" END "[]"),
    RAW(0, "POST /v1/jobs HTTP/1.1\r\n" HOST TOKEN JSON "Content-Length: 3\r\n" END "{}"),
    /* who asks, and whom */
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST END),
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST "Authorization: Bearer\r\n" END),
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST "Authorization: $\r\n" END),
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST "Authorization: Basic $\r\n" END),
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST TOKEN TOKEN END),
    RAW(401, "GET /v1/agent HTTP/1.1\r\n" HOST "Authorization: Bearer $ $\r\n" END),
    /* what for */
    RAW(200, "GET / HTTP/1.1\r\n" HOST END),
    RAW(403, "GET / HTTP/1.1\r\nHost: evil.example\r\n" END),
    RAW(200, "GET /metrics HTTP/1.1\r\n" HOST END),
    RAW(200, "GET /openapi.json HTTP/1.1\r\n" HOST "If-None-Match: \"x\"\r\n" END),
    RAW(304, "GET /openapi.json HTTP/1.1\r\n" HOST "If-None-Match: *\r\n" END),
    RAW(200, "GET /problems/GONE HTTP/1.1\r\n" HOST "Accept: text/html\r\n" END),
    RAW(404, "GET /problems/gone HTTP/1.1\r\n" HOST END),
    RAW(404, "GET /v1/jobs/j-abcdef/metrics?names=loss,accuracy HTTP/1.1\r\n" HOST TOKEN END),
    RAW(400, "GET /v1/jobs?limit=1,2 HTTP/1.1\r\n" HOST TOKEN END),
    RAW(404, "GET /healthz/ HTTP/1.1\r\n" HOST END),
    RAW(404, "GET /%68ealthz HTTP/1.1\r\n" HOST END),
    RAW(404, "GET /healthz# HTTP/1.1\r\n" HOST END),
    RAW(404, "GET /../healthz HTTP/1.1\r\n" HOST END),
    RAW(404, "GET //healthz HTTP/1.1\r\n" HOST END),
    RAW(404, "GET /v1/jobs/j-abcdef HTTP/1.1\r\n" HOST TOKEN END),
    RAW(404, "GET /v1/jobs/j-abcdef/artifacts/../../../token HTTP/1.1\r\n" HOST TOKEN END),
    RAW(400, "GET /healthz? HTTP/1.1\r\n" HOST END),
    RAW(400, "GET /v1/jobs?limit=3&limit=4 HTTP/1.1\r\n" HOST TOKEN END),
    RAW(405, "FOO /healthz HTTP/1.1\r\n" HOST END),
    RAW(405, "TRACE /healthz HTTP/1.1\r\n" HOST END),
    RAW(405, "DELETE /v1/jobs HTTP/1.1\r\n" HOST TOKEN END),
    RAW(405, "GET /v1/blobs/sha256/" HEX64 " HTTP/1.1\r\n" HOST TOKEN END),
};

static void check_all(const struct raw *of, size_t n)
{
    static char bytes[1 << 14];

    for (size_t i = 0; i < n; i++) {
        size_t len = request_fill(bytes, sizeof bytes, of[i].bytes, of[i].len, f.token);
        int status = status_of(bytes, len);

        if (status != of[i].status)
            fail_msg("\"%.*s\": %d, not %d", (int)len, bytes, status, of[i].status);
        check(bytes, len);
    }
}

TEST(raw_requests_are_answered_as_listed)
{
    f = (struct fixture){0};
    fixture_open(&f);
    check_all(raw_heads, N_OF(raw_heads));
    check_all(cases, N_OF(cases));
    fixture_close(&f);
}

TEST(no_request_of_the_matrix_succeeds_unless_every_condition_holds)
{
    static const char *const methods[] = {"GET",     "HEAD",  "POST",  "PUT", "DELETE",
                                          "OPTIONS", "PATCH", "TRACE", "FOO"};
    static const char *const targets[] = {"/healthz",    "/v1/status",        "/v1/agent",
                                          "/v1/jobs",    "/v1/jobs/j-abcdef", ("/v1/blobs/sha256/" HEX64),
                                          "/v1/../token"};
    static const char *const hosts[] = {"", HOST, "Host: evil.example\r\n"};
    static const char *const tokens[] = {"", TOKEN, "Authorization: Bearer x$\r\n"};
    static char text[1024], bytes[2048];

    n_sent = 0;
    f = (struct fixture){0};
    fixture_open(&f);
    for (size_t m = 0; m < N_OF(methods); m++)
        for (size_t t = 0; t < N_OF(targets); t++)
            for (size_t h = 0; h < N_OF(hosts); h++)
                for (size_t a = 0; a < N_OF(tokens); a++) {
                    int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%s%s" END, methods[m], targets[t],
                                     hosts[h], tokens[a]);

                    check(bytes, request_fill(bytes, sizeof bytes, text, (size_t)n, f.token));
                }
    assert_int_equal(n_sent, 567);
    fixture_close(&f);
}

TEST(a_byte_inserted_into_a_valid_request_does_not_change_how_it_is_parsed)
{
    static const char text[] = "GET /v1/agent HTTP/1.1\r\n" HOST TOKEN "Content-Length: 0\r\n" END;
    static const char put[] = {'\0', '\t', '\n', '\r', ' ', ':', '\177', '\200', '\033', 'A'};
    static char damaged[sizeof text + 1], bytes[1024];

    f = (struct fixture){0};
    fixture_open(&f);
    for (size_t at = 0; at < sizeof text; at += 3)
        for (size_t k = 0; k < N_OF(put); k++) {
            memcpy(damaged, text, at);
            damaged[at] = put[k];
            memcpy(damaged + at + 1, text + at, sizeof text - 1 - at);
            check(bytes, request_fill(bytes, sizeof bytes, damaged, sizeof text, f.token));
        }
    fixture_close(&f);
}

TEST(a_head_is_read_alike_however_its_bytes_arrive)
{
    static const char head[] = "GET /healthz HTTP/1.1\r\n" HOST "X: y\r\nConnection: close\r\n" END;
    static struct client c;

    f = (struct fixture){0};
    fixture_open(&f);
    for (size_t cut = 1; cut < sizeof head - 1; cut++) {
        client_open(&c, &f);
        client_send(&c, head, cut);
        for (int i = 0; i < 3; i++)
            fixture_turn(&f);
        client_send(&c, head + cut, sizeof head - 1 - cut);
        client_expect(&c, &f, "200 OK");
        client_close(&c);
    }
    fixture_close(&f);
}

TEST(requests_sent_at_once_are_answered_in_order_up_to_one_that_is_not_valid)
{
    static const char heads[] = "GET /healthz HTTP/1.1\r\n" HOST END "POST /v1/jobs HTTP/1.1\r\n" HOST JSON
                                "Content-Length: 4\r\n" TOKEN END "[][]GET /readyz HTTP/1.1\r\n" HOST END
                                "GET /healthz HTTP/1.1\r\nHost : localhost\r\n" END
                                "GET /healthz HTTP/1.1\r\n" HOST END;
    static const char *const lines[] = {"200 OK",    "ok\n",    "HTTP/1.1 400", "body:1",
                                        "HTTP/1.1 ", "reasons", "HTTP/1.1 400", "NAME: value"};
    static char bytes[2048];
    static struct client c;
    const char *at;
    size_t len;

    f = (struct fixture){0};
    fixture_open(&f);
    len = request_fill(bytes, sizeof bytes, heads, sizeof heads - 1, f.token);
    client_open(&c, &f);
    client_send(&c, bytes, len);
    client_expect_close(&c, &f);
    at = c.text;
    for (size_t i = 0; i < N_OF(lines); i++) {
        at = strstr(at, lines[i]);
        if (!at)
            fail_msg("no \"%s\" in its place: %s", lines[i], c.text);
        at += strlen(lines[i]);
    }
    assert_null(strstr(at, "HTTP/1.1"));
    client_close(&c);
    fixture_close(&f);
}

TEST(a_head_of_16_KiB_or_64_headers_is_the_longest)
{
    static char bytes[HEAD_MAX + 16];

    f = (struct fixture){0};
    fixture_open(&f);
    for (size_t more = 0; more < 2; more++)
        assert_int_equal(status_of(bytes, raw_head_of_length(bytes, HEAD_MAX + more, f.token)),
                         more ? 400 : 200);
    for (int n = 64; n <= 65; n++)
        assert_int_equal(status_of(bytes, raw_head_of_headers(bytes, sizeof bytes, n, f.token)),
                         n > 64 ? 400 : 200);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_requests_are_answered_as_listed),
        cmocka_unit_test(no_request_of_the_matrix_succeeds_unless_every_condition_holds),
        cmocka_unit_test(a_byte_inserted_into_a_valid_request_does_not_change_how_it_is_parsed),
        cmocka_unit_test(a_head_is_read_alike_however_its_bytes_arrive),
        cmocka_unit_test(requests_sent_at_once_are_answered_in_order_up_to_one_that_is_not_valid),
        cmocka_unit_test(a_head_of_16_KiB_or_64_headers_is_the_longest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
