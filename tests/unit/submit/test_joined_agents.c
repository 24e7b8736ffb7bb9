#include "submit/net/joined_agents.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/access/identity.h"
#include "shared/http/tls_session.h"
#include "tests/unit/unit.h"

static struct err e;

static struct joined_agent some(char pin, const char *address, const char *token)
{
    struct joined_agent a = {.agent = "a-1"};

    memset(a.pin, pin, BASE64_TEXT - 1);
    snprintf(a.address, sizeof a.address, "%s", address);
    snprintf(a.token, sizeof a.token, "%s", token);
    return a;
}

TEST(a_joined_agent_is_found_by_its_address)
{
    const char *folder = unit_folder();
    struct joined_agent a = some('a', "here:1", "one"), b = some('b', "[::1]:2", "two"), found;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_int_equal(joined_agents_find(&found, "here:1", &e), ERR_NOT_FOUND);
    assert_ok(joined_agents_save(&a, &e));
    assert_ok(joined_agents_save(&b, &e));
    assert_ok(joined_agents_find(&found, "here:1", &e));
    assert_string_equal(found.token, "one");
    assert_ok(joined_agents_find(&found, "[::1]:2", &e));
    assert_string_equal(found.pin, b.pin);
    assert_int_equal(joined_agents_find(&found, "here:2", &e), ERR_NOT_FOUND);
    unit_remove(folder);
}

TEST(a_new_agent_at_an_address_replaces_the_former_one)
{
    const char *folder = unit_folder();
    struct joined_agent a = some('a', "here:1", "one"), b = some('b', "here:1", "two"), found;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(joined_agents_save(&a, &e));
    assert_ok(joined_agents_save(&b, &e));
    assert_ok(joined_agents_find(&found, "here:1", &e));
    assert_string_equal(found.token, "two");
    /* The same agent at another address, too. */
    snprintf(b.address, sizeof b.address, "there:1");
    assert_ok(joined_agents_save(&b, &e));
    assert_ok(joined_agents_find(&found, "here:1", &e));
    assert_ok(joined_agents_find(&found, "there:1", &e));
    assert_string_equal(found.pin, b.pin);
    unit_remove(folder);
}

TEST(files_that_others_can_read_and_damaged_ones_are_refused)
{
    const char *folder = unit_folder();
    struct joined_agent a = some('a', "here:1", "one"), found;
    char path[PATH_MAX], name[BASE64_TEXT];
    uint8_t digest[SHA256_BYTES];

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(joined_agents_save(&a, &e));
    sha256(digest, a.address, strlen(a.address));
    base64url(name, digest);
    snprintf(path, sizeof path, "%s/psgd/joined/%s.json", folder, name);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(joined_agents_find(&found, "here:1", &e), ERR_AUTH);
    assert_error_has("can be read by others");
    assert_ok(file_write(path, "{}", 2, 0600, &e));
    assert_int_equal(joined_agents_find(&found, "here:1", &e), ERR_CONFIG);
    assert_error_has(path);
    assert_int_equal(joined_agents_find(&found, "there:1", &e), ERR_NOT_FOUND); /* others are not affected */
    unit_remove(folder);
}

TEST(joined_agents_are_listed_by_address_and_each_can_be_removed)
{
    const char *folder = unit_folder();
    struct joined_agent a = some('a', "b:1", "one"), b = some('b', "a:1", "two"), found;
    struct joined_agents l;
    char path[PATH_MAX];

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(joined_agents_read(&l, &e));
    assert_int_equal(l.n, 0);
    a.joined_at = 1e9;
    assert_ok(joined_agents_save(&a, &e));
    assert_ok(joined_agents_save(&b, &e));
    snprintf(path, sizeof path, "%s/psgd/joined/damaged.json", folder);
    assert_ok(file_write(path, "{}", 2, 0600, &e));
    assert_ok(joined_agents_read(&l, &e));
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[0].address, "a:1");
    assert_true(l.items[0].joined_at == 0);
    assert_true(l.items[1].joined_at == 1e9);
    assert_int_equal(l.bad.code, ERR_CONFIG);
    joined_agents_clear(&l);
    assert_ok(joined_agents_remove("a:1", &e));
    assert_int_equal(joined_agents_remove("a:1", &e), ERR_NOT_FOUND);
    assert_int_equal(joined_agents_find(&found, "a:1", &e), ERR_NOT_FOUND);
    assert_ok(joined_agents_find(&found, "b:1", &e));
    unit_remove(folder);
}

/* Agents at other addresses than those where they were joined: child processes with TLS keys of their own. */
enum { N = 7 };

static struct identity ids[N + 1]; /* the last one is nobody's that was joined */
static struct joined_agent joined[N];

struct server {
    pid_t pid;
    int fd;     /* listening */
    int report; /* 'h' for each handshake, 'b' for one that is followed by a byte, 'x' for a silent client */
    struct sockaddr_in at;
    char address[32];
};

static char serve_one(int client, const struct tls_keys *keys)
{
    struct tls_session *t = tls_session_new(keys, client);
    struct pollfd p = {.fd = client, .events = POLLIN};
    ssize_t n = -1;
    char byte;
    int rc;

    poll(&p, 1, -1);
    if (recv(client, &byte, 1, MSG_PEEK) == 0)
        return 'x';
    while ((rc = tls_session_handshake(t)) == 0)
        poll(&p, 1, -1);
    while (rc > 0 && (n = tls_session_recv(t, &byte, 1)) < 0 && errno == EAGAIN)
        poll(&p, 1, -1);
    tls_session_free(t);
    return n > 0 ? 'b' : 'h';
}

