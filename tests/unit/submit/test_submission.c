#include "submit/stages/submission.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/json.h"
#include "tests/unit/unit.h"

/* A child that acts as an agent for one request: it stores the body in a file and answers 202. */
static pid_t agent_that_keeps(const char *path, char *address, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char reply[] =
        "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    socklen_t len = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[4096] = "", *body = NULL;
    size_t n = 0;
    ssize_t k;
    pid_t pid;

    assert_int_equal(bind(s, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(s, 1), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &len), 0);
    snprintf(address, size, "127.0.0.1:%d", ntohs(a.sin_port));
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
    struct node node = {.is_reserved = true, .label = "agent x", .at.host = "127.0.0.1"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancellation_is_sent_whatever_its_reason_quotes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
