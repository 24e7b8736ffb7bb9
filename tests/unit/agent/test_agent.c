/* The agent as a process: arguments, exit statuses, the files that it leaves. Uses BUILD's agent with a
 * fake runner. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/emulated.h"
#include "tests/lib/own_root.h"
#include "tests/unit/unit.h"

#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"

struct scene {
    char folder[64], exe[96], log[96], dir[96], token[64];
    pid_t pid;
    int port;
    bool without_stdio; /* descriptors 0 to 2 are closed at its start */
};

static void copy_file(const char *to, const char *from)
{
    struct err e;
    size_t len;
    char *bytes;

    assert_ok(file_read(&bytes, &len, from, 64 << 20, &e));
    assert_ok(file_write(to, bytes, len, 0700, &e));
    free(bytes);
}

static void scene_open(struct scene *s)
{
    char path[PATH_MAX], build[PATH_MAX - 64], *tests;
    struct err e;

    *s = (struct scene){.pid = -1};
    assert_ok(file_exe_dir(build, sizeof build, &e)); /* BUILD/tests/unit */
    tests = strstr(build, "/tests/unit");
    assert_non_null(tests);
    *tests = '\0';
    snprintf(s->folder, sizeof s->folder, "%s", unit_folder());
    snprintf(s->exe, sizeof s->exe, "%s/agent", s->folder);
    snprintf(s->log, sizeof s->log, "%s/log", s->folder);
    snprintf(s->dir, sizeof s->dir, "%s/dir", s->folder);
    snprintf(path, sizeof path, "%s/agent", build);
    if (access(path, X_OK) < 0)
        skip();
    copy_file(s->exe, path);
    snprintf(path, sizeof path, "%s/job_runner", s->folder);
    copy_file(path, "tests/lib/fake_runner.sh");
    setenv("XDG_STATE_HOME", s->folder, 1);
}

static void start(struct scene *s, const char *const *args)
{
    char *argv[16] = {s->exe};
    int n = 1, log;

    for (; *args; args++)
        argv[n++] = (char *)(uintptr_t)*args;
    unlink(s->log);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no agent */
    if (s->without_stdio)
        own_root(0); /* so that this process may inspect it */
    log = open(s->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log < 0 || dup2(log, 2) < 0 || dup2(log, 1) < 0)
        _exit(99);
    for (int fd = 0; s->without_stdio && fd <= 2; fd++)
        close(fd);
    close(log);
    execv(s->exe, argv);
    _exit(98);
}

#define START(s, ...) start(s, (const char *const[]){__VA_ARGS__, NULL})

static int end_status(struct scene *s)
{
    int status;

    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    s->pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool log_contains(const struct scene *s, const char *expected)
{
    struct err e;
    char *text;
    size_t len;
    bool found;

    if (file_read(&text, &len, s->log, 1 << 20, &e) < 0)
        return false;
    found = strstr(text, expected) != NULL;
    free(text);
    return found;
}

/* Waits for the start-up message; reads port and token from the places it names. */
static void wait_for_hello(struct scene *s)
{
    double until = clock_now() + UNIT_WAIT_S;
    struct err e;
    char *text, *at, path[128];
    size_t len;

    while (!log_contains(s, "listens on ") && clock_now() < until)
        usleep(5000);
    assert_true(log_contains(s, "listens on "));
    assert_ok(file_read(&text, &len, s->log, 1 << 20, &e));
    at = strstr(text, "listens on 127.0.0.1:");
    assert_non_null(at);
    s->port = atoi(at + strlen("listens on 127.0.0.1:"));
    free(text);
    snprintf(path, sizeof path, "%s/token", s->dir);
    if (file_read(&text, &len, path, 64, &e) < 0)
        return;
    snprintf(s->token, sizeof s->token, "%.43s", text);
    free(text);
}

static void scene_close(struct scene *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        end_status(s);
    }
    unit_remove(s->folder);
}

