/* Many connections at the agent's port: which of them are closed, and that a client with a token is served.
 * Times are not waited for: a test makes them pass. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/api/api.h"
#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

enum { MANY = UNAUTHENTICATED_PER_SOURCE + 6, OTHER_USER = 65534 };

static struct reply r;

static const struct conns *conns(const struct fixture *f)
{
    return &f->server->http->conns;
}

/* A connection to the agent, from 127.1.x.y or, with n = 0, from 127.0.0.1. */
static int idle(const struct fixture *f, unsigned n)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f010000 + n)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (n > 0)
        assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&f->at, f->at_len), 0);
    return fd;
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static void turn_until(struct fixture *f, unsigned n_unauthenticated)
{
    double until = clock_now() + UNIT_WAIT_S;

    while (conns(f)->unauthenticated.n != n_unauthenticated) {
        if (clock_now() > until)
            fail_msg("%u unauthenticated connections, not %u", conns(f)->unauthenticated.n,
                     n_unauthenticated);
        fixture_turn(f);
    }
}

static void turn_until_closed(struct fixture *f, int fd)
{
    double until = clock_now() + UNIT_WAIT_S;

    while (is_open(fd)) {
        assert_true(clock_now() < until);
        fixture_turn(f);
    }
}

TEST(one_connection_too_many_from_an_address_ends_the_oldest_of_those_without_a_token)
{
    static struct client owner;
    struct stderr_catch caught;
    struct fixture f = {0};
    int fds[MANY];

    fixture_open(&f);
    client_open(&owner, &f);
    client_get(&owner, &f, "/v1/agent", "");
    client_expect(&owner, &f, "\"version\"");
    assert_int_equal(conns(&f)->authenticated.n, 1);
    stderr_catch_begin(&caught);
    for (unsigned i = 0; i < MANY; i++)
        fds[i] = idle(&f, 0);
    turn_until_closed(&f, fds[MANY - UNAUTHENTICATED_PER_SOURCE - 1]);
    stderr_catch_end(&caught);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(is_open(fds[i]), i >= MANY - UNAUTHENTICATED_PER_SOURCE);
    assert_int_equal(conns(&f)->unauthenticated.n, UNAUTHENTICATED_PER_SOURCE);
    assert_non_null(strstr(caught.text, "a connection from 127.0.0.1 is closed"));
    /* A client that comes now is served, and so is one that was authenticated. */
    assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    owner.n = 0;
    client_get(&owner, &f, "/v1/agent", "");
    client_expect(&owner, &f, "\"version\"");
    client_close(&owner);
    for (unsigned i = 0; i < MANY; i++)
        close(fds[i]);
    turn_until(&f, 0);
    fixture_close(&f);
}

/* Opens connections as another user, and holds them until `go` is closed. */
static pid_t other_user(const struct fixture *f, int n, int ready, const int go[2])
{
    pid_t pid = fork();
    char c;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    close(go[1]);
    if (setgroups(0, NULL) < 0 || setresgid(OTHER_USER, OTHER_USER, OTHER_USER) < 0 ||
        setresuid(OTHER_USER, OTHER_USER, OTHER_USER) < 0)
        _exit(EXIT_FAILURE);
    for (int i = 0; i < n; i++)
        idle(f, 0);
    if (write(ready, "r", 1) == 1 && read(go[0], &c, 1) >= 0)
        _exit(EXIT_SUCCESS);
    _exit(EXIT_FAILURE);
}

