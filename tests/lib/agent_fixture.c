#include "tests/lib/agent_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/base/listen.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/retention.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define WAIT_S 600.0

static void open_on_folder(struct fixture *f)
{
    struct listener l;
    struct err e = {0};
    char cwd[PATH_MAX - 64], path[PATH_MAX], *text;
    const char *tests;
    size_t len;

    assert_ok(listener_open(&l, &f->opt, &e));
    f->opt.port = l.port;
    f->agent = (struct agent){0};
    assert_ok(agent_open(&f->agent, &f->opt, &e));
    f->agent.allows_plain = l.allows_plain;
    assert_ok(data_address_find(&f->agent.jobs.data, &f->opt, &e));
    f->at = l.at.at;
    f->at_len = l.at.len;
    memcpy(f->agent.host, l.host, sizeof l.host);
    memcpy(f->agent.address, l.address, sizeof l.address);
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(f->agent.jobs.runner_exe, sizeof f->agent.jobs.runner_exe, "%s/tests/lib/fake_runner.sh", cwd);
    assert_ok(file_exe_dir(path, sizeof path, &e)); /* build/tests/unit/agent; of a fuzzer build/fuzz */
    tests = strstr(path, "/tests/");
    if (tests)
        snprintf(f->agent.exe, sizeof f->agent.exe, "%.*s/agent", (int)(tests - path), path);
    f->agent.jobs.isolation.level = ISOLATION_USER; /* of fake_runner.sh, which runs no codec */
    assert_ok(api_server_open(&f->server, &f->agent, l.fd, &e));
    assert_ok(agent_restore(&f->agent, &e));
    if (f->opt.no_token)
        return;
    snprintf(path, sizeof path, "%s/token", f->opt.dir);
    assert_ok(file_read(&text, &len, path, 64, &e));
    snprintf(f->token, sizeof f->token, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
}

void fixture_open(struct fixture *f)
{
    snprintf(f->folder, sizeof f->folder, "%s", unit_folder());
    snprintf(f->opt.bind, sizeof f->opt.bind, "127.0.0.1");
    snprintf(f->opt.dir, sizeof f->opt.dir, "%s/agent", f->folder);
    if (!f->opt.slots)
        f->opt.slots = 1;
    if (!f->opt.queue)
        f->opt.queue = 16;
    if (!f->opt.keep)
        f->opt.keep = 64;
    f->opt.blob_limit_gib = 1;
    if (!f->opt.codecs)
        f->opt.codecs = CODECS_ANY;
    open_on_folder(f);
}

void fixture_crash(struct fixture *f)
{
    /* Its streams end with the process; no client is left to release a reservation for it. */
    f->agent.jobs.is_stopping = true;
    for (struct task *t = f->agent.jobs.first; t; t = t->next)
        t->n_streams += 1000;
    api_server_close(f->server);
    agent_close(&f->agent);
}

void fixture_reopen(struct fixture *f)
{
    f->opt.port = 0;
    open_on_folder(f);
}

void fixture_close(struct fixture *f)
{
    for (struct task *t = f->agent.jobs.first; t; t = t->next)
        runner_signal(&t->runner, SIGKILL);
    fixture_crash(f);
    unit_remove(f->folder);
}

void fixture_turn(struct fixture *f)
{
    double max_wait = http_server_max_wait(f->server->http);

    loop_turn(&f->agent.loop, max_wait < 0.005 ? max_wait : 0.005);
    http_server_turn(f->server->http);
    retention_trim(&f->agent.jobs);
}

void client_open(struct client *c, struct fixture *f)
{
    *c = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    assert_true(c->fd >= 0);
    if (connect(c->fd, (struct sockaddr *)&f->at, f->at_len) < 0)
        assert_int_equal(errno, EINPROGRESS);
    fixture_turn(f);
}

void client_close(struct client *c)
{
    close(c->fd);
    c->fd = -1;
}

void client_send(struct client *c, const char *bytes, size_t len)
{
    assert_int_equal(write(c->fd, bytes, len), len);
}

void client_get(struct client *c, struct fixture *f, const char *path, const char *more_headers)
{
    char head[1024];
    int n = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n",
                     path, f->agent.address, f->token, more_headers);

    client_send(c, head, (size_t)n);
}