static int send_agent(struct scene *s, const char *method, const char *path, const void *body,
                      size_t body_len, char *answer, size_t size)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status = 0;
    char text[2048];
    size_t n = 0;
    ssize_t k;
    int len = snprintf(
        text, sizeof text,
        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        method, path, s->token, body_len);

    answer[0] = '\0';
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true((size_t)len + body_len <= sizeof text);
    memcpy(text + len, body, body_len);
    len += (int)body_len;
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && write(fd, text, (size_t)len) == len) {
        while (n < size - 1 && (k = read(fd, answer + n, size - 1 - n)) > 0)
            n += (size_t)k;
        answer[n] = '\0';
        if (n > 12)
            status = atoi(answer + 9);
    }
    close(fd);
    return status;
}

static int ask_agent(struct scene *s, const char *method, const char *path, const char *body, char *answer,
                     size_t size)
{
    return send_agent(s, method, path, body, strlen(body), answer, size);
}

static void put_package(struct scene *s, const char *id, const char *package, const char *file,
                        const void *bytes, size_t len)
{
    char path[160], body[160], hex[SHA256_HEX], answer[4096];
    uint8_t digest[SHA256_BYTES];

    sha256(digest, bytes, len);
    hex_encode(hex, digest, sizeof digest);
    snprintf(path, sizeof path, "/v1/blobs/sha256/%s", hex);
    assert_in_range(send_agent(s, "PUT", path, bytes, len, answer, sizeof answer), 200, 201);
    snprintf(path, sizeof path, "/v1/jobs/%s/packages/%s", id, package);
    snprintf(body, sizeof body, "{\"files\":{\"%s\":\"%s\"}}", file, hex);
    assert_int_equal(ask_agent(s, "PUT", path, body, answer, sizeof answer), 204);
}

static void wait_for(struct scene *s, const char *id, const char *expected)
{
    double until = clock_now() + UNIT_WAIT_S;
    char path[64], answer[8192];

    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    do {
        usleep(5000);
        ask_agent(s, "GET", path, "", answer, sizeof answer);
    } while (!strstr(answer, expected) && clock_now() < until);
    if (!strstr(answer, expected))
        fail_msg("no %s: %s", expected, answer);
}

static int runner_pid(struct scene *s, const char *id)
{
    char path[64], answer[8192], *at;

    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    ask_agent(s, "GET", path, "", answer, sizeof answer);
    at = strstr(answer, "\"pid\":");
    assert_non_null(at);
    return atoi(at + 6);
}

static void start_job(struct scene *s, const char *behave)
{
    char answer[8192], settings[FAKE_SETTINGS_MAX];
    uint8_t object[OBJECT_BYTES];
    int n;

    assert_int_equal(
        ask_agent(s, "POST", "/v1/jobs",
                  "{\"id\":\"j-abcdef\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"node_count\":1}",
                  answer, sizeof answer),
        201);
    n = fake_settings(settings, behave);
    object_begin(object);
    put_package(s, "j-abcdef", "settings", "settings.json", settings, (size_t)n);
    put_package(s, "j-abcdef", "codec", "codec.so", object, sizeof object);
    put_package(s, "j-abcdef", "model", "model.json", fake_model, strlen(fake_model));
    put_package(s, "j-abcdef", "data", "train.safetensors", "t", 1);
    wait_for(s, "j-abcdef", "\"state\":\"ready\"");
    assert_int_equal(ask_agent(s, "POST", "/v1/jobs/j-abcdef/start",
                               "{\"attempt\":1,\"secret\":\"" HEX64 "\",\"peers\":\"0 a:1 a 1 " HEX64 "\"}",
                               answer, sizeof answer),
                     202);
}

static void run_job(struct scene *s, const char *behave)
{
    start_job(s, behave);
    wait_for(s, "j-abcdef", "\"step\":3");
}

