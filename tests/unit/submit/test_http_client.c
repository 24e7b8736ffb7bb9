/* The HTTP client against malicious servers: each is a child process that answers one connection. */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "submit/net/http_client.h"
#include "tests/unit/unit.h"

struct server {
    pid_t pid;
    int port;
};

static struct err e;

static void put(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        _exit(0);
}

static void read_request(int fd)
{
    char text[4096];
    size_t n = 0;
    ssize_t k;

    while (n < sizeof text - 1 && (k = read(fd, text + n, sizeof text - 1 - n)) > 0) {
        n += (size_t)k;
        text[n] = '\0';
        if (strstr(text, "\r\n\r\n"))
            return;
    }
}

static int listen_here(int *port, int type, int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int s = socket(AF_INET, type, 0);

    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s, backlog), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return s;
}

static struct server serve(void (*answer)(int fd))
{
    struct server server;
    int s = listen_here(&server.port, SOCK_STREAM, 4);

    server.pid = fork();
    if (server.pid == 0) {
        int fd = accept(s, NULL, NULL);

        alarm(300);
        read_request(fd);
        answer(fd);
        _exit(0);
    }
    close(s);
    return server;
}

static void stop(const struct server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}

static struct http_request ask(int port, double timeout_s)
{
    struct http_request r = {
        .method = "GET", .peer = "agent x", .max_reply = 1000, .timeout_s = timeout_s, .is_local = true};

    snprintf(r.url, sizeof r.url, "http://127.0.0.1:%d/v1/agent", port);
    return r;
}

static void run(struct http *h, struct http_request *r)
{
    assert_ok(http_start(h, r, &e));
    while (r->busy)
        http_poll(h, 1);
}

/* One GET; the answer stays in *r until http_clear. */
static void get(struct http **h, struct http_request *r, void (*answer)(int fd), double timeout_s)
{
    struct server s = serve(answer);

    *h = http_new(&e);
    *r = ask(s.port, timeout_s);
    run(*h, r);
    stop(&s);
}

static void end(struct http *h, struct http_request *r)
{
    http_clear(h, r);
    http_free(h);
}

static void reply_ok(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static void reply_without_end(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\n\r\n");
    for (;;)
        put(fd, "0123456789012345678901234567890123456789");
}

static void head_without_end(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\n");
    for (;;)
        put(fd, "X-More: 0123456789012345678901234567890123456789\r\n");
}

static void continue_without_end(int fd)
{
    for (;;)
        put(fd, "HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n");
}

static void redirect(int fd)
{
    put(fd, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/elsewhere\r\nContent-Length: 0\r\n\r\n");
}

static void encode_nothing(int fd)
{
    (void)fd;
    pause();
}

static void drip(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"); /* half a day */
    for (;;) {
        put(fd, "x");
        usleep(50000);
    }
}

static void reply_no_http(int fd)
{
    put(fd, "SSH-2.0-OpenSSH_9.2\r\n");
}

static void close_at_once(int fd)
{
    close(fd);
}

static void reply_compressed(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bxx");
}

TEST(a_response_is_parsed)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, reply_ok, 60);
    assert_int_equal(r.err.code, 0);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.reply, "ok");
    end(h, &r);
}

TEST(an_endless_response_is_cut_at_its_limit)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, reply_without_end, 60);
    assert_int_equal(r.err.code, ERR_PROTOCOL);
    assert_true(r.reply_len <= 1000);
    end(h, &r);
}

TEST(endless_headers_and_informational_responses_are_cut)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, head_without_end, 60);
    assert_true(r.err.code < 0);
    end(h, &r);
    get(&h, &r, continue_without_end, 60);
    assert_true(r.err.code < 0);
    end(h, &r);
}

TEST(a_redirection_is_not_followed)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, redirect, 60);
    assert_int_equal(r.err.code, 0);
    assert_int_equal(r.status, 302);
    end(h, &r);
}

