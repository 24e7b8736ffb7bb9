#include "submit/job/submission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "submit/files/job_id.h"
#include "submit/job/job_keys.h"
#include "submit/job/job_node.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"

enum { REASON_MAX = 200 /* an agent's limit in bytes */ };

/* From one renewal of a reservation to the next; most time to release all; from one report of what is awaited
 * to the next. */
static const double RENEW_S = 5, RELEASE_S = 5, WAIT_REPORT_S = 30;

void blob_set(struct blob *b, void *take_bytes, size_t len)
{
    *b = (struct blob){.bytes = take_bytes, .len = len};
    sha256_hex(b->hex, take_bytes, len);
}

int blob_read(struct blob *b, const char *path, size_t max, struct err *e)
{
    char *bytes;
    size_t len;

    if (file_read(&bytes, &len, path, max, e) < 0)
        return e->code;
    blob_set(b, bytes, len);
    return 0;
}

int blob_open(struct blob *b, const char *path, struct err *e)
{
    uint8_t sum[SHA256_BYTES];
    uint64_t len;
    int fd;

    if (sha256_file(sum, &len, path, e) < 0)
        return e->code;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    *b = (struct blob){.fd = fd, .len = (size_t)len};
    hex_encode(b->hex, sum, sizeof sum);
    return 0;
}

int blob_take_file(struct blob *b, const char *path, struct err *e)
{
    if (blob_open(b, path, e) < 0)
        return e->code;
    unlink(path);
    return 0;
}

void blob_clear(struct blob *b)
{
    free(b->bytes);
    if (b->fd > 0)
        close(b->fd);
    *b = (struct blob){0};
}

int submission_init(struct submission *s, const struct options *opt, struct err *e)
{
    *s = (struct submission){.opt = opt,
                             .trace = opt->trace,
                             .attempt = 1,
                             .cause = -1,
                             .settings = opt->settings,
                             .submitted_at = clock_wall()};
    job_id_new(s->id);
    memcpy(s->resume, opt->resume, sizeof s->resume);
    if (opt->timeout_s > 0)
        s->deadline = clock_now() + opt->timeout_s;
    s->http = http_new(e);
    if (!s->http)
        return e->code;
    s->facts = json_object();
    s->files = json_array();
    if (!s->facts || !s->files)
        return err_set(e, ERR_NOMEM, "no memory");
    return 0;
}

int submission_again(struct submission *s, int attempt, const char *resume, struct err *e)
{
    const struct options *opt = s->opt;
    json_t *attempts = json_incref(json_object_get(s->facts, "attempts"));
    double submitted_at = s->submitted_at, deadline = s->deadline;
    bool has_default_folder = s->has_default_folder;
    char id[JOB_ID_MAX], folder[PATH_MAX], from[PATH_MAX];

    memcpy(id, s->id, sizeof id);
    memcpy(folder, s->folder, sizeof folder);
    snprintf(from, sizeof from, "%s", resume);
    submission_clear(s);
    if (submission_init(s, opt, e) < 0) {
        json_decref(attempts);
        return e->code;
    }
    s->attempt = attempt;
    memcpy(s->id, id, sizeof s->id);
    memcpy(s->folder, folder, sizeof s->folder);
    memcpy(s->resume, from, sizeof s->resume);
    s->has_default_folder = has_default_folder;
    s->submitted_at = submitted_at;
    s->deadline = deadline;
    json_object_set_new(s->facts, "attempts", attempts);
    return 0;
}

static void codec_blobs_clear(struct codec_blobs *c)
{
    blob_clear(&c->object);
    blob_clear(&c->source);
    blob_clear(&c->manifest);
}

void submission_clear(struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        node_forget(s->http, &s->nodes[i]);
    for (int i = 0; s->shards && i < s->settings.node_count; i++)
        blob_clear(&s->shards[i]);
    free(s->shards);
    for (int i = 0; s->tests && i < s->settings.node_count; i++)
        blob_clear(&s->tests[i]);
    free(s->tests);
    for (size_t i = 0; s->checkpoints && i < s->n_nodes; i++)
        blob_clear(&s->checkpoints[i]);
    free(s->checkpoints);
    model_spec_clear(&s->model_spec);
    blob_clear(&s->weights);
    blob_clear(&s->trainer);
    free(s->nodes);
    blob_clear(&s->settings_blob);
    codec_blobs_clear(&s->codec);
    codec_blobs_clear(&s->server_codec);
    blob_clear(&s->model);
    blob_clear(&s->preprocessing);
    blob_clear(&s->test);
    json_decref(s->facts);
    json_decref(s->files);
    json_decref(s->last_log);
    if (s->lock_fd > 0)
        close(s->lock_fd);
    http_free(s->http);
    worker_list_clear(&s->workers);
    *s = (struct submission){0};
}