TEST(operands_are_usage_errors)
{
    struct scene s;

    scene_open(&s);
    START(&s, "--prot", "1");
    assert_int_equal(end_status(&s), 2);
    assert_true(log_contains(&s, "Did you mean --port?"));
    START(&s, "--help");
    assert_int_equal(end_status(&s), 0);
    assert_true(log_contains(&s, "usage: agent"));
    START(&s, "-V");
    assert_int_equal(end_status(&s), 0);
    scene_close(&s);
}

TEST(no_token_beyond_loopback_is_refused)
{
    struct scene s;

    scene_open(&s);
    START(&s, "--bind", "0.0.0.0", "--port", "0", "--dir", s.dir, "--no-token");
    assert_int_equal(end_status(&s), 7);
    assert_true(log_contains(&s, "on 0.0.0.0 any host could run code here"));
    START(&s, "--bind", "0.0.0.0", "--port", "0", "--dir", s.dir, "--no-token", "--insecure-no-tls");
    assert_int_equal(end_status(&s), 7);
    scene_close(&s);
}

TEST(a_port_or_folder_in_use_is_reported_with_a_remedy)
{
    struct scene s, second;
    char port[16];

    scene_open(&s);
    START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir);
    wait_for_hello(&s);
    second = s;
    snprintf(second.log, sizeof second.log, "%s/log2", s.folder);
    snprintf(port, sizeof port, "%d", s.port);
    snprintf(second.dir, sizeof second.dir, "%s/never-made", s.folder);
    START(&second, "--port", port, "--dir", second.dir);
    assert_int_equal(end_status(&second), 71);
    assert_true(log_contains(&second, port));
    assert_true(log_contains(&second, "--port"));
    START(&second, "--port", "0", "--dir", s.dir);
    assert_int_equal(end_status(&second), 71);
    assert_true(log_contains(&second, "another agent"));
    assert_true(log_contains(&second, "--dir"));
    scene_close(&s);
}

TEST(a_clean_stop_leaves_no_process_and_no_symlink)
{
    static const int signals[] = {SIGTERM, SIGINT};

    for (size_t i = 0; i < N_OF(signals); i++) {
        struct scene s;
        char link[PATH_MAX];
        struct stat st;
        int pid;

        scene_open(&s);
        START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir);
        wait_for_hello(&s);
        snprintf(link, sizeof link, "%s/psgd/agents/%d.token", s.folder, s.port);
        assert_int_equal(lstat(link, &st), 0);
        run_job(&s, i ? "unresponsive" : "forever");
        pid = runner_pid(&s, "j-abcdef");
        kill(s.pid, signals[i]);
        assert_int_equal(end_status(&s), 0);
        assert_false(process_is_running(pid));
        assert_int_equal(lstat(link, &st), -1);
        assert_true(log_contains(&s, "cancelled AgentStopped"));
        scene_close(&s);
    }
}

/* Processes in sessions of their own, whose parents have ended. */
TEST(processes_that_a_runner_leaves_are_ended_and_reaped)
{
    struct scene s;
    char path[DIR_MAX + 64], *text, *rest;
    struct err e;
    size_t len;

    scene_open(&s);
    START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir);
    wait_for_hello(&s);
    start_job(&s, "orphans");
    wait_for(&s, "j-abcdef", "\"state\":\"succeeded\"");
    snprintf(path, sizeof path, "%s/jobs/j-abcdef/run/orphans.pid", s.dir);
    assert_ok(file_read(&text, &len, path, 4096, &e));
    rest = text;
    for (int i = 0; i < 5; i++) {
        struct process p;
        int pid = (int)strtol(rest, &rest, 10);

        assert_true(pid > 1);
        assert_false(process_look(&p, pid)); /* not even a zombie */
    }
    free(text);
    kill(s.pid, SIGTERM);
    assert_int_equal(end_status(&s), 0);
    scene_close(&s);
}

