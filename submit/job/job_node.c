#include "submit/job/job_node.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/private.h"
#include "submit/net/prove.h"
#include "submit/terminal/console.h"

enum { DOWNLOAD_S = 3600, SAID_MAX = 1536 };

bool node_is_server(const struct job_node *n)
{
    return n->at.node < 0;
}

const char *node_host(const struct job_node *n)
{
    return n->at.advertise[0] ? n->at.advertise : n->at.host;
}

const char *node_role(const struct job_node *n)
{
    return node_is_server(n) ? "server" : "worker";
}

const char *node_state(const struct job_node *n)
{
    if (n->silent_since == 0 || n->is_ended)
        return job_state_name(n->view.state);
    return n->silence.code == ERR_UNREACHABLE ? "unreachable" : "unknown";
}

const char *node_log_name(char out[NODE_LOG_NAME], const struct job_node *n)
{
    if (node_is_server(n))
        snprintf(out, NODE_LOG_NAME, "ps-%d", -2 - n->at.node);
    else
        snprintf(out, NODE_LOG_NAME, "worker-%d", n->at.node);
    return out;
}

static void note_source(struct job_node *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note_source(struct job_node *n, const char *fmt, ...)
{
    size_t k = strlen(n->token_sources);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(n->token_sources + k, sizeof n->token_sources - k, fmt, ap);
    va_end(ap);
}

/* ERR_NOT_FOUND: no such file; ERR_AUTH: it holds no token, or cannot be read. */
static int read_token(struct job_node *n, const char *path, struct err *e)
{
    const char *known = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *text;
    size_t len;
    size_t k;

    if (private_read(&text, &len, path, 4096, e) < 0)
        return e->code == ERR_NOT_FOUND ? e->code : (e->code = ERR_AUTH);
    k = strspn(text, known);
    if (k < 16 || k >= TOKEN_MAX || strspn(text + k, " \r\n") != len - k) {
        err_set(e, ERR_AUTH, "%s: holds no token (one line of at least 16 letters, digits, '-' and '_')",
                path);
    } else {
        memcpy(n->token, text, k);
        n->token[k] = '\0';
        e->code = 0;
    }
    secret_free(text);
    note_source(n, "%s%s", n->token_sources[0] ? ", " : "", path);
    return e->code;
}

/* The pin of an agent of this user on this machine, which the agent has written beside its token. */
static int find_local_pin(struct job_node *n, struct err *e)
{
    char state[PATH_MAX], path[PATH_MAX], *text;
    size_t len;

    if (!listed_agent_is_loopback(&n->at) || file_state_dir(state, sizeof state, e) < 0 ||
        snprintf(path, sizeof path, "%s/agents/%d.pin", state, n->at.port) >= (int)sizeof path)
        return 0;
    if (file_read(&text, &len, path, BASE64_TEXT, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    if (is_base64url(text))
        memcpy(n->pin, text, sizeof n->pin);
    free(text);
    return n->pin[0] ? 0 : err_set(e, ERR_CONFIG, "%s is no pin", path);
}

/* The pin and the token that `join` has saved. */
static int find_joined(struct job_node *n, struct err *e)
{
    struct joined_agent a;

    if (joined_agents_find(&a, n->at.address, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    memcpy(n->pin, a.pin, sizeof n->pin);
    memcpy(n->token, a.token, sizeof n->token);
    explicit_bzero(&a, sizeof a);
    note_source(n, "job_submit join");
    return 0;
}

/* The fingerprint of the list of workers. */
static int take_listed_pin(struct job_node *n, struct err *e)
{
    if (!n->at.pin[0])
        return 0;
    if (n->pin[0] && strcmp(n->pin, n->at.pin) != 0) {
        err_set(e, ERR_AUTH,
                "%s has another fingerprint in the list of workers than the key that was joined; nothing was "
                "sent to it",
                n->at.address);
        return err_hint(e, "Correct the list, or remove the joined agent: job_submit agents remove %.200s.",
                        n->at.address);
    }
    memcpy(n->pin, n->at.pin, sizeof n->pin);
    return 0;
}

/* Order: the option, the entry in the worker list, the link of a local agent, the environment. */
static int find_token(struct job_node *n, const char *token_file, struct err *e)
{
    const char *environment = getenv("PSGD_TOKEN_FILE");
    char state[PATH_MAX];
    char link[PATH_MAX];

    if (token_file[0] || n->at.token_file[0]) {
        if (read_token(n, token_file[0] ? token_file : n->at.token_file, e) < 0) {
            e->code = ERR_AUTH;
            return err_at(e, "node(%d): token", n->at.node);
        }
        return 0;
    }
    if (listed_agent_is_loopback(&n->at) && file_state_dir(state, sizeof state, e) == 0 &&
        snprintf(link, sizeof link, "%s/agents/%d.token", state, n->at.port) < (int)sizeof link) {
        if (read_token(n, link, e) == 0)
            return 0;
        if (e->code == ERR_NOT_FOUND)
            note_source(n, "no %s", link);
    }
    if (environment && environment[0]) {
        if (read_token(n, environment, e) < 0)
            return err_at(e, "PSGD_TOKEN_FILE");
        return 0;
    }
    note_source(n, "%sno --token-file, no PSGD_TOKEN_FILE, no token_file of %s in the list of workers",
                n->token_sources[0] ? ", " : "", n->at.address);
    return 0;
}

bool node_has_ca(const struct job_node *n)
{
    return n->credentials && n->credentials->ca[0];
}

/* A token that an option or the list of workers names replaces that of a joined agent, but not its pin. */
int node_find_access(struct job_node *n, const struct credentials *c, struct err *e)
{
    bool is_named = c->token_file[0] || n->at.token_file[0], in_clear = c->insecure_no_tls;

    n->credentials = c;
    n->pin[0] = n->token[0] = n->token_sources[0] = '\0';
    n->is_closed = n->must_prove = false;
    if (node_has_ca(n)) {
        memcpy(n->pin, n->at.pin, sizeof n->pin);
        return c->cert[0] && !is_named ? 0 : find_token(n, c->token_file, e);
    }
    if (find_joined(n, e) < 0 || take_listed_pin(n, e) < 0 || (!n->pin[0] && find_local_pin(n, e) < 0))
        return err_at(e, "node(%d)", n->at.node);
    if (n->token[0] && !is_named)
        return 0;
    n->token_sources[0] = '\0';
    if (find_token(n, c->token_file, e) < 0)
        return e->code;
    n->must_prove = !n->pin[0] && !in_clear && (n->token[0] || listed_agent_is_loopback(&n->at));
    n->is_closed = !n->pin[0] && !in_clear && !n->must_prove;
    return 0;
}

static void take_joined(struct job_node *n, const struct joined_agent *a)
{
    struct err e;

    memcpy(n->pin, a->pin, sizeof n->pin);
    memcpy(n->token, a->token, sizeof n->token);
    snprintf(n->token_sources, sizeof n->token_sources, "job_submit join");
    n->is_closed = n->must_prove = false;
    console_info("node(%d): agent %s, joined at %s, is at %s: it has the same key.", n->at.node, a->agent,
                 a->address, n->at.address);
    if (joined_agents_move(a, n->at.address, &e) < 0)
        console_error("%s", e.text);
}

int node_find_moved(struct job_node *nodes, size_t n, size_t stride, struct err *e)
{
    struct searched_address *s = calloc(n + 1, sizeof *s);
    struct job_node **without = calloc(n + 1, sizeof *without);
    struct joined_agents known = {0};
    size_t n_without = 0;
    int rc = s && without ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job_node *one = (void *)((char *)nodes + i * stride);

        if (one->pin[0] || one->token[0] || node_has_ca(one))
            continue;
        s[n_without].address = one->at.address;
        without[n_without++] = one;
    }
    if (rc == 0 && n_without > 0)
        rc = joined_agents_read(&known, e);
    if (rc == 0 && known.n > 0)
        rc = joined_agents_search(s, n_without, &known, e);
    for (size_t i = 0; rc == 0 && i < n_without; i++)
        if (s[i].found)
            take_joined(without[i], s[i].found);
    joined_agents_clear(&known);
    free(without);
    free(s);
    return rc;
}

bool node_must_prove(const struct job_node *n)
{
    return n->must_prove && !n->pin[0];
}

static struct claim claim_of(struct job_node *n)
{
    return (struct claim){n->label, n->at.address, n->token, n->token_sources, n->pin, {0}};
}

int node_prove_all(struct job_node *nodes, size_t n, size_t stride, struct err *e)
{
    struct claim *claims = calloc(n + 1, sizeof *claims);
    struct job_node **of = calloc(n + 1, sizeof *of);
    size_t n_claims = 0;
    int rc = claims && of ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);

    for (size_t i = 0; i < n && rc == 0; i++) {
        struct job_node *one = (void *)((char *)nodes + i * stride);

        if (!node_must_prove(one))
            continue;
        of[n_claims] = one;
        claims[n_claims++] = claim_of(one);
    }
    if (rc == 0 && n_claims > 0)
        rc = prove_agents(claims, n_claims, e);
    for (size_t i = 0; i < n_claims && rc == 0; i++)
        of[i]->call.err = claims[i].why;
    free(of);
    free(claims);
    return rc;
}

static void prepare_call(struct job_node *n, struct http_request *r, const char *method)
{
    const struct credentials *c = n->credentials;

    *r = (struct http_request){.method = method,
                               .peer = n->label,
                               .token = n->token[0] ? n->token : NULL,
                               .job_key = n->job_key[0] ? n->job_key : NULL,
                               .attempt = n->attempt,
                               .pin = n->pin[0] ? n->pin : NULL,
                               .pin_origin = n->at.pin[0]                       ? PIN_LISTED
                                             : listed_agent_is_loopback(&n->at) ? PIN_HERE
                                                                                : PIN_JOINED,
                               .ca = node_has_ca(n) ? c->ca : NULL,
                               .cert = node_has_ca(n) && c->cert[0] ? c->cert : NULL,
                               .key = node_has_ca(n) ? c->key : NULL,
                               .is_local = listed_agent_is_loopback(&n->at),
                               .max_reply = REPLY_MAX,
                               .timeout_s = CALL_S};
}

/* Its process may be on any machine, whose name is the node's address. */
static int ask_folder(struct job_node *n, struct http_request *r, const char *path, struct err *e)
{
    if (node_folder_answer(&n->folder, r, n->job, path, e) < 0)
        return e->code;
    snprintf(n->at.address, sizeof n->at.address, "%s", n->folder.host[0] ? n->folder.host : "not started");
    return 0;
}

static int start_call(struct http *h, struct job_node *n, struct http_request *r, const char *path,
                      struct err *e)
{
    n->contact_at = clock_now();
    if (n->folder.job_folder)
        return ask_folder(n, r, path, e);
    if (node_must_prove(n)) {
        struct claim c = claim_of(n);

        if (prove_agents(&c, 1, e) < 0)
            return e->code;
        r->err = c.why;
        if (r->err.code)
            return 0; /* as an answer: callers try again, because the agent may start later */
        r->pin = n->pin;
    }
    if (n->is_closed) {
        err_set(&r->err, ERR_AUTH, "%s was not joined, and nothing is sent to it unencrypted", n->label);
        err_hint(&r->err, "Join it with the command that it prints, name the file of a token of the agent "
                          "with --token-file, or, in a network that you trust, use --insecure-no-tls.");
        *e = r->err;
        return err_at(e, "node(%d)", n->at.node);
    }
    if (snprintf(r->url, sizeof r->url, "%s://%s%s", r->pin || r->ca ? "https" : "http", n->at.address,
                 path) >= (int)sizeof r->url)
        return err_set(e, ERR_INTERNAL, "a URL for %s is too long", n->label);
    return http_start(h, r, e);
}

static int send_request(struct http *h, struct job_node *n, const char *method, const void *body, size_t len,
                        struct err *e, uint64_t max, const char *fmt, va_list ap)
{
    struct http_request *r = &n->call;
    char path[HTTP_URL];

    http_clear(h, r);
    prepare_call(n, r, method);
    r->max_reply = max;
    r->body = body;
    r->body_len = len;
    r->body_type = body ? "application/json" : NULL;
    vsnprintf(path, sizeof path, fmt, ap);
    return start_call(h, n, r, path, e);
}

int node_ask(struct http *h, struct job_node *n, const char *method, const void *body, size_t len,
             struct err *e, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = send_request(h, n, method, body, len, e, REPLY_MAX, fmt, ap);
    va_end(ap);
    return rc;
}

int node_put_blob(struct http *h, struct job_node *n, const char *hex, const void *bytes, int fd, size_t len,
                  double timeout_s, struct err *e)
{
    struct http_request *r = &n->call;
    char path[HTTP_URL];

    http_clear(h, r);
    prepare_call(n, r, "PUT");
    r->body = bytes;
    r->body_fd = fd;
    r->body_len = len;
    r->body_type = "application/octet-stream";
    r->timeout_s = timeout_s;
    snprintf(path, sizeof path, "/v1/blobs/sha256/%s", hex);
    return start_call(h, n, r, path, e);
}

int node_download(struct http *h, struct job_node *n, int fd, uint64_t max, const char *path, struct err *e)
{
    struct http_request *r = &n->call;

    http_clear(h, r);
    prepare_call(n, r, "GET");
    r->reply_fd = fd;
    r->max_reply = max;
    r->timeout_s = DOWNLOAD_S;
    r->must_flow = true;
    r->accept = "application/x-ndjson, */*"; /* events as lines, other files unchanged */
    return start_call(h, n, r, path, e);
}

int node_get(struct http *h, struct job_node *n, uint64_t max, struct err *e, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = send_request(h, n, "GET", NULL, 0, e, max, fmt, ap);
    va_end(ap);
    if (rc < 0)
        return rc;
    while (n->call.busy)
        http_poll(h, 1);
    return node_answer(n, e);
}

int node_answer(const struct job_node *n, struct err *e)
{
    const struct http_request *r = &n->call;

    if (r->err.code)
        *e = r->err;
    else if (r->status >= 200 && r->status < 300)
        return 0;
    else
        reply_problem(e, r->status, r->reply, r->reply_len);
    if (!r->err.code) {
        err_at(e, "%s", n->label);
        if (e->code == ERR_AUTH && r->status == 401 && !(r->cert && !n->token[0]))
            err_hint(e, "%s %s.",
                     n->token[0] ? "The token came from" : "Looked for a token:", n->token_sources);
    }
    return err_at(e, "node(%d)", n->at.node);
}

void node_end(struct job_node *n, enum job_state state, const char *reason, const char *message)
{
    if (n->is_ended)
        return;
    n->view.state = state;
    snprintf(n->view.reason, sizeof n->view.reason, "%s", reason);
    snprintf(n->view.message, sizeof n->view.message, "%s", message);
    n->is_ended = true;
    n->has_state_change = true;
    n->ended_at = clock_now();
}

bool node_may_print(struct print_limit *l, size_t len, double now, uint64_t *n_hidden)
{
    if (l->at == 0)
        l->bytes = NODE_PRINT_BYTES;
    else
        l->bytes = fmin(NODE_PRINT_BYTES, l->bytes + fmax(now - l->at, 0) * NODE_PRINT_BYTES_PER_S);
    l->at = now;
    /* After a line is left out, the bucket fills to a quarter before the next is printed: lines come in
     * blocks. */
    if (l->bytes < (double)len || (l->n_hidden > 0 && l->bytes < 0.25 * NODE_PRINT_BYTES)) {
        l->n_hidden++;
        return false;
    }
    l->bytes -= (double)len;
    *n_hidden = l->n_hidden;
    l->n_hidden = 0;
    return true;
}

void node_say(struct job_node *n, bool is_more, const char *fmt, ...)
{
    char text[SAID_MAX];
    uint64_t n_hidden;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!node_may_print(&n->said, strlen(text), clock_now(), &n_hidden)) {
        if (n->said.n_hidden == 1)
            console_info(
                "node(%d): %s sends more than is shown here; `job_submit logs %s --node %d` shows all.",
                n->at.node, n->label, n->job, n->at.node);
        return;
    }
    if (n_hidden > 0)
        console_info("node(%d): %llu lines were left out here.", n->at.node, (unsigned long long)n_hidden);
    (is_more ? console_more : console_info)("node(%d): %s", n->at.node, text);
}

static void take_state(struct job_node *n, const struct job_event *ev)
{
    if (ev->state == JOB_READY || ev->state == JOB_RUNNING)
        n->is_ready = true;
    if (ev->state == JOB_RUNNING)
        n->has_started = true;
    if (ev->state != n->view.state)
        n->has_state_change = true;
    n->view.state = ev->state;
    snprintf(n->view.reason, sizeof n->view.reason, "%s", ev->reason);
    snprintf(n->view.message, sizeof n->view.message, "%s", ev->message);
    if (ev->data_key[0])
        memcpy(n->view.data_key, ev->data_key, sizeof n->view.data_key);
}

static void note_event(struct job_node *n, double now)
{
    if (n->event_at > 0 && now - n->event_at > n->longest_gap)
        n->longest_gap = now - n->event_at;
    n->event_at = now;
}

static void on_event(void *arg, const char *line, size_t len)
{
    struct job_node *n = arg;
    struct job_event ev;
    struct err e;

    if (reply_event(&ev, &n->view.progress, line, len, &e) < 0) {
        if (!n->has_bad_event)
            console_error("node(%d): %s sent an invalid event, ignored: %s", n->at.node, n->label, e.text);
        n->has_bad_event = true;
        return;
    }
    if (ev.seq <= n->last_seq)
        return;
    n->last_seq = ev.seq;
    note_event(n, clock_now());
    if (ev.kind == EVENT_END)
        node_end(n, ev.state, ev.reason, ev.message);
    else if (ev.kind == EVENT_STATE && !n->is_ended)
        take_state(n, &ev);
    else if (ev.kind == EVENT_LOG && (strcmp(ev.reason, "warn") == 0 || strcmp(ev.reason, "error") == 0))
        node_say(n, false, "%s", ev.message);
    else if (ev.kind == EVENT_LOG)
        node_say(n, true, "%s", ev.message);
}

int node_open_stream(struct http *h, struct job_node *n, struct err *e)
{
    char path[HTTP_URL];

    http_clear(h, &n->stream);
    prepare_call(n, &n->stream, "GET");
    n->stream.timeout_s = 0;
    n->stream.accept = "application/x-ndjson";
    n->stream.on_line = on_event;
    n->stream.arg = n;
    snprintf(path, sizeof path, "/v1/jobs/%s/events?after=%llu", n->job, (unsigned long long)n->last_seq);
    n->is_streaming = !n->folder.job_folder; /* a folder has answered with all events that there are */
    return start_call(h, n, &n->stream, path, e);
}

int node_take_view(struct job_node *n, struct err *e)
{
    struct job_view v;

    if (reply_job(&v, n->call.reply, n->call.reply_len, e) < 0)
        return err_at(e, "node(%d): %s", n->at.node, n->label);
    if (n->is_ended)
        return 0;
    n->view = v;
    n->is_ready = v.state == JOB_READY || v.state == JOB_RUNNING;
    n->has_started |= v.state == JOB_RUNNING || v.started_at[0];
    if (job_state_is_terminal(v.state))
        node_end(n, v.state, v.reason, v.message);
    return 0;
}

void node_forget(struct http *h, struct job_node *n)
{
    http_clear(h, &n->call);
    http_clear(h, &n->stream);
    explicit_bzero(n->token, sizeof n->token);
    explicit_bzero(n->job_key, sizeof n->job_key);
    json_decref(n->traffic);
    n->traffic = NULL;
}
