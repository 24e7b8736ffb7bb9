#include "submit/browse/server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "page/page.h"
#include "submit/browse/door.h"
#include "submit/browse/page_routes.h"
#include "submit/browse/strangers.h"

/* Those of strangers are counted apart: the others are of one browser. More strangers may be on
 * their way out. */
enum { CONNECTIONS = 4 * STRANGERS, IDLE_S = 60, BLOCK = 16 << 10 };

static const double keep_alive_s = 15;

/* libmicrohttpd 0.9.72 declares these as size_t. */
enum { READ_ENDED = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM };

struct server {
    struct MHD_Daemon *daemon;
    struct shelf *shelf;
    pthread_mutex_t lock; /* of door and strangers */
    struct door door;
    struct strangers strangers;
    char policy[PAGE_POLICY];
    char url[128];
};

/* A connection that gets events. */
struct stream {
    struct shelf *shelf;
    struct shelf_reader reader;
    char *text; /* not sent yet: len bytes from `at` */
    size_t at, len;
};

static int fill(struct stream *s)
{
    FILE *f;
    int rc;

    free(s->text);
    s->text = NULL;
    s->at = s->len = 0;
    f = open_memstream(&s->text, &s->len);
    if (!f)
        return -1;
    rc = shelf_events(f, s->shelf, &s->reader, keep_alive_s);
    rc = ferror(f) ? -1 : rc; /* half an event would be taken for a whole one */
    if (fclose(f) != 0 || rc < 0)
        return -1;
    if (s->len > 0)
        return 0;
    free(s->text); /* a comment shows both ends that the connection is alive */
    s->text = strdup(": keep-alive\n\n");
    s->len = s->text ? strlen(s->text) : 0;
    return s->text ? 0 : -1;
}

static ssize_t read_events(void *arg, uint64_t pos, char *out, size_t size)
{
    struct stream *s = arg;
    size_t n;

    (void)pos;
    if (s->at == s->len && fill(s) < 0)
        return READ_ENDED;
    n = s->len - s->at < size ? s->len - s->at : size;
    memcpy(out, s->text + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static void free_stream(void *arg)
{
    struct stream *s = arg;

    free(s->text);
    free(s);
}

static struct MHD_Response *events_response(struct shelf *shelf)
{
    struct stream *s = calloc(1, sizeof *s);
    struct MHD_Response *r;

    if (!s)
        return NULL;
    s->shelf = shelf;
    r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, s, free_stream);
    if (!r)
        free(s);
    return r;
}

/* Takes what the answer owns. */
static struct MHD_Response *response_of(struct browse_answer *a, struct shelf *shelf)
{
    struct MHD_Response *r;

    if (a->is_events)
        return events_response(shelf);
    if (a->fd >= 0) {
        r = MHD_create_response_from_fd64(a->bytes, a->fd);
        a->fd = r ? -1 : a->fd;
        return r;
    }
    r = MHD_create_response_from_buffer(a->len, a->body, MHD_RESPMEM_MUST_FREE);
    a->body = r ? NULL : a->body;
    return r;
}

/* The page without its policy must not be shown: false without memory, and then there is no answer. */
static bool add(struct MHD_Response *r, const char *name, const char *value)
{
    return MHD_add_response_header(r, name, value) == MHD_YES;
}

static bool add_headers(const struct server *s, struct MHD_Response *r, const struct browse_answer *a)
{
    static const char *const fixed[][2] = {{"Cache-Control", "no-store"},
                                           {"X-Content-Type-Options", "nosniff"},
                                           {"X-Frame-Options", "DENY"},
                                           {"Referrer-Policy", "no-referrer"},
                                           {"Cross-Origin-Opener-Policy", "same-origin"},
                                           {"Cross-Origin-Resource-Policy", "same-origin"}};
    char disposition[160];

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!add(r, fixed[i][0], fixed[i][1]))
            return false;
    if (!add(r, "Content-Security-Policy", s->policy) || (a->type && !add(r, "Content-Type", a->type)))
        return false;
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", a->name);
    return !a->name[0] || add(r, "Content-Disposition", disposition);
}

/* Goes on to / by itself: were it a redirection, a browser that came from another site would not send the new
 * cookie there (SameSite). */
static void welcome(struct browse_answer *a)
{
    *a = (struct browse_answer){
        .fd = -1,
        .status = 200,
        .type = "text/html; charset=utf-8",
        .body = strdup(
            "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=/\">"
            "<title>psgd</title><a href=\"/\">To the jobs</a>")};
    a->len = a->body ? strlen(a->body) : 0;
}