TEST(running_jobs_survive_a_detaching_stop_and_a_kill)
{
    static const int signals[] = {SIGTERM, SIGKILL};

    for (size_t i = 0; i < N_OF(signals); i++) {
        struct scene s;
        char answer[8192];
        int pid;

        scene_open(&s);
        START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir, "--leave-running");
        wait_for_hello(&s);
        run_job(&s, "forever");
        pid = runner_pid(&s, "j-abcdef");
        kill(s.pid, signals[i]);
        assert_int_equal(end_status(&s), signals[i] == SIGKILL ? -SIGKILL : 0);
        assert_int_equal(kill(pid, 0), 0);
        START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir);
        wait_for_hello(&s);
        assert_int_equal(runner_pid(&s, "j-abcdef"), pid);
        wait_for(&s, "j-abcdef", "\"state\":\"running\"");
        assert_int_equal(ask_agent(&s, "POST", "/v1/jobs/j-abcdef/cancel", "", answer, sizeof answer), 202);
        wait_for(&s, "j-abcdef", "\"state\":\"cancelled\"");
        kill(s.pid, SIGTERM);
        assert_int_equal(end_status(&s), 0);
        scene_close(&s);
    }
}

TEST(an_agent_without_a_token_warns_in_the_log)
{
    struct scene s;
    char answer[4096];

    scene_open(&s);
    START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir, "--no-token");
    wait_for_hello(&s);
    assert_true(log_contains(&s, "WARN  agent --no-token"));
    assert_int_equal(ask_agent(&s, "GET", "/v1/jobs", "", answer, sizeof answer), 200);
    kill(s.pid, SIGTERM);
    assert_int_equal(end_status(&s), 0);
    scene_close(&s);
}

TEST(the_default_folder_is_named_by_the_port)
{
    struct scene s;
    char path[PATH_MAX];
    struct stat st;

    scene_open(&s);
    START(&s, "--port", "0");
    wait_for_hello(&s);
    snprintf(path, sizeof path, "%s/psgd/agent-%d/token", s.folder, s.port);
    assert_int_equal(stat(path, &st), 0);
    kill(s.pid, SIGTERM);
    assert_int_equal(end_status(&s), 0);
    scene_close(&s);
}

TEST(an_agent_started_without_stdio_opens_no_file_as_descriptor_0_to_2)
{
    double until = clock_now() + UNIT_WAIT_S;
    char path[160], to[160] = "";
    struct stat st = {0};
    struct scene s;
    ssize_t n;

    if (is_emulated())
        skip();
    scene_open(&s);
    s.without_stdio = true;
    START(&s, "--port", "0", "--require-isolation", "none", "--dir", s.dir);
    snprintf(path, sizeof path, "%s/lock", s.dir);
    while ((stat(path, &st) < 0 || st.st_size == 0) && clock_now() < until)
        usleep(5000);
    assert_true(st.st_size > 0);
    for (int fd = 0; fd <= 2; fd++) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)s.pid, fd);
        n = readlink(path, to, sizeof to - 1);
        if (n < 0 && errno == EACCES) { /* its memory holds keys, and this process is not its root */
            scene_close(&s);
            skip();
        }
        to[n > 0 ? n : 0] = '\0';
        assert_string_equal(to, "/dev/null");
    }
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_usage_errors),
        cmocka_unit_test(no_token_beyond_loopback_is_refused),
        cmocka_unit_test(a_port_or_folder_in_use_is_reported_with_a_remedy),
        cmocka_unit_test(a_clean_stop_leaves_no_process_and_no_symlink),
        cmocka_unit_test(processes_that_a_runner_leaves_are_ended_and_reaped),
        cmocka_unit_test(running_jobs_survive_a_detaching_stop_and_a_kill),
        cmocka_unit_test(an_agent_without_a_token_warns_in_the_log),
        cmocka_unit_test(the_default_folder_is_named_by_the_port),
        cmocka_unit_test(an_agent_started_without_stdio_opens_no_file_as_descriptor_0_to_2),
    };

    return run_on_both_kernels(tests);
}
