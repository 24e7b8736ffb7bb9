#include "submit/browse/server.h"

#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "page/page.h"
#include "shared/base/address.h"
#include "shared/http/http_server.h"
#include "submit/browse/page_access.h"
#include "submit/browse/page_routes.h"

static const double keep_alive_s = 15;

struct server {
    struct job_list *job_list;
    char policy[PAGE_POLICY];
    char url[128];
    pthread_t thread;

    /* Used only by the server's thread. */
    struct loop loop;
    struct http_server *http;
    struct page_access access;
    struct watch wake;  /* an eventfd: a request is answered, or the server ends */
    uint64_t n_changes; /* requests answered */

    pthread_mutex_t lock; /* of the following members */
    pthread_cond_t idle;
    struct work *done;
    unsigned n_working;
    bool is_closing;
};

/* A request that a thread of its own answers, because the answer may have to wait. If the answer is the
 * stream of events, such a thread also makes each further part. */
struct work {
    struct server *server;
    struct work *next;
    bool is_working;   /* its own thread uses it; set and read by the server's thread */
    bool is_abandoned; /* the connection ended meanwhile; likewise */
    struct page_request rq;
    struct page_response answer; /* status 0: not made yet */
    struct job_list_reader reader;
    char *events;
    size_t n_events, n_sent;
    bool has_ended; /* the stream has ended */
};

static void work_free(struct work *w)
{
    if (!w)
        return;
    target_clear(&w->rq.target);
    page_response_clear(&w->answer);
    free(w->events);
    free(w);
}

/* Makes the next part of the stream. Without memory the stream ends, because a browser would take an
 * incomplete event for a complete one. */
static void read_events(struct work *w)
{
    FILE *f;
    int rc;

    free(w->events);
    w->events = NULL;
    w->n_sent = w->n_events = 0;
    w->has_ended = true;
    f = open_memstream(&w->events, &w->n_events);
    if (!f)
        return;
    rc = job_list_events(f, w->server->job_list, &w->reader, keep_alive_s);
    if (rc == 0 && ftell(f) == 0)
        fputs(": keep-alive\n\n", f); /* shows both ends that the connection is alive */
    rc = ferror(f) ? -1 : rc;
    w->has_ended = fclose(f) != 0 || rc < 0;
}

static void wake(struct server *s)
{
    eventfd_write(s->wake.fd, 1);
}

static void *work_thread(void *arg)
{
    struct work *w = arg;
    struct server *s = w->server;

    if (w->answer.status == 0)
        page_routes_answer(&w->answer, s->job_list, &w->rq);
    else
        read_events(w);
    pthread_mutex_lock(&s->lock);
    w->next = s->done;
    s->done = w;
    s->n_working--;
    wake(s);
    pthread_cond_signal(&s->idle);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static bool work_start(struct work *w)
{
    struct server *s = w->server;
    pthread_t thread;
    bool has_begun;

    pthread_mutex_lock(&s->lock);
    has_begun = s->n_working < PAGE_CONNECTIONS && pthread_create(&thread, NULL, work_thread, w) == 0;
    s->n_working += has_begun;
    pthread_mutex_unlock(&s->lock);
    if (has_begun)
        pthread_detach(thread);
    w->is_working = has_begun;
    return has_begun;
}

/* Takes `target`. NULL: no memory. */
static struct work *work_new(struct server *s, const char *method, struct target *target)
{
    struct work *w = calloc(1, sizeof *w);

    if (!w) {
        target_clear(target);
        return NULL;
    }
    *w = (struct work){.server = s, .rq.target = *target, .answer.fd = -1};
    snprintf(w->rq.method, sizeof w->rq.method, "%s", method);
    return w;
}

static struct server *server_of(const struct http_call *c)
{
    return http_arg(c);
}

/* Moves body and file of the answer to the connection. */
static void respond(struct http_call *c, struct page_response *a, const char *cookie)
{
    char disposition[160];
    struct http_response out = {
        .status = (unsigned)a->status, .fd = a->fd, .bytes = a->body, .static_bytes = ""};

    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", a->name);
    const struct header headers[] = {{"Cache-Control", "no-store"},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"X-Frame-Options", "DENY"},
                                     {"Referrer-Policy", "no-referrer"},
                                     {"Cross-Origin-Opener-Policy", "same-origin"},
                                     {"Cross-Origin-Resource-Policy", "same-origin"},
                                     {"Content-Security-Policy", server_of(c)->policy},
                                     {"Content-Type", a->type},
                                     {"Content-Disposition", a->name[0] ? disposition : NULL},
                                     {"Set-Cookie", cookie}};
    out.headers = headers;
    out.n_headers = sizeof headers / sizeof *headers;
    out.kind = a->is_events                 ? HTTP_STREAM
               : a->fd >= 0 && a->bytes > 0 ? HTTP_FILE
               : a->body                    ? HTTP_BYTES
                                            : HTTP_STATIC;
    out.len = out.kind == HTTP_FILE ? a->bytes : out.kind == HTTP_BYTES ? a->len : 0;
    if (!http_respond(c, &out))
        return;
    if (out.kind == HTTP_FILE)
        a->fd = -1;
    else if (out.kind == HTTP_BYTES)
        a->body = NULL;
}