TEST(too_many_connections_of_another_user_of_this_machine_end_only_his)
{
    struct fixture f = {0};
    int ready[2], go[2], mine[16], status;
    pid_t pid;
    char c;

    if (getuid() != 0) /* to be another user needs root */
        skip();
    fixture_open(&f);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    for (size_t i = 0; i < N_OF(mine); i++)
        mine[i] = idle(&f, 0);
    pid = other_user(&f, 3 * UNAUTHENTICATED_PER_SOURCE, ready[1], go);
    assert_int_equal(read(ready[0], &c, 1), 1);
    turn_until(&f, UNAUTHENTICATED_PER_SOURCE);
    for (int i = 0; i < 20; i++)
        fixture_turn(&f);
    assert_int_equal(conns(&f)->unauthenticated.n, UNAUTHENTICATED_PER_SOURCE);
    for (size_t i = 0; i < N_OF(mine); i++) {
        assert_true(is_open(mine[i]));
        close(mine[i]);
    }
    assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    close(go[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
    fixture_close(&f);
}

TEST(connections_from_as_many_addresses_leave_the_reserved_places)
{
    enum { MANY_MORE = UNAUTHENTICATED_MAX + 100 };
    struct rlimit files, more;
    struct fixture f = {0};
    static int fds[MANY_MORE];

    getrlimit(RLIMIT_NOFILE, &files);
    more = files;
    more.rlim_cur = 4 * CONNECTIONS_MAX;
    if (files.rlim_cur < more.rlim_cur &&
        (files.rlim_max < more.rlim_cur || setrlimit(RLIMIT_NOFILE, &more) < 0))
        skip();
    fixture_open(&f);
    for (unsigned i = 0; i < MANY_MORE; i++) {
        fds[i] = idle(&f, i + 1);
        if (i % 64 == 0)
            fixture_turn(&f);
    }
    turn_until_closed(&f, fds[MANY_MORE - UNAUTHENTICATED_MAX - 1]);
    assert_int_equal(conns(&f)->unauthenticated.n, UNAUTHENTICATED_MAX);
    assert_true(is_open(fds[MANY_MORE - UNAUTHENTICATED_MAX]));
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    for (unsigned i = 0; i < MANY_MORE; i++)
        close(fds[i]);
    fixture_close(&f);
    setrlimit(RLIMIT_NOFILE, &files);
}

static rlim_t first_free_descriptor(void)
{
    int fd = dup(STDIN_FILENO);

    close(fd);
    return (rlim_t)fd;
}

TEST(an_agent_without_a_free_descriptor_ends_an_unauthenticated_connection_and_goes_on_accepting)
{
    struct rlimit files, none;
    struct fixture f = {0};
    int idle_client, a, b;

    getrlimit(RLIMIT_NOFILE, &files);
    fixture_open(&f);
    idle_client = idle(&f, 0);
    turn_until(&f, 1);
    a = idle(&f, 0);
    b = idle(&f, 0);
    none = (struct rlimit){first_free_descriptor(), files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    turn_until_closed(&f, idle_client); /* its descriptor is a's, and then b's */
    for (int i = 0; i < 20; i++)
        fixture_turn(&f);
    assert_int_equal(conns(&f)->unauthenticated.n, 1);
    conn_mark_authenticated(conns(&f)->unauthenticated.first);
    close(a); /* noticed later than the next connection, which finds no descriptor and nothing to evict */
    close(b);
    a = idle(&f, 0);
    setrlimit(RLIMIT_NOFILE, &files);
    assert_int_equal(ask(&f, &r, "GET", "/v1/agent", NULL), 200);
    close(a);
    close(idle_client);
    fixture_close(&f);
}

TEST(half_a_TLS_handshake_costs_nothing_and_ends_at_its_deadline)
{
    static const char hello[] = "\026\003\001\002\000\001\000\001\374\003\003";
    struct fixture f = {.opt.tls = true};
    struct epoll_event ev;
    int fds[3];

    fixture_open(&f);
    for (size_t i = 0; i < N_OF(fds); i++) {
        fds[i] = idle(&f, 0);
        assert_int_equal(send(fds[i], hello, sizeof hello - 1, 0), sizeof hello - 1);
    }
    turn_until(&f, N_OF(fds));
    for (int i = 0; i < 20; i++)
        fixture_turn(&f);
    assert_int_equal(epoll_wait(f.agent.loop.epoll_fd, &ev, 1, 0), 0);
    assert_true(http_server_max_wait(f.server->http) >= 1);
    conns_tick(&f.server->http->conns, clock_now() + 9);
    assert_int_equal(conns(&f)->unauthenticated.n, N_OF(fds));
    conns_tick(&f.server->http->conns, clock_now() + 11);
    assert_int_equal(conns(&f)->unauthenticated.n, 0);
    for (size_t i = 0; i < N_OF(fds); i++)
        close(fds[i]);
    fixture_close(&f);
}

TEST(a_byte_a_second_does_not_keep_a_connection_beyond_its_deadline)
{
    static struct client c;
    struct fixture f = {0};
    double begun = clock_now();

    fixture_open(&f);
    client_open(&c, &f);
    turn_until(&f, 1);
    for (int s = 1; s <= 9; s++) {
        client_send(&c, &"GET /heal"[s - 1], 1);
        fixture_turn(&f);
        conns_tick(&f.server->http->conns, begun + s);
        assert_int_equal(conns(&f)->unauthenticated.n, 1);
    }
    conns_tick(&f.server->http->conns, clock_now() + 10);
    assert_int_equal(conns(&f)->unauthenticated.n, 0);
    client_close(&c);
    fixture_close(&f);
}

static int try_token(struct fixture *f, const char *token)
{
    char header[128];

    snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    return ask_bytes(f, &r, "GET", "/v1/agent", header, NULL, 0);
}

TEST(wrong_tokens_are_slowed_after_ten_and_the_right_one_is_not)
{
    struct stderr_catch caught;
    struct fixture f = {0};
    double begun = clock_now();
    int n_lines = 0;

    fixture_open(&f);
    stderr_catch_begin(&caught);
    for (int i = 0; i < FAILURES_FREE; i++)
        assert_int_equal(try_token(&f, "wrong"), 401);
    assert_int_equal(try_token(&f, "wrong"), 429);
    stderr_catch_end(&caught);
    assert_true(reply_has(&r, "code", "SLOWED_DOWN"));
    assert_non_null(strstr(r.text, "Retry-After: 15") ? "" : strstr(r.text, "Retry-After: 14"));
    assert_int_equal(try_token(&f, f.token), 200);
    assert_int_equal(try_token(&f, "wrong"), 429);
    assert_int_equal(ask_bytes(&f, &r, "GET", "/v1/agent", "", NULL, 0), 401); /* no attempt at all */
    for (const char *at = caught.text; (at = strstr(at, "refused: the token")) != NULL; at++)
        n_lines++;
    assert_in_range(n_lines, 1, 2 + (int)(clock_now() - begun));
    fixture_close(&f);
}

TEST(announced_uploads_count_before_their_bytes_come)
{
    static const char head[] =
        "PUT /v1/blobs/sha256/%064d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n";
    static struct client c[3];
    struct fixture f = {0};
    unsigned long long room, blob;
    char text[512];

    fixture_open(&f);
    /* As much as fits twice and not three times, whatever other programs write meanwhile. */
    room = jobs_disk_free(&f.agent.jobs) / 2;
    room = room < BLOB_BODY ? room : BLOB_BODY;
    blob = room / 5 * 2;
    f.agent.jobs.blobs.announced = jobs_disk_free(&f.agent.jobs) - room;
    for (int i = 0; i < 3; i++) {
        client_open(&c[i], &f);
        client_send(&c[i], text, (size_t)snprintf(text, sizeof text, head, i, f.token, blob));
        if (i == 2)
            client_expect(&c[i], &f, "HTTP/1.1 507 ");
        else
            for (int k = 0; k < 5; k++)
                fixture_turn(&f);
    }
    client_close(&c[0]); /* its part is free again */
    client_close(&c[2]);
    while (f.server->http->n_calls > 1)
        fixture_turn(&f);
    client_open(&c[0], &f);
    client_send(&c[0], text, (size_t)snprintf(text, sizeof text, head, 4, f.token, blob));
    while (f.server->http->n_calls < 2)
        fixture_turn(&f);
    assert_true(client_receives_nothing(&c[0]));
    assert_true(client_receives_nothing(&c[1]));
    client_close(&c[0]);
    client_close(&c[1]);
    fixture_close(&f);
}

TEST(bodies_in_memory_are_bounded_in_sum)
{
    struct fixture f = {0};

    fixture_open(&f);
    f.server->body_bytes = (64 << 20) - 1;
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs", "[]"), 503);
    assert_true(reply_has(&r, "code", "OVERLOADED"));
    assert_int_equal(f.server->body_bytes, (64 << 20) - 1);
    f.server->body_bytes = 0;
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs", "[]"), 422);
    assert_int_equal(f.server->body_bytes, 0);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_too_many_from_an_address_ends_the_oldest_of_those_without_a_token),
        cmocka_unit_test(too_many_connections_of_another_user_of_this_machine_end_only_his),
        cmocka_unit_test(connections_from_as_many_addresses_leave_the_reserved_places),
        cmocka_unit_test(
            an_agent_without_a_free_descriptor_ends_an_unauthenticated_connection_and_goes_on_accepting),
        cmocka_unit_test(half_a_TLS_handshake_costs_nothing_and_ends_at_its_deadline),
        cmocka_unit_test(a_byte_a_second_does_not_keep_a_connection_beyond_its_deadline),
        cmocka_unit_test(wrong_tokens_are_slowed_after_ten_and_the_right_one_is_not),
        cmocka_unit_test(announced_uploads_count_before_their_bytes_come),
        cmocka_unit_test(bodies_in_memory_are_bounded_in_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
