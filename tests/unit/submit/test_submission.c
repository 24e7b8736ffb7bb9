#include "submit/job/submission.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "submit/job/outcome.h"
#include "submit/stages/stages.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

/* Returns a socket that listens on loopback, and its address. */
#define DATA_KEY "0000000000000000000000000000000000000000000000000000000000000000"

static int listen_here(char *address, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof a;

    assert_int_equal(bind(s, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(s, 8), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &len), 0);
    snprintf(address, size, "127.0.0.1:%d", ntohs(a.sin_port));
    return s;
}

/* A child that acts as an agent for one request: it stores the body in a file and answers 202. */
static pid_t agent_that_keeps(const char *path, char *address, size_t size)
{
    static const char reply[] =
        "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    int s = listen_here(address, size);
    char text[4096] = "", *body = NULL;
    size_t n = 0;
    ssize_t k;
    pid_t pid;

    pid = fork();
    if (pid == 0) {
        int fd = accept(s, NULL, NULL);

        alarm(300);
        while ((!body || !strchr(body, '}')) && (k = read(fd, text + n, sizeof text - 1 - n)) > 0) {
            n += (size_t)k;
            text[n] = '\0';
            body = strstr(text, "\r\n\r\n");
        }
        if (body)
            file_write(path, body + 4, strlen(body + 4), 0600, &(struct err){0});
        _exit(write(fd, reply, sizeof reply - 1) < 0);
    }
    close(s);
    return pid;
}

/* The reason sent to the agent, with the length that it accepts. */
static void assert_reported(const char *reason, const char *expected)
{
    const char *folder = unit_folder();
    struct job_node node = {.is_reserved = true, .label = "agent x", .at.host = "127.0.0.1"};
    struct submission s = {.id = "j-abcdef", .nodes = &node, .n_nodes = 1};
    char path[128], back[201];
    struct err e = {0};
    json_t *doc;
    pid_t pid;

    snprintf(path, sizeof path, "%s/body", folder);
    pid = agent_that_keeps(path, node.at.address, sizeof node.at.address);
    s.http = http_new(&e);
    assert_non_null(s.http);
    submission_cancel(&s, reason, false);
    http_free(s.http);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_ok(json_read(&doc, path, 1 << 16, &e));
    assert_ok(json_get_text(back, sizeof back, doc, "reason", "", &e));
    assert_string_equal(back, expected);
    json_decref(doc);
    unit_remove(folder);
}

TEST(a_cancellation_is_sent_whatever_its_reason_quotes)
{
    char in[300], out[200];

    assert_reported("enough", "enough");
    assert_reported("no folder gew\344hlt", "no folder gew?hlt");
    memset(in, 'x', sizeof in);
    memcpy(in + 199, "\303\244", 3); /* 200 bytes end inside it */
    memcpy(out, in, 199);
    out[199] = '\0';
    assert_reported(in, out);
}

#define ENDED                                                                                                \
    "{\"seq\":9,\"event\":\"end\",\"state\":\"failed\",\"reason\":\"RunnerDied\",\"message\":\"killed\"}\n"