static void respond_problem(struct http_call *c, int status, const char *why)
{
    struct page_response a = {.fd = -1};

    page_routes_problem(&a, status, why);
    respond(c, &a, NULL);
    page_response_clear(&a);
}

/* The answer is a page that opens / itself: after a redirection, a browser that came from another site would
 * not send the new cookie (SameSite). */
static void respond_with_cookie(struct http_call *c)
{
    static const char page[] =
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=/\">"
        "<title>psgd</title><a href=\"/\">To the jobs</a>";
    const struct page_access *access = &server_of(c)->access;
    struct page_response a = {
        .fd = -1, .status = 200, .type = "text/html; charset=utf-8", .body = strdup(page)};
    char cookie[160];

    a.len = a.body ? sizeof page - 1 : 0;
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", access->cookie_name,
             access->cookie);
    respond(c, &a, cookie);
    page_response_clear(&a);
}

/* Refuses the request, or sets the call's work, which takes `target`. */
static void admit_request(struct http_call *c, struct target *target)
{
    struct server *s = server_of(c);
    const struct head *head = c->head;
    struct page_refusal refusal;
    enum page_answer admitted = page_access_check(&s->access, head, target->path,
                                                  target_query(target, "token"), &refusal);

    if (admitted == PAGE_REFUSE) {
        respond_problem(c, refusal.status, refusal.why);
        return;
    }
    http_mark_authenticated(c);
    if (admitted == PAGE_SET_COOKIE) {
        respond_with_cookie(c);
    } else if (strcmp(head->method, "GET") != 0 && strcmp(head->method, "HEAD") != 0 &&
               strcmp(head->method, "POST") != 0) {
        respond_problem(c, 405, "the page takes GET, HEAD and POST");
    } else {
        c->own = work_new(s, head->method, target);
        *target = (struct target){0};
        if (!c->own)
            respond_problem(c, 503, "no memory for the request");
    }
}

static void begin_request(struct http_call *c)
{
    struct target target = {0};
    char why[128];
    struct err e;

    if (c->refusal) {
        snprintf(why, sizeof why, HEAD_INVALID, c->refusal);
        respond_problem(c, 400, why);
    } else if (target_parse(&target, c->head->target, &e) < 0) {
        respond_problem(c, e.code == ERR_USAGE ? 400 : 503, e.text);
    } else {
        admit_request(c, &target);
    }
    target_clear(&target);
}

static bool is_ready(const struct http_call *c)
{
    const struct work *w = c->own;

    return !w->is_working;
}

static void proceed(struct http_call *c)
{
    struct work *w = c->own;

    if (http_is_closing(c))
        return;
    c->is_brief = w->answer.status == 0;
    if (!c->is_brief)
        respond(c, &w->answer, NULL);
    else if (work_start(w))
        http_park(c, HUGE_VAL);
    else
        respond_problem(c, 503, "too many requests at once; try again");
}

static ssize_t read_stream(struct http_call *c, char *buf, size_t size)
{
    struct work *w = c->own;
    size_t n;

    if (w->is_working)
        return 0;
    if (w->n_sent == w->n_events && !w->has_ended)
        return work_start(w) ? 0 : -1;
    if (w->has_ended)
        return -1;
    n = w->n_events - w->n_sent < size ? w->n_events - w->n_sent : size;
    memcpy(buf, w->events + w->n_sent, n);
    w->n_sent += n;
    return (ssize_t)n;
}

