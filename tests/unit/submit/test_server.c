#include "submit/browse/server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "shared/http/head.h"
#include "tests/lib/raw_heads.h"
#include "tests/lib/request_check.h"
#include "tests/unit/unit.h"

static int connect_to(int port)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* The answer's status; 0: it ended without one. */
static int ask(int fd, const char *path)
{
    char text[4096];
    size_t len = 0;
    ssize_t n;
    int status = 0;

    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", path);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return 0;
    while (len < sizeof text - 1 && (n = recv(fd, text + len, sizeof text - 1 - len, 0)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    return sscanf(text, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

TEST(connections_without_a_cookie_do_not_block_those_with_one)
{
    enum { MANY = 2 * PAGE_UNAUTHENTICATED };
    static const char half[] = "GET / HTTP/1.1\r\nHost: 127";
    struct job_list *job_list = job_list_new();
    struct server *s;
    const char *path;
    int fds[MANY];
    struct err e;
    int port;
    int fd;

    assert_ok(server_open(&s, job_list, 0, &e));
    path = strstr(server_url(s), "/?token=");
    assert_int_equal(sscanf(server_url(s), "http://127.0.0.1:%d", &port), 1);
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(port);
        send(fds[i], half, sizeof half - 1, MSG_NOSIGNAL); /* the first ones end meanwhile */
    }
    assert_true(recv(fds[0], &(char){0}, 1, 0) <= 0); /* reset, if its half head was not read */
    fd = connect_to(port);
    assert_int_equal(ask(fd, path), 200);
    close(fd);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    job_list_close(job_list);
    server_close(s);
    job_list_free(job_list);
}

/* What came to these bytes until the server closed. */
static size_t answers_to(char *out, size_t size, int port, const char *bytes, size_t len)
{
    size_t n = 0;
    ssize_t k;
    int fd = connect_to(port);

    send(fd, bytes, len, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR); /* what is incomplete stays so */
    while (n < size - 1 && (k = recv(fd, out + n, size - 1 - n, 0)) > 0)
        n += (size_t)k;
    out[n] = '\0';
    close(fd);
    return n;
}

static int status_of(int port, const char *bytes, size_t len)
{
    static char text[1 << 20];
    size_t n = answers_to(text, sizeof text, port, bytes, len);

    return n > 12 ? atoi(text + 9) : 0;
}

/* A server whose page a browser has opened. */
struct opened {
    struct job_list *job_list;
    struct server *server;
    int port;
    char cookie[512];
};

static void open_page(struct opened *o)
{
    char head[512], text[4096];
    struct err e;
    int n;

    *o = (struct opened){.job_list = job_list_new()};
    assert_ok(server_open(&o->server, o->job_list, 0, &e));
    assert_int_equal(sscanf(server_url(o->server), "http://127.0.0.1:%d", &o->port), 1);
    n = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                 strstr(server_url(o->server), "/?token="));
    answers_to(text, sizeof text, o->port, head, (size_t)n);
    assert_non_null(strstr(text, "Set-Cookie: "));
    assert_int_equal(sscanf(strstr(text, "Set-Cookie: "), "Set-Cookie: %300[^;]", o->cookie), 1);
}

static void close_page(struct opened *o)
{
    job_list_close(o->job_list);
    server_close(o->server);
    job_list_free(o->job_list);
}

TEST(raw_heads_are_answered_as_the_agent_answers_them)
{
    static char bytes[HEAD_MAX + 16];
    struct opened o;

    open_page(&o);
    for (size_t i = 0; i < N_OF(raw_heads); i++) {
        size_t len = request_fill(bytes, sizeof bytes, raw_heads[i].bytes, raw_heads[i].len, o.cookie);
        int status = status_of(o.port, bytes, len);

        if (status != raw_heads[i].status)
            fail_msg("\"%.*s\": %d, not %d", (int)len, bytes, status, raw_heads[i].status);
    }
    for (size_t more = 0; more < 2; more++)
        assert_int_equal(status_of(o.port, bytes, raw_head_of_length(bytes, HEAD_MAX + more, o.cookie)),
                         more ? 400 : 200);
    for (int n = 64; n <= 65; n++)
        assert_int_equal(status_of(o.port, bytes, raw_head_of_headers(bytes, sizeof bytes, n, o.cookie)),
                         n > 64 ? 400 : 200);
    close_page(&o);
}

TEST(a_request_behind_one_that_is_refused_is_not_read)
{
    static const struct {
        const char *headers, *body, *answer;
    } cases[] = {
        {"Cookie: psgd=1\r\n", "", "400"},
        {"Content-Length: 34\r\n", "GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "413"},
        {"Content-Length: 5\r\n", "helloGET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "413"},
        {"Transfer-Encoding: chunked\r\n", "0\r\n\r\nGET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
        {"X : y\r\n", "GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
    };
    static char bytes[2048], text[1 << 16];
    struct opened o;

    open_page(&o);
    for (size_t i = 0; i < N_OF(cases); i++) {
        int n = snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %s\r\n%s\r\n%s",
                         o.cookie, cases[i].headers, cases[i].body);

        answers_to(text, sizeof text, o.port, bytes, (size_t)n);
        assert_memory_equal(text + 9, cases[i].answer, 3);
        assert_null(strstr(text + 9, "HTTP/1.1 "));
    }
    close_page(&o);
}

TEST(an_address_whose_percent_signs_have_no_meaning_is_refused)
{
    static const struct {
        const char *target;
        int status;
    } cases[] = {
        {"/%00", 400},
        {"/api/jobs%00x", 400},
        {"/%", 400},
        {"/%4", 400},
        {"/%zz", 400},
        {"/?a=%00", 400},
        {"/?%00=a", 400},
        {"/%61pi/jobs", 200},
        {"/api/%", 400},
        {"/?a=1&b&c=%41+", 200},
        {"/?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a", 400},
    };
    static char bytes[2048];
    struct opened o;

    open_page(&o);
    for (size_t i = 0; i < N_OF(cases); i++) {
        int n = snprintf(bytes, sizeof bytes, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %s\r\n\r\n",
                         cases[i].target, o.cookie);
        int status = status_of(o.port, bytes, (size_t)n);

        if (status != cases[i].status)
            fail_msg("%s: %d, not %d", cases[i].target, status, cases[i].status);
    }
    close_page(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_without_a_cookie_do_not_block_those_with_one),
        cmocka_unit_test(raw_heads_are_answered_as_the_agent_answers_them),
        cmocka_unit_test(a_request_behind_one_that_is_refused_is_not_read),
        cmocka_unit_test(an_address_whose_percent_signs_have_no_meaning_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