TEST(silence_and_slow_bytes_end_at_the_timeout)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, encode_nothing, 0.3);
    assert_int_equal(r.err.code, ERR_UNREACHABLE);
    end(h, &r);
    get(&h, &r, drip, 0.3);
    assert_int_equal(r.err.code, ERR_UNREACHABLE);
    assert_int_equal(strncmp(r.err.text, "agent x does not answer (", 25), 0);
    end(h, &r);
}

TEST(bytes_that_are_not_http_are_reported_as_such)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, reply_no_http, 60);
    assert_true(r.err.code == ERR_PROTOCOL || r.err.code == ERR_UNREACHABLE);
    end(h, &r);
    get(&h, &r, close_at_once, 60);
    assert_int_equal(r.err.code, ERR_UNREACHABLE);
    end(h, &r);
}

TEST(responses_are_not_decompressed)
{
    struct http_request r;
    struct http *h;

    get(&h, &r, reply_compressed, 60);
    assert_int_equal(r.reply_len, 4);
    assert_memory_equal(r.reply, "\x1f\x8bxx", 4);
    end(h, &r);
}

TEST(an_unreachable_agent_is_reported_with_the_system_error)
{
    struct server s = serve(reply_ok);
    struct http_request r = ask(s.port, 5);
    struct http *h = http_new(&e);

    stop(&s);
    run(h, &r);
    assert_int_equal(r.err.code, ERR_UNREACHABLE);
    assert_string_equal(r.err.text, "agent x does not answer (Connection refused)");
    end(h, &r);
}

static void console_lines(int fd)
{
    put(fd, "HTTP/1.1 200 OK\r\n\r\none\n\ntw");
    put(fd, "o\n");
    for (int i = 0; i < HTTP_LINE / 64 + 2; i++)
        put(fd, "0123456789012345678901234567890123456789012345678901234567890123");
    put(fd, "\nthree\nhalf");
}

static void collect_line(void *arg, const char *line, size_t len)
{
    assert_int_equal(strlen(line), len);
    strcat(arg, line);
    strcat(arg, "|");
}

TEST(lines_arrive_whole_and_overlong_ones_not_at_all)
{
    struct server s = serve(console_lines);
    char lines[256] = "";
    struct http_request r = ask(s.port, 0);
    struct http *h = http_new(&e);

    r.on_line = collect_line;
    r.arg = lines;
    run(h, &r);
    stop(&s);
    assert_string_equal(lines, "one|two|three|");
    end(h, &r);
}

enum { SERVERS = 12, ROUNDS = 3 };

/* A child that acts as servers which keep their connections; each answers how many all have accepted. */
static pid_t serve_many(int ports[SERVERS])
{
    struct pollfd fds[SERVERS + SERVERS * ROUNDS] = {{0}};
    nfds_t n = SERVERS;
    pid_t pid;

    for (int i = 0; i < SERVERS; i++)
        fds[i] = (struct pollfd){.fd = listen_here(&ports[i], SOCK_STREAM, 4), .events = POLLIN};
    pid = fork();
    for (int i = 0; i < SERVERS && pid != 0; i++)
        close(fds[i].fd);
    if (pid != 0)
        return pid;
    alarm(300);
    while (poll(fds, n, -1) > 0) {
        for (nfds_t i = SERVERS; i < n; i++) {
            char text[4096], answer[64];

            if (!fds[i].revents)
                continue;
            if (read(fds[i].fd, text, sizeof text) <= 0) {
                fds[i].fd = -1; /* poll ignores it */
                continue;
            }
            snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n%04d",
                     (int)n - SERVERS);
            put(fds[i].fd, answer);
        }
        for (nfds_t i = 0; i < SERVERS; i++)
            if (fds[i].revents)
                fds[n++] = (struct pollfd){.fd = accept(fds[i].fd, NULL, NULL), .events = POLLIN};
    }
    _exit(0);
}