static void end_request(struct http_call *c)
{
    struct work *w = c->own;

    if (w && w->is_working)
        w->is_abandoned = true;
    else
        work_free(w);
}

static const struct http_service page_service = {.begin = begin_request,
                                                 .proceed = proceed,
                                                 .is_ready = is_ready,
                                                 .read = read_stream,
                                                 .end = end_request};

static struct work *take_done(struct server *s)
{
    struct work *w;

    pthread_mutex_lock(&s->lock);
    w = s->done;
    s->done = NULL;
    pthread_mutex_unlock(&s->lock);
    return w;
}

static void on_wake(void *arg, uint32_t events)
{
    struct server *s = arg;
    eventfd_t n;

    (void)events;
    eventfd_read(s->wake.fd, &n);
    for (struct work *w = take_done(s), *next; w; w = next) {
        next = w->next;
        w->is_working = false;
        s->n_changes++;
        if (w->is_abandoned)
            work_free(w);
    }
}

static bool is_closing(struct server *s)
{
    bool is;

    pthread_mutex_lock(&s->lock);
    is = s->is_closing;
    pthread_mutex_unlock(&s->lock);
    return is;
}

static void *server_thread(void *arg)
{
    struct server *s = arg;

    while (!is_closing(s)) {
        loop_turn(&s->loop, http_server_max_wait(s->http));
        http_server_turn(s->http);
    }
    http_server_close(s->http);
    return NULL;
}

static int listen_at(int *fd, int *port, struct err *e)
{
    const struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct address at = {.len = sizeof v4};

    memcpy(&at.at, &v4, sizeof v4);
    *fd = address_listen(&at);
    if (*fd >= 0) {
        *port = address_port(&at.at);
        return 0;
    }
    err_errno(e, ERR_IO, "127.0.0.1:%d", *port);
    return err_hint(e, "Without --port the page gets a free port.");
}

/* This thread, and the threads that it makes, block all signals: the main thread handles them. */
static int start_thread(struct server *s, struct err *e)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&s->thread, NULL, server_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : err_set(e, ERR_IO, "the page's server cannot start: %s", strerror(rc));
}

static int open_http(struct server *s, int fd, struct err *e)
{
    const struct http_options o = {.loop = &s->loop,
                                   .allows_plain = true,
                                   .max = PAGE_CONNECTIONS,
                                   .max_unauthenticated = PAGE_UNAUTHENTICATED,
                                   .max_per_source = PAGE_UNAUTHENTICATED,
                                   .service = &page_service,
                                   .arg = s,
                                   .n_changes = &s->n_changes};

    s->wake = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = on_wake, .arg = s};
    if (s->wake.fd < 0)
        err_errno(e, ERR_IO, "eventfd");
    if (s->wake.fd < 0 || loop_open(&s->loop, e) < 0 || loop_watch(&s->loop, &s->wake, EPOLLIN, e) < 0) {
        close(fd);
        return e->code;
    }
    if (http_server_open(&s->http, &o, fd, e) < 0)
        return e->code;
    if (start_thread(s, e) == 0)
        return 0;
    http_server_close(s->http);
    return e->code;
}

static void server_free(struct server *s)
{
    for (struct work *w = s->done, *next; w; w = next) {
        next = w->next;
        work_free(w);
    }
    loop_close(&s->loop);
    if (s->wake.fd >= 0)
        close(s->wake.fd);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    explicit_bzero(&s->access, sizeof s->access);
    free(s);
}

int server_open(struct server **out, struct job_list *job_list, int port, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    int fd;

    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for the page's server");
    if (listen_at(&fd, &port, e) < 0) {
        free(s);
        return e->code;
    }
    s->job_list = job_list;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    page_access_init(&s->access, port);
    page_policy(s->policy, PAGE_SERVED);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/?token=%s", port, s->access.token);
    if (open_http(s, fd, e) < 0) {
        server_free(s);
        return e->code;
    }
    *out = s;
    return 0;
}

const char *server_url(const struct server *s)
{
    return s->url;
}

void server_close(struct server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&s->lock);
    while (s->n_working > 0)
        pthread_cond_wait(&s->idle, &s->lock);
    pthread_mutex_unlock(&s->lock);
    server_free(s);
}