static void client_read(struct client *c)
{
    ssize_t n = read(c->fd, c->text + c->n, sizeof c->text - 1 - c->n);

    c->is_closed = n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0)
        c->n += (size_t)n;
    c->text[c->n] = '\0';
}

void client_expect(struct client *c, struct fixture *f, const char *expected)
{
    double until = clock_now() + WAIT_S;

    while (!strstr(c->text, expected)) {
        if (clock_now() > until)
            fail_msg("\"%s\" did not come; what came: %s", expected, c->text);
        fixture_turn(f);
        client_read(c);
    }
}

bool client_receives_nothing(struct client *c)
{
    client_read(c);
    return c->n == 0 && !c->is_closed;
}

void client_expect_close(struct client *c, struct fixture *f)
{
    double until = clock_now() + WAIT_S;

    while (!c->is_closed) {
        if (clock_now() > until)
            fail_msg("the connection stayed open; what came: %s", c->text);
        fixture_turn(f);
        client_read(c);
    }
}

int ask_bytes(struct fixture *f, struct reply *r, const char *method, const char *path, const char *headers,
              const void *body, size_t len)
{
    static struct client c;
    char head[2048];
    size_t sent = 0;
    int n;

    client_open(&c, f);
    n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", method, path,
                 f->agent.address, headers);
    client_send(&c, head, (size_t)n);
    while (sent < len && !c.is_closed) {
        ssize_t k = send(c.fd, (const char *)body + sent, len - sent, MSG_NOSIGNAL);

        if (k > 0)
            sent += (size_t)k;
        else if (errno != EAGAIN)
            break;
        fixture_turn(f);
    }
    client_expect_close(&c, f);
    client_close(&c);
    memcpy(r->text, c.text, c.n + 1);
    r->status = c.n > 12 ? atoi(c.text + 9) : 0;
    r->body = strstr(r->text, "\r\n\r\n");
    r->body = r->body ? r->body + 4 : "";
    return r->status;
}