static bool set_cookie(const struct server *s, struct MHD_Response *r)
{
    char cookie[160];

    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", s->door.cookie_name,
             s->door.cookie);
    return add(r, "Set-Cookie", cookie);
}

static enum MHD_Result take_header(void *rq, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                   const char *value, size_t len)
{
    (void)kind;
    (void)name_len;
    door_take(rq, name, value, len);
    return MHD_YES;
}

static const char *query_of(void *ctx, const char *key)
{
    return MHD_lookup_connection_value(ctx, MHD_GET_ARGUMENT_KIND, key);
}

static int socket_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* The socket is open yet when the connection has ended. */
static void on_connection(void *arg, struct MHD_Connection *c, void **ctx,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *s = arg;

    (void)ctx;
    pthread_mutex_lock(&s->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        strangers_add(&s->strangers, socket_of(c));
    else
        strangers_remove(&s->strangers, socket_of(c));
    pthread_mutex_unlock(&s->lock);
}

static struct door_request request_of(struct MHD_Connection *c, const char *method, const char *path)
{
    struct door_request rq = {.method = method, .path = path, .token = query_of(c, "token")};

    MHD_get_connection_values_n(c, MHD_HEADER_KIND, take_header, &rq);
    return rq;
}

static enum door_answer admit(struct server *s, struct MHD_Connection *c, const char *method,
                              const char *path, const char **why)
{
    const struct door_request rq = request_of(c, method, path);
    enum door_answer answer;

    pthread_mutex_lock(&s->lock);
    answer = door_check(&s->door, &rq, why);
    if (answer != DOOR_REFUSE)
        strangers_remove(&s->strangers, socket_of(c));
    pthread_mutex_unlock(&s->lock);
    return answer;
}

static enum MHD_Result answer(struct server *s, struct MHD_Connection *c, const char *method,
                              const char *path)
{
    const struct browse_request rq = {.method = method, .path = path, .query = query_of, .ctx = c};
    struct browse_answer a = {.fd = -1};
    const char *why = "";
    enum door_answer admitted = admit(s, c, method, path, &why);
    struct MHD_Response *r;
    enum MHD_Result rc;

    if (admitted == DOOR_SERVE)
        browse_route(&a, s->shelf, &rq);
    else if (admitted == DOOR_WELCOME)
        welcome(&a);
    else
        browse_problem(&a, 403, why);
    r = response_of(&a, s->shelf);
    if (!r) {
        browse_answer_clear(&a);
        return MHD_NO;
    }
    rc = add_headers(s, r, &a) && (admitted != DOOR_WELCOME || set_cookie(s, r))
             ? MHD_queue_response(c, (unsigned)a.status, r)
             : MHD_NO;
    MHD_destroy_response(r);
    browse_answer_clear(&a);
    return rc;
}

/* Called with the head, then with each part of the body, then once more. */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                                  const char *version, const char *body, size_t *body_len, void **state)
{
    static char begun;
    struct door_request rq;

    (void)version;
    (void)body;
    if (!*state) {
        *state = &begun;
        rq = request_of(c, method, path);
        /* Its answer comes before the body, and is the connection's last: nothing in the body is read as a
         * request. */
        return door_has_body(&rq) ? answer(arg, c, method, path) : MHD_YES;
    }
    if (*body_len > 0) { /* no route has one */
        *body_len = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "POST") != 0)
        return MHD_NO;
    return answer(arg, c, method, path);
}

static int listen_at(int *fd, int *port, struct err *e)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int one = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "a socket for the page");
    if (setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(*fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(*fd, SOMAXCONN) == 0 &&
        getsockname(*fd, (struct sockaddr *)&at, &len) == 0) {
        *port = ntohs(at.sin_port);
        return 0;
    }
    err_errno(e, ERR_IO, "127.0.0.1:%d", *port);
    close(*fd);
    return err_hint(e, "Leave --port out, and the page gets a free one.");
}

int server_open(struct server **out, struct shelf *shelf, int port, struct err *e)
{
    struct server *s = calloc(1, sizeof *s);
    int fd;

    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for the page's server");
    if (listen_at(&fd, &port, e) < 0) {
        free(s);
        return e->code;
    }
    s->shelf = shelf;
    pthread_mutex_init(&s->lock, NULL);
    door_open(&s->door, port);
    page_policy(s->policy, PAGE_SERVED);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/?token=%s", port, s->door.token);
    s->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL,
        on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
    if (!s->daemon) {
        close(fd);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return err_set(e, ERR_IO, "the page's server cannot start");
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
    MHD_stop_daemon(s->daemon);
    pthread_mutex_destroy(&s->lock);
    explicit_bzero(&s->door, sizeof s->door);
    free(s);
}