TEST(connections_to_many_servers_are_kept_between_requests)
{
    int ports[SERVERS];
    pid_t servers = serve_many(ports);
    struct http *h = http_new(&e);

    for (int i = 0; i < SERVERS * ROUNDS; i++) {
        struct http_request r = ask(ports[i % SERVERS], 60);

        run(h, &r);
        assert_int_equal(r.status, 200);
        if (i + 1 == SERVERS * ROUNDS)
            assert_int_equal(atoi(r.reply), SERVERS);
        http_clear(h, &r);
    }
    kill(servers, SIGKILL);
    waitpid(servers, NULL, 0);
    http_free(h);
}

enum { MANY = 40, OPENED_AT_ONCE = 32 };

/* A server that accepts connections, and never answers their TLS handshakes. */
struct silent_server {
    int fd, port, taken[MANY], n_taken;
};

static void accept_all(struct silent_server *s)
{
    while (s->n_taken < MANY && (s->taken[s->n_taken] = accept(s->fd, NULL, NULL)) >= 0)
        s->n_taken++;
}

static int count_busy(const struct http_request r[MANY])
{
    int n = 0;

    for (int i = 0; i < MANY; i++)
        n += r[i].busy;
    return n;
}

/* Polls until so many connections have arrived; never more than may be opened at once, with the ended
 * ones. */
static void await_connections(struct http *h, const struct http_request r[MANY], struct silent_server *s,
                              int n)
{
    while (s->n_taken < n) {
        http_poll(h, 0.01);
        accept_all(s);
        assert_true(s->n_taken <= OPENED_AT_ONCE + MANY - count_busy(r));
    }
}

TEST(few_connections_are_opened_at_once_and_others_follow_as_these_end)
{
    struct silent_server s = {0};
    struct http_request r[MANY];
    struct http *h = http_new(&e);

    s.fd = listen_here(&s.port, SOCK_STREAM | SOCK_NONBLOCK, MANY);
    for (int i = 0; i < MANY; i++) {
        r[i] = ask(s.port, 60);
        r[i].is_unproven = true;
        snprintf(r[i].url, sizeof r[i].url, "https://127.0.0.1:%d/v1/agent", s.port);
        assert_ok(http_start(h, &r[i], &e));
    }
    await_connections(h, r, &s, OPENED_AT_ONCE);
    for (int i = 0; i < OPENED_AT_ONCE; i++)
        close(s.taken[i]);
    await_connections(h, r, &s, MANY);
    for (int i = OPENED_AT_ONCE; i < MANY; i++)
        close(s.taken[i]);
    close(s.fd);
    for (int i = 0; i < MANY; i++)
        http_clear(h, &r[i]);
    http_free(h);
}

TEST(the_time_in_which_nothing_was_polled_hardly_counts_as_waiting)
{
    struct server s = serve(encode_nothing);
    struct http_request r = ask(s.port, 60);
    struct http *h = http_new(&e);
    double before;

    assert_ok(http_start(h, &r, &e));
    assert_true(http_waited(h, &r) <= 0);
    while (http_waited(h, &r) < 0.1)
        http_poll(h, 0.1);
    before = http_waited(h, &r);
    usleep(900000);
    http_poll(h, 0);
    assert_true(http_waited(h, &r) - before < 0.6);
    stop(&s);
    end(h, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_is_parsed),
        cmocka_unit_test(an_endless_response_is_cut_at_its_limit),
        cmocka_unit_test(endless_headers_and_informational_responses_are_cut),
        cmocka_unit_test(a_redirection_is_not_followed),
        cmocka_unit_test(silence_and_slow_bytes_end_at_the_timeout),
        cmocka_unit_test(bytes_that_are_not_http_are_reported_as_such),
        cmocka_unit_test(responses_are_not_decompressed),
        cmocka_unit_test(an_unreachable_agent_is_reported_with_the_system_error),
        cmocka_unit_test(lines_arrive_whole_and_overlong_ones_not_at_all),
        cmocka_unit_test(connections_to_many_servers_are_kept_between_requests),
        cmocka_unit_test(few_connections_are_opened_at_once_and_others_follow_as_these_end),
        cmocka_unit_test(the_time_in_which_nothing_was_polled_hardly_counts_as_waiting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