int ask(struct fixture *f, struct reply *r, const char *method, const char *path, const char *body)
{
    char headers[512];
    int n = snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", f->token);

    if (body)
        snprintf(headers + n, sizeof headers - (size_t)n,
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    return ask_bytes(f, r, method, path, headers, body, body ? strlen(body) : 0);
}

bool reply_has(const struct reply *r, const char *key, const char *value)
{
    json_t *o = json_loads(r->body, 0, NULL);
    const json_t *v = json_object_get(o, key);
    char number[32] = "";
    bool same;

    if (json_is_number(v))
        snprintf(number, sizeof number, "%.15g", json_number_value(v));
    same = v && strcmp(json_is_string(v) ? json_string_value(v) : number, value) == 0;
    json_decref(o);
    return same;
}

int job_reserve(struct fixture *f, struct reply *r, const char *id, bool no_queue)
{
    char body[512];

    snprintf(
        body, sizeof body,
        "{\"id\":\"%s\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"name\":\"n\",\"codec\":\"fedavg\","
        "\"node_count\":1,\"server_count\":0,\"submitter\":\"me\",\"no_queue\":%s,\"time_limit_s\":3600}",
        id, no_queue ? "true" : "false");
    return ask(f, r, "POST", "/v1/jobs", body);
}

const char fake_model[] =
    "{\"version\":1,\"name\":\"m\",\"input\":[1],\"layers\":[{\"kind\":\"dense\",\"units\":1}],"
    "\"loss\":\"mse\"}";

void blob_send(char hex[SHA256_HEX], struct fixture *f, const void *bytes, size_t len)
{
    static struct reply r;
    uint8_t digest[SHA256_BYTES];
    char path[256], headers[256];

    sha256(digest, bytes, len);
    hex_encode(hex, digest, sizeof digest);
    snprintf(path, sizeof path, "/v1/blobs/sha256/%s", hex);
    snprintf(headers, sizeof headers,
             "Authorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n",
             f->token, len);
    assert_in_range(ask_bytes(f, &r, "PUT", path, headers, bytes, len), 200, 201);
}

void object_begin(uint8_t out[OBJECT_BYTES])
{
    FILE *f = fopen("/proc/self/exe", "re");

    assert_non_null(f);
    assert_int_equal(fread(out, 1, OBJECT_BYTES, f), OBJECT_BYTES);
    fclose(f);
    out[16] = 3; /* e_type: a shared object */
}

static void send_package(struct fixture *f, const char *id, const char *package, const char *file,
                         const void *bytes, size_t len)
{
    static struct reply r;
    char hex[SHA256_HEX], path[256], body[256];

    blob_send(hex, f, bytes, len);
    snprintf(path, sizeof path, "/v1/jobs/%s/packages/%s", id, package);
    snprintf(body, sizeof body, "{\"files\":{\"%s\":\"%s\"}}", file, hex);
    assert_int_equal(ask(f, &r, "PUT", path, body), 204);
}

int fake_settings(char out[FAKE_SETTINGS_MAX], const char *behave)
{
    return snprintf(out, FAKE_SETTINGS_MAX,
                    "{\"version\":1,\"name\":\"%s\",\"seed\":1,\"node_count\":1,\"codec\":\"fedavg\","
                    "\"epochs\":2,\"steps_per_epoch\":2,\"batch_size\":1,\"dataset\":\"d\",\"model\":\"m\"}",
                    behave);
}

void job_send_packages(struct fixture *f, const char *id, const char *behave)
{
    uint8_t object[OBJECT_BYTES];
    char settings[FAKE_SETTINGS_MAX];
    int n = fake_settings(settings, behave);

    object_begin(object);
    send_package(f, id, "settings", "settings.json", settings, (size_t)n);
    send_package(f, id, "codec", "codec.so", object, sizeof object);
    send_package(f, id, "model", "model.json", fake_model, strlen(fake_model));
    send_package(f, id, "data", "train.safetensors", "t", 1);
}

int job_send_start(struct fixture *f, struct reply *r, const char *id)
{
    char path[128], body[512];

    snprintf(path, sizeof path, "/v1/jobs/%s/start", id);
    snprintf(body, sizeof body,
             "{\"attempt\":1,\"secret\":\"%064d\",\"peers\":\"0 127.0.0.1:15387 127.0.0.1 1234 %064d\"}", 0,
             0);
    return ask(f, r, "POST", path, body);
}

void job_until(struct fixture *f, const char *id, const char *state)
{
    const struct task *t = task_find(&f->agent.jobs, id);
    double until = clock_now() + WAIT_S;

    assert_non_null(t);
    while (strcmp(job_state_name(t->job.state), state) != 0) {
        if (clock_now() > until || job_state_is_terminal(t->job.state))
            fail_msg("%s is %s (%s: %s), not %s", id, job_state_name(t->job.state), t->job.reason,
                     t->job.message, state);
        fixture_turn(f);
    }
}

void job_run(struct fixture *f, const char *id, const char *behave)
{
    static struct reply r;

    assert_int_equal(job_reserve(f, &r, id, false), 201);
    job_send_packages(f, id, behave);
    job_until(f, id, "ready");
    assert_int_equal(job_send_start(f, &r, id), 202);
}

bool process_is_running(int pid)
{
    char path[64], what = 'Z';
    FILE *stat;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    stat = fopen(path, "r");
    if (!stat)
        return false;
    if (fscanf(stat, "%*d %*s %c", &what) != 1)
        what = 'Z';
    fclose(stat);
    return !strchr("ZXx", what); /* X: a zombie that is being removed */
}