static bool write_text(int fd, const char *text)
{
    return write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A child that acts as the agent of a node: it answers the order to start with `answer`, and a stream of
 * events with `events`, once the order has come. */
static pid_t agent_of_node(const char *answer, const char *events, char *address, size_t size)
{
    int s = listen_here(address, size), stream = -1;
    pid_t pid;

    pid = fork();
    if (pid == 0) {
        alarm(300);
        for (;;) {
            char text[4096];
            int fd = accept(s, NULL, NULL);
            ssize_t n = read(fd, text, sizeof text - 1);

            text[n > 0 ? n : 0] = '\0';
            if (strstr(text, "/events")) {
                stream = fd;
                if (!write_text(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"))
                    _exit(1);
                continue;
            }
            if (!write_text(fd, answer) || close(fd) < 0 || (stream >= 0 && !write_text(stream, events)))
                _exit(1);
        }
    }
    close(s);
    return pid;
}

static const char accepted[] = "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";

/* Starts a job of two nodes, of which the second one's agent answers so. Of `nodes` only is_ended is kept:
 * the end of a node that is read while the orders are answered. Returns stage_start's code. */
static int start_two(struct submission *s, struct job_node nodes[2], const char *answer, const char *events,
                     struct err *e)
{
    struct options opt = {.agent_timeout_s = 0.5};
    const char *folder = unit_folder();
    pid_t agents[2];
    int rc;

    setenv("XDG_STATE_HOME", folder, 1);
    *s = (struct submission){
        .id = "j-abcdefgh", .opt = &opt, .attempt = 1, .nodes = nodes, .n_nodes = 2, .cause = -1};
    s->http = http_new(e);
    s->facts = json_object();
    s->files = json_array();
    assert_non_null(s->http);
    for (int i = 0; i < 2; i++) {
        nodes[i] = (struct job_node){.at = {.node = i, .host = "127.0.0.1"},
                                     .job = s->id,
                                     .is_reserved = true,
                                     .is_ready = true,
                                     .is_ended = nodes[i].is_ended,
                                     .view = {.state = JOB_READY, .data_port = 1, .data_key = DATA_KEY}};
        snprintf(nodes[i].label, sizeof nodes[i].label, "agent %d", i);
        agents[i] = agent_of_node(i == 0 ? accepted : answer, i == 0 ? "" : events, nodes[i].at.address,
                                  sizeof nodes[i].at.address);
        assert_int_equal(node_open_stream(s->http, &nodes[i], e), 0);
    }
    while (nodes[0].stream.status == 0 || nodes[1].stream.status == 0)
        http_poll(s->http, 1);
    rc = stage_start(s, e);
    for (int i = 0; i < 2; i++) {
        node_forget(s->http, &nodes[i]);
        kill(agents[i], SIGKILL);
        waitpid(agents[i], NULL, 0);
    }
    http_free(s->http);
    json_decref(s->facts);
    json_decref(s->files);
    unit_remove(folder);
    return rc;
}

TEST(a_node_that_has_ended_when_its_order_comes_is_the_cause_and_not_the_refusal)
{
    static const char refused[] = "HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    struct submission s;
    struct job_node nodes[2] = {0};
    struct err e = {0};

    assert_int_equal(start_two(&s, nodes, refused, ENDED, &e), 0);
    assert_false(s.is_started);
    assert_false(nodes[0].is_ended);
    assert_true(nodes[1].is_ended);
    assert_int_equal(nodes[1].view.state, JOB_FAILED);
    assert_string_equal(nodes[1].view.reason, "RunnerDied");
    assert_int_equal(outcome_cause(&s), 1);
    s.settings.on_node_loss = NODE_LOSS_CONTINUES; /* the other one has not worked with it */
    s.settings.min_nodes = 1;
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(a_job_whose_orders_are_all_accepted_has_started_even_if_a_node_has_ended_meanwhile)
{
    struct submission s;
    struct job_node nodes[2] = {{.is_ended = false}, {.is_ended = true}};
    struct err e = {0};

    assert_int_equal(start_two(&s, nodes, accepted, "", &e), 0);
    assert_int_equal(submission_count_ended(&s), 1);
    assert_true(s.is_started);
}

TEST(a_node_whose_agent_does_not_answer_its_order_is_lost)
{
    struct submission s;
    struct job_node nodes[2] = {0};
    struct err e = {0};

    assert_int_equal(start_two(&s, nodes, "", "", &e), 0);
    assert_false(s.is_started);
    assert_true(nodes[1].is_ended);
    assert_string_equal(nodes[1].view.reason, "NodeLost");
    assert_int_equal(outcome_cause(&s), 1);
}

TEST(a_refused_order_of_a_node_that_goes_on_is_an_error)
{
    static const char refused[] =
        "HTTP/1.1 422 Unprocessable\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    struct submission s;
    struct job_node nodes[2] = {0};
    struct err e = {0};

    assert_int_equal(start_two(&s, nodes, refused, "", &e), ERR_CONFIG);
    assert_int_equal(submission_count_ended(&s), 0);
}

/* A child that acts as the agent of a node that lacks its settings: it reports that the node is ready,
 * and answers the request that caused this 200 ms later. */
static pid_t agent_that_answers_late(char *address, size_t size)
{
    static const char has_all[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"lacks\":[]}";
    static const char lacks[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        "{\"state\":\"preparing\",\"requirements\":[\"settings\"]}";
    int s = listen_here(address, size), stream = -1;
    pid_t pid;

    pid = fork();
    if (pid == 0) {
        alarm(300);
        for (;;) {
            char text[4096];
            int fd = accept(s, NULL, NULL);
            ssize_t n = read(fd, text, sizeof text - 1);
            bool is_package = n > 4 && memcmp(text, "PUT ", 4) == 0;

            text[n > 0 ? n : 0] = '\0';
            if (strstr(text, "/events")) {
                stream = fd;
                if (!write_text(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"))
                    _exit(1);
                continue;
            }
            if (is_package && !write_text(stream, "{\"seq\":2,\"event\":\"state\",\"state\":\"ready\"}\n"))
                _exit(1);
            if (is_package)
                usleep(200000);
            if (!write_text(fd, memcmp(text, "GET ", 4) == 0 ? lacks : has_all) || close(fd) < 0)
                _exit(1);
        }
    }
    close(s);
    return pid;
}

TEST(a_package_is_reported_also_if_the_event_that_its_node_is_ready_comes_before_the_answer)
{
    struct options opt = {.agent_timeout_s = 60, .bandwidth_mbps = 100};
    struct job_node node = {
        .at.host = "127.0.0.1", .job = "j-abcdefgh", .label = "agent x", .is_reserved = true};
    struct submission s = {
        .id = "j-abcdefgh", .opt = &opt, .attempt = 1, .nodes = &node, .n_nodes = 1, .cause = -1};
    struct stderr_catch said;
    const char *folder = unit_folder(), *package;
    struct err e = {0};
    pid_t agent;
    int rc;

    setenv("XDG_STATE_HOME", folder, 1);
    s.http = http_new(&e);
    assert_non_null(s.http);
    agent = agent_that_answers_late(node.at.address, sizeof node.at.address);
    assert_int_equal(node_open_stream(s.http, &node, &e), 0);
    while (node.stream.status == 0)
        http_poll(s.http, 1);
    stderr_catch_begin(&said);
    rc = stage_ship(&s, &e);
    stderr_catch_end(&said);
    assert_int_equal(rc, 0);
    package = strstr(said.text, "Reply requirements to node(0), type(settings).");
    assert_non_null(package);
    assert_non_null(strstr(package, "Node(0) is ready, 1 nodes total, {0} is ready."));
    node_forget(s.http, &node);
    kill(agent, SIGKILL);
    waitpid(agent, NULL, 0);
    http_free(s.http);
    unit_remove(folder);
}

enum { PLACED = 2 };

static const char placed[] = "HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n"
                             "{\"state\":\"preparing\",\"requirements\":[],\"data_port\":1}";

/* Answers a request to agent i. The second one's answer to its reservation waits in *late until the first
 * one's stream of events is open. */
static bool answer_placing(int i, int fd, int *late)
{
    char text[4096], agent[128];
    ssize_t n = read(fd, text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    if (strstr(text, "/events")) {
        if (i == 0 && (!write_text(*late, placed) || close(*late) < 0))
            return false;
        return write_text(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n");
    }
    if (strncmp(text, "POST", 4) == 0 && i == 1) {
        *late = fd;
        return true;
    }
    snprintf(agent, sizeof agent,
             "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"id\":\"%d\",\"api\":1,\"slots_free\":1}", i);
    return write_text(fd, strncmp(text, "POST", 4) == 0 ? placed : agent) && close(fd) == 0;
}

/* A child that acts as both agents. It serves the first one's stream only once the second one's reservation
 * has come, so that *late is there. */
static pid_t agents_of_which_one_is_late(struct job_node nodes[PLACED])
{
    int s[PLACED], late = -1;
    pid_t pid;

    for (int i = 0; i < PLACED; i++)
        s[i] = listen_here(nodes[i].at.address, sizeof nodes[i].at.address);
    pid = fork();
    if (pid == 0) {
        alarm(300);
        for (int i = 0; i < PLACED; i++) /* each is asked about itself */
            if (!answer_placing(i, accept(s[i], NULL, NULL), &late))
                _exit(1);
        for (int i = PLACED - 1; i >= 0; i--) /* the reservations */
            if (!answer_placing(i, accept(s[i], NULL, NULL), &late))
                _exit(1);
        for (int i = 0; i < PLACED; i++) /* the streams */
            if (!answer_placing(i, accept(s[i], NULL, NULL), &late))
                _exit(1);
        pause();
    }
    for (int i = 0; i < PLACED; i++)
        close(s[i]);
    return pid;
}

TEST(the_stream_of_a_node_is_opened_while_the_agents_of_others_have_not_answered)
{
    struct options opt = {.agent_timeout_s = 60};
    struct job_node nodes[PLACED] = {0};
    struct submission s = {
        .id = "j-abcdefgh", .opt = &opt, .attempt = 1, .nodes = nodes, .n_nodes = PLACED, .cause = -1};
    struct err e = {0};
    pid_t agents;

    for (int i = 0; i < PLACED; i++)
        nodes[i] = (struct job_node){
            .at = {.node = i, .host = "127.0.0.1"}, .job = s.id, .label = "agent x", .attempt = 1};
    agents = agents_of_which_one_is_late(nodes);
    s.http = http_new(&e);
    assert_non_null(s.http);
    assert_ok(stage_place(&s, &e));
    for (int i = 0; i < PLACED; i++) {
        assert_int_equal(nodes[i].view.state, JOB_PREPARING);
        assert_true(nodes[i].stream.busy);
        node_forget(s.http, &nodes[i]);
    }
    kill(agents, SIGKILL);
    waitpid(agents, NULL, 0);
    http_free(s.http);
}

/* A child that answers the stream of events with `n` lines of a log, of 900 bytes each, and closes it. */
static pid_t agent_that_floods(int n, char *address, size_t size)
{
    int s = listen_here(address, size);
    char text[2048];
    pid_t pid;

    pid = fork();
    if (pid == 0) {
        int fd = accept(s, NULL, NULL);

        alarm(300);
        if (read(fd, text, sizeof text) <= 0 ||
            !write_text(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"))
            _exit(1);
        for (int i = 1; i <= n; i++) {
            snprintf(text, sizeof text,
                     "{\"seq\":%d,\"event\":\"log\",\"level\":\"error\",\"text\":\"%0900d\"}\n", i, i);
            if (!write_text(fd, text))
                _exit(1);
        }
        _exit(0);
    }
    close(s);
    return pid;
}

TEST(an_agent_that_sends_one_line_after_the_other_does_not_fill_the_terminal)
{
    enum { LINES = 20000 };
    struct job_node n = {.at.host = "127.0.0.1", .label = "agent x", .job = "j-abcdefgh"};
    char path[128], *text;
    const char *folder = unit_folder();
    struct err e = {0};
    struct http *h = http_new(&e);
    int status, saved = dup(STDERR_FILENO), fd;
    size_t len;
    pid_t pid = agent_that_floods(LINES, n.at.address, sizeof n.at.address);

    snprintf(path, sizeof path, "%s/stderr", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    assert_int_equal(node_open_stream(h, &n, &e), 0);
    while (n.stream.busy)
        http_poll(h, 1);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(n.last_seq, LINES); /* each is read */
    assert_int_equal(file_read(&text, &len, path, 64 << 20, &e), 0);
    assert_in_range(len, NODE_PRINT_BYTES / 2, 4 * NODE_PRINT_BYTES);
    assert_non_null(
        strstr(text, "sends more than is shown here; `job_submit logs j-abcdefgh --node 0` shows all"));
    free(text);
    node_forget(h, &n);
    http_free(h);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_sends_one_line_after_the_other_does_not_fill_the_terminal),
        cmocka_unit_test(a_node_that_has_ended_when_its_order_comes_is_the_cause_and_not_the_refusal),
        cmocka_unit_test(a_job_whose_orders_are_all_accepted_has_started_even_if_a_node_has_ended_meanwhile),
        cmocka_unit_test(a_node_whose_agent_does_not_answer_its_order_is_lost),
        cmocka_unit_test(a_refused_order_of_a_node_that_goes_on_is_an_error),
        cmocka_unit_test(
            a_package_is_reported_also_if_the_event_that_its_node_is_ready_comes_before_the_answer),
        cmocka_unit_test(a_cancellation_is_sent_whatever_its_reason_quotes),
        cmocka_unit_test(the_stream_of_a_node_is_opened_while_the_agents_of_others_have_not_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