int submission_set_nodes(struct submission *s, size_t n_workers, size_t n_servers, struct err *e)
{
    const struct worker_list *w = &s->workers;
    uint8_t secret[SHA256_BYTES];
    bool has_keys = true;
    int rc = 0;

    s->n_nodes = 0;
    s->nodes = calloc(n_workers + n_servers, sizeof *s->nodes);
    if (!s->nodes)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n_workers + n_servers);
    if (s->job_folder[0]) {
        has_keys = false;
    } else if (job_keys_secret(secret, e) < 0) {
        console_more("No keys for jobs: %s.", e->text); /* an agent that requires a key refuses the request */
        has_keys = false;
    }
    for (size_t i = 0; i < n_workers + n_servers; i++) {
        struct job_node *n = &s->nodes[i];

        n->at = w->nodes[i < n_workers ? i : w->n_workers + i - n_workers];
        n->job = s->id;
        n->attempt = s->attempt;
        progress_view_init(&n->view.progress);
        snprintf(n->label, sizeof n->label, "agent %s", n->at.address);
        s->n_nodes = i + 1;
        if (s->job_folder[0]) {
            n->folder = (struct node_folder){.job_folder = s->job_folder, .node = n->at.node};
            job_folder_node_name(n->label, n->at.node);
            continue;
        }
        if (has_keys)
            job_keys_of_agent(n->job_key, secret, s->id, n->at.node);
        if (rc == 0 && !s->is_queued)
            rc = node_find_access(n, &s->opt->credentials, e);
    }
    explicit_bzero(secret, sizeof secret);
    if (s->job_folder[0] || s->is_queued)
        return 0;
    return rc < 0 ? rc : node_find_moved(s->nodes, s->n_nodes, sizeof *s->nodes, e);
}

int submission_move_node(const struct submission *s, struct job_node *n, const struct listed_agent *to,
                         struct err *e)
{
    int node = n->at.node;

    http_clear(s->http, &n->call);
    n->at = *to;
    n->at.node = node;
    snprintf(n->label, sizeof n->label, "agent %s", n->at.address);
    return node_find_access(n, &s->opt->credentials, e);
}

const struct codec_blobs *submission_codec(const struct submission *s, const struct job_node *n)
{
    return node_is_server(n) && s->server_codec.object.len ? &s->server_codec : &s->codec;
}

const json_t *submission_codec_facts(const struct submission *s, const struct job_node *n)
{
    const json_t *of_server = node_is_server(n) ? json_object_get(s->facts, "server_codec") : NULL;

    return of_server ? of_server : json_object_get(s->facts, "codec");
}

/* After a signal, ends the running calls with its error. */
static bool drop_interrupted(struct submission *s)
{
    struct err e;

    if (interrupt_check(&e) == 0)
        return false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct http_request *r = &s->nodes[i].call;

        if (!r->busy)
            continue;
        http_clear(s->http, r);
        r->err = e;
    }
    return true;
}

static void say_waiting(const struct submission *s)
{
    char amount[TEXT_AMOUNT];

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        if (!n->call.busy)
            continue;
        console_info("node(%d): waiting for %s, which has sent %s so far (Ctrl-C stops waiting).", n->at.node,
                     n->label, text_bytes(amount, n->call.received));
        return;
    }
}

void submission_finish_calls(struct submission *s)
{
    double said_at = clock_now();

    while (submission_is_calling(s) && !drop_interrupted(s)) {
        http_poll(s->http, 1);
        if (clock_now() - said_at < WAIT_REPORT_S)
            continue;
        said_at = clock_now();
        say_waiting(s);
    }
}

int submission_workers_beside(const struct submission *s, const struct job_node *n)
{
    int count = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        count += !node_is_server(&s->nodes[i]) && strcmp(node_host(&s->nodes[i]), node_host(n)) == 0;
    return count;
}

size_t submission_count_ended(const struct submission *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].is_ended;
    return n;
}

void submission_renew_lease(struct submission *s, struct job_node *n)
{
    struct err ignored;

    if (n->is_reserved && !n->is_ended && !n->call.busy && clock_now() - n->contact_at > RENEW_S)
        node_ask(s->http, n, "GET", NULL, 0, &ignored, "/v1/jobs/%s", s->id);
}

void submission_keep_lease(struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        submission_renew_lease(s, &s->nodes[i]);
}

static char *cancel_body(const char *reason, bool has_failed)
{
    json_t *o = json_pack("{s:o, s:b, s:i}", "reason", json_text(reason, REASON_MAX), "has_failed",
                          (int)has_failed, "grace_s", 5);
    char *line = o ? json_line(o) : NULL;

    json_decref(o);
    return line;
}

static void send_cancel(struct submission *s, const char *body)
{
    struct err ignored;

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        if (body && n->is_reserved && !n->is_ended && n->silent_since == 0)
            node_ask(s->http, n, "POST", body, strlen(body), &ignored, "/v1/jobs/%s/cancel", s->id);
        else
            http_clear(s->http, &n->call); /* an earlier request needs no answer any more */
    }
}

bool submission_is_calling(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].call.busy)
            return true;
    return false;
}

void submission_cancel(struct submission *s, const char *reason, bool has_failed)
{
    char *body = cancel_body(reason, has_failed);
    double until = clock_now() + RELEASE_S;

    send_cancel(s, body);
    while (submission_is_calling(s) && clock_now() < until)
        http_poll(s->http, 0.1);
    for (size_t i = 0; i < s->n_nodes; i++)
        http_clear(s->http, &s->nodes[i].call);
    free(body);
}

void submission_release(struct submission *s, const char *reason)
{
    submission_cancel(s, reason, false);
    for (size_t i = 0; i < s->n_nodes; i++) {
        s->nodes[i].is_reserved = false;
        http_clear(s->http, &s->nodes[i].stream);
    }
}

int submission_check_time(struct submission *s, struct err *e)
{
    if (interrupt_check(e) < 0)
        return e->code;
    if (s->deadline > 0 && clock_now() > s->deadline)
        return err_set(e, ERR_TIMEOUT, "the %g s of --timeout are over", s->opt->timeout_s);
    return 0;
}
