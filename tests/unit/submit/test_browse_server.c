#include "submit/browse/server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "submit/browse/strangers.h"
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

TEST(connections_that_show_no_cookie_keep_nobody_out)
{
    enum { MANY = 2 * STRANGERS };
    static const char half[] = "GET / HTTP/1.1\r\nHost: 127";
    struct shelf *shelf = shelf_new();
    struct server *s;
    const char *path;
    int fds[MANY];
    struct err e;
    int port;
    int fd;

    assert_ok(server_open(&s, shelf, 0, &e));
    path = strstr(server_url(s), "/?token=");
    assert_int_equal(sscanf(server_url(s), "http://127.0.0.1:%d", &port), 1);
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(port);
        send(fds[i], half, sizeof half - 1, MSG_NOSIGNAL); /* the first ones end meanwhile */
    }
    assert_int_equal(recv(fds[0], &(char){0}, 1, 0), 0);
    fd = connect_to(port);
    assert_int_equal(ask(fd, path), 200);
    close(fd);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    shelf_close(shelf);
    server_close(s);
    shelf_free(shelf);
}

/* The answers' statuses to these bytes, one after the other: "403" or "200 200". */
static void ask_raw(char *statuses, int port, const char *bytes, size_t len)
{
    char text[16384];
    size_t n = 0;
    ssize_t k;
    int fd = connect_to(port);

    *statuses = '\0';
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
    shutdown(fd, SHUT_WR);
    while (n < sizeof text - 1 && (k = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0)
        n += (size_t)k;
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")) != NULL; at += 9)
        statuses += sprintf(statuses, "%s%.3s", statuses[0] || at > text ? " " : "", at + 9);
    close(fd);
}

TEST(a_request_that_two_readers_may_read_differently_is_refused)
{
    static const struct {
        const char *headers, *body, *answers;
    } cases[] = {
        {"Host: 127.0.0.1\r\n", "", "200"},
        {"Host: 127.0.0.1\r\nHost: evil.example\r\n", "", "403"},
        {"Host: evil.example\r\nHost: 127.0.0.1\r\n", "", "403"},
        {"Host: 127.0.0.1\r\nCookie: psgd=1\r\n", "", "403"},
        {"Host: 127.0.0.1\r\nContent-Length: 0\r\n", "", "200"},
        {"Host: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
         "0\r\n\r\nGET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "403"},
        {"Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n",
         "0\r\n\r\nGET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "403"},
        {"Host: 127.0.0.1\r\nContent-Length: 42\r\n", "GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n.......",
         "403"},
        {"Host: 127.0.0.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n", "", "403"},
    };
    struct shelf *shelf = shelf_new();
    char cookie[512] = "", text[4096], answers[64];
    struct server *s;
    struct err e;
    int port, fd;
    ssize_t n;

    assert_ok(server_open(&s, shelf, 0, &e));
    assert_int_equal(sscanf(server_url(s), "http://127.0.0.1:%d", &port), 1);
    fd = connect_to(port);
    n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                 strstr(server_url(s), "/?token="));
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
    n = recv(fd, text, sizeof text - 1, MSG_WAITALL);
    text[n > 0 ? n : 0] = '\0';
    assert_int_equal(sscanf(strstr(text, "Set-Cookie: "), "Set-Cookie: %300[^;]", cookie), 1);
    close(fd);
    for (size_t i = 0; i < N_OF(cases); i++) {
        n = snprintf(text, sizeof text, "HEAD / HTTP/1.1\r\nCookie: %s\r\n%s\r\n%s", cookie, cases[i].headers,
                     cases[i].body);
        ask_raw(answers, port, text, (size_t)n);
        assert_string_equal(answers, cases[i].answers);
    }
    shelf_close(shelf);
    server_close(s);
    shelf_free(shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_that_show_no_cookie_keep_nobody_out),
        cmocka_unit_test(a_request_that_two_readers_may_read_differently_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