static void serve(int fd, int report, const struct identity *id)
{
    struct tls_keys *keys;

    if (tls_keys_new(&keys, id->key, id->certificate, id->client_ca, &e) < 0)
        _exit(1);
    for (;;) {
        int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK);
        char what = serve_one(client, keys);

        close(client);
        if (write(report, &what, 1) != 1)
            _exit(1);
    }
}

/* NULL: it listens and is silent. */
static struct server start(const struct identity *id)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    struct server s = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    int ends[2];

    assert_int_equal(bind(s.fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s.fd, 16), 0);
    assert_int_equal(getsockname(s.fd, (struct sockaddr *)&a, &len), 0);
    s.at = a;
    snprintf(s.address, sizeof s.address, "127.0.0.1:%d", ntohs(a.sin_port));
    assert_int_equal(pipe(ends), 0);
    s.report = ends[0];
    if (id && (s.pid = fork()) == 0)
        serve(s.fd, ends[1], id);
    close(ends[1]);
    return s;
}

/* Ends it; returns what it has reported. */
static const char *stop(struct server *s)
{
    static char seen[64];
    size_t n = 0;

    if (s->pid > 0) {
        int last = socket(AF_INET, SOCK_STREAM, 0);

        assert_int_equal(connect(last, (struct sockaddr *)&s->at, sizeof s->at), 0);
        close(last);
        do
            assert_int_equal(read(s->report, seen + n, 1), 1);
        while (seen[n] != 'x' && ++n < sizeof seen);
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    close(s->fd);
    close(s->report);
    seen[n] = '\0';
    return seen;
}

static void make_keys(const char *folder)
{
    char dir[128];

    for (int i = 0; i <= N; i++) {
        snprintf(dir, sizeof dir, "%s/%d", folder, i);
        assert_ok(file_mkdirs(dir, 0700, &e));
        assert_ok(identity_load(&ids[i], dir, &e));
    }
    for (int i = 0; i < N; i++) {
        memcpy(joined[i].pin, ids[i].pin, sizeof joined[i].pin);
        snprintf(joined[i].address, sizeof joined[i].address, "there:%d", i);
    }
}

static void clear_keys(void)
{
    for (int i = 0; i <= N; i++)
        identity_clear(&ids[i]);
}

TEST(an_agent_is_known_by_its_key_among_any_number_of_others)
{
    static const size_t counts[] = {1, 2, N};
    static const size_t handshakes[] = {1, 2, 4}; /* at most: all of them, then half each time */
    const char *folder = unit_folder();

    make_keys(folder);
    for (size_t c = 0; c < N_OF(counts); c++) {
        for (size_t k = 0; k < counts[c]; k++) {
            struct joined_agents known = {.n = counts[c], .items = joined};
            struct server s = start(&ids[k]);
            struct searched_address one = {.address = s.address};
            const char *seen;

            assert_ok(joined_agents_search(&one, 1, &known, &e));
            assert_ptr_equal(one.found, &joined[k]);
            seen = stop(&s);
            assert_true(strlen(seen) <= handshakes[c]);
            assert_null(strchr(seen, 'b'));
        }
    }
    clear_keys();
    unit_remove(folder);
}

TEST(other_servers_silent_ones_and_closed_ports_are_not_taken_and_cost_one_handshake)
{
    const char *folder = unit_folder();
    struct joined_agents known = {.n = N, .items = joined}, nobody = {0};
    struct server strange, silent, closed, friendly;
    struct searched_address all[4] = {{0}};
    const char *seen;

    make_keys(folder);
    strange = start(&ids[N]);
    silent = start(NULL);
    friendly = start(&ids[3]);
    closed = start(NULL); /* last, as a child keeps what its parent had open */
    stop(&closed);
    all[0].address = strange.address;
    all[1].address = silent.address;
    all[2].address = closed.address;
    all[3].address = friendly.address;
    assert_ok(joined_agents_search(all, 4, &nobody, &e));
    for (int i = 0; i < 4; i++)
        assert_null(all[i].found);
    assert_ok(joined_agents_search(all, 4, &known, &e));
    for (int i = 0; i < 3; i++)
        assert_null(all[i].found);
    assert_ptr_equal(all[3].found, &joined[3]); /* while the silent one is waited for */
    seen = stop(&strange);
    assert_string_equal(seen, "h");
    stop(&silent);
    seen = stop(&friendly);
    assert_null(strchr(seen, 'b'));
    clear_keys();
    unit_remove(folder);
}

TEST(the_new_address_is_kept_beside_the_token)
{
    const char *folder = unit_folder();
    struct joined_agent a = {.agent = "a-1", .address = "here:1", .token = "the-token"}, found;

    setenv("XDG_STATE_HOME", folder, 1);
    memset(a.pin, 'p', BASE64_TEXT - 1);
    assert_ok(joined_agents_save(&a, &e));
    assert_ok(joined_agents_move(&a, "there:2", &e));
    assert_ok(joined_agents_find(&found, "there:2", &e));
    assert_string_equal(found.token, "the-token");
    assert_string_equal(found.address, "there:2");
    assert_string_equal(found.pin, a.pin);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_joined_agent_is_found_by_its_address),
        cmocka_unit_test(a_new_agent_at_an_address_replaces_the_former_one),
        cmocka_unit_test(joined_agents_are_listed_by_address_and_each_can_be_removed),
        cmocka_unit_test(files_that_others_can_read_and_damaged_ones_are_refused),
        cmocka_unit_test(an_agent_is_known_by_its_key_among_any_number_of_others),
        cmocka_unit_test(other_servers_silent_ones_and_closed_ports_are_not_taken_and_cost_one_handshake),
        cmocka_unit_test(the_new_address_is_kept_beside_the_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
