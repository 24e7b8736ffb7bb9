#include "submit/net/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/compat.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "submit/terminal/interrupt.h"

enum {
    HEADER_MAX = 1 << 16,
    PROBLEM_MAX = 1 << 16,
    CONNECT_MS = 5000,
    LEAST_BYTES_PER_S = 1000,
    SLOW_S = 60,
    /* Connections that are opened at once. A TLS handshake takes milliseconds of processor time on both
     * sides: of hundreds at once, on a busy machine, the last ones would not be done within CONNECT_MS. */
    OPENING_MAX = 32,
    EVENTS_MAX = 64, /* sockets that one call of http_poll handles */
    /* Connections that are kept between requests. libcurl's own limit is four times the requests that run: as
     * those to hundreds of agents end, it would close nearly all connections, and the next requests would
     * open them again. */
    KEPT_MAX = 1 << 14,
    UPLOAD_LEAST = 16 << 10, /* bytes, libcurl's minimum of the buffer of a body */
    NO_SOCKET = -1           /* in place of one: the descriptor is not of libcurl */
};

/* http_waited counts as much time between two calls of http_poll: what arrives in a longer one was not
 * read. */
static const double AWAY_S = 0.25;

/* libcurl gets each request by curl_multi_socket_action, and says which sockets and which time it waits for:
 * curl_multi_perform would look at every request in each call. */
struct http {
    CURLM *multi;
    int epoll_fd;
    int watch_errno;  /* of a socket that cannot be watched; 0: none */
    double timer_at;  /* clock_now when libcurl wants to be called without an event; HUGE_VAL: not */
    double polled_at; /* clock_now of the last call of http_poll */
    double polled_s;  /* as http_waited counts time */
    struct http_private *first, *last; /* all that are busy, in order of http_start */
    size_t n_opening;
};

enum call_progress {
    IN_LINE, /* libcurl does not have it yet: OPENING_MAX others open a connection */
    OPENING, /* until its connection is open; at once if it uses one that is kept */
    OPEN
};

struct http_private {
    struct http *http;
    struct http_request *request;
    struct http_private *prev, *next;
    enum call_progress progress;
    double begun_s; /* http->polled_s when libcurl got it */
    CURL *easy;
    struct curl_slist *headers;
    size_t header_bytes, sent, capacity;
    char why[CURL_ERROR_SIZE];
    char *line; /* (HTTP_LINE) of a request with on_line */
    size_t line_len;
    bool line_too_long;
};

/* For a socket that libcurl closes, it calls this before. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    struct http *h = arg;
    struct epoll_event ev = {.data.fd = fd};

    (void)easy;
    (void)unused;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    ev.events |= what & CURL_POLL_IN ? EPOLLIN : 0;
    ev.events |= what & CURL_POLL_OUT ? EPOLLOUT : 0;
    if (epoll_ctl(h->epoll_fd, EPOLL_CTL_MOD, fd, &ev) < 0 &&
        (errno != ENOENT || epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0))
        h->watch_errno = errno;
    return 0; /* another value would end all requests without a reason */
}

static int set_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct http *h = arg;

    (void)multi;
    h->timer_at = timeout_ms < 0 ? HUGE_VAL : clock_now() + 1e-3 * (double)timeout_ms;
    return 0;
}

/* Half of the descriptors at most: requests need the others. */
static long most_kept(void)
{
    struct rlimit files;

    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < KEPT_MAX ? (long)files.rlim_cur / 2
                                                                                  : KEPT_MAX;
}

struct http *http_new(struct err *e)
{
    struct http *h = calloc(1, sizeof *h);

    if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(h->multi = curl_multi_init())) {
        free(h);
        err_set(e, ERR_NOMEM, "no memory for the HTTP client");
        return NULL;
    }
    h->timer_at = HUGE_VAL;
    h->polled_at = clock_now();
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, most_kept());
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (h->epoll_fd < 0)
        err_errno(e, ERR_IO, "epoll_create1");
    else if (interrupt_fd() < 0 || http_wake_by(h, interrupt_fd(), e) == 0) /* a signal ends the wait */
        return h;
    http_free(h);
    return NULL;
}

int http_wake_by(struct http *h, int fd, struct err *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = NO_SOCKET};

    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0
               ? err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl")
               : 0;
}

void http_free(struct http *h)
{
    if (!h)
        return;
    curl_multi_cleanup(h->multi);
    curl_global_cleanup();
    if (h->epoll_fd >= 0)
        close(h->epoll_fd);
    free(h);
}

static void list_add(struct http *h, struct http_private *p)
{
    p->prev = h->last;
    *(h->last ? &h->last->next : &h->first) = p;
    h->last = p;
}

static void list_remove(struct http *h, struct http_private *p)
{
    *(p->prev ? &p->prev->next : &h->first) = p->next;
    *(p->next ? &p->next->prev : &h->last) = p->prev;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_request *r = arg;
    long status = 0;

    r->received_at = clock_now();
    r->private->header_bytes += size * n;
    if (r->private->header_bytes > HEADER_MAX) {
        err_set(&r->err, ERR_PROTOCOL, "%s answered with more than %d bytes of header", r->peer, HEADER_MAX);
        return 0;
    }
    if (n == 2 && memcmp(bytes, "\r\n", 2) == 0) {
        curl_easy_getinfo(r->private->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200)
            r->status = (int)status;
    }
    return size * n;
}

static void split_lines(struct http_request *r, const char *bytes, size_t n)
{
    struct http_private *p = r->private;

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (p->line_len < HTTP_LINE - 1)
                p->line[p->line_len++] = bytes[i];
            else
                p->line_too_long = true;
            continue;
        }
        p->line[p->line_len] = '\0';
        if (p->line_len > 0 && !p->line_too_long)
            r->on_line(r->arg, p->line, p->line_len);
        p->line_len = 0;
        p->line_too_long = false;
    }
}

static bool append_reply(struct http_request *r, const char *bytes, size_t n)
{
    struct http_private *p = r->private;

    if (r->reply_len + n + 1 > p->capacity) {
        size_t capacity = 2 * (r->reply_len + n) + 1024;
        char *bigger = realloc(r->reply, capacity);

        if (!bigger) {
            err_set(&r->err, ERR_NOMEM, "no memory for the answer of %s", r->peer);
            return false;
        }
        r->reply = bigger;
        p->capacity = capacity;
    }
    memcpy(r->reply + r->reply_len, bytes, n);
    r->reply_len += n;
    r->reply[r->reply_len] = '\0';
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_request *r = arg;
    bool good = r->status >= 200 && r->status < 300;
    uint64_t max = good ? r->max_reply : PROBLEM_MAX;

    n *= size;
    r->received += n;
    r->received_at = clock_now();
    if (good && r->on_line) {
        split_lines(r, bytes, n);
        return n;
    }
    if (r->received > max) {
        err_set(&r->err, ERR_PROTOCOL, "%s answered with more than the allowed %llu bytes", r->peer,
                (unsigned long long)max);
        return 0;
    }
    if (good && r->reply_fd > 0)
        return file_write_all(r->reply_fd, bytes, n, "a temporary file", &r->err) < 0 ? 0 : n;
    return append_reply(r, bytes, n) ? n : 0;
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct http_request *r = arg;
    size_t left = r->body_len - r->private->sent;

    n = size * n < left ? size * n : left;
    if (r->body_fd > 0) {
        ssize_t k = pread(r->body_fd, out, n, (off_t)r->private->sent);

        if (k < 0 || (k == 0 && n > 0))
            return CURL_READFUNC_ABORT;
        n = (size_t)k;
    } else if (n > 0) {
        memcpy(out, (const char *)r->body + r->private->sent, n);
    }
    r->private->sent += n;
    return n;
}

/* curl rewinds and resends the body when a reused connection turns out to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct http_request *r = arg;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > r->body_len)
        return CURL_SEEKFUNC_FAIL;
    r->private->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Over loopback, BBR, the kernel's default on some systems, is three times slower than cubic. */
static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg;
    if (purpose == CURLSOCKTYPE_IPCXN && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) < 0)
        errno = 0; /* the kernel has no cubic: slower, still correct */
    return CURL_SOCKOPT_OK;
}

static int add_header(struct http_private *p, const char *name, const char *value)
{
    char line[512];
    struct curl_slist *more;

    if (snprintf(line, sizeof line, "%s: %s", name, value) >= (int)sizeof line)
        return -1;
    more = curl_slist_append(p->headers, line);
    explicit_bzero(line, sizeof line); /* it may hold the token */
    if (!more)
        return -1;
    p->headers = more;
    return 0;
}

static int set_headers(struct http_request *r)
{
    struct http_private *p = r->private;
    char bearer[400], attempt[16];
    int rc = 0;

    if (r->accept)
        rc |= add_header(p, "Accept", r->accept);
    if (r->body_type)
        rc |= add_header(p, "Content-Type", r->body_type);
    if (r->job_key)
        rc |= add_header(p, "X-Job-Key", r->job_key);
    if (r->attempt > 0) {
        snprintf(attempt, sizeof attempt, "%d", r->attempt);
        rc |= add_header(p, "X-Job-Attempt", attempt);
    }
    if (r->token && !r->is_unproven) {
        snprintf(bearer, sizeof bearer, "Bearer %s", r->token);
        rc |= add_header(p, "Authorization", bearer);
        explicit_bzero(bearer, sizeof bearer);
    }
    return rc;
}

static void set_body(struct http_request *r)
{
    CURL *c = r->private->easy;

    if (strcmp(r->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    } else if (strcmp(r->method, "GET") != 0) {
        curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
        curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_len);
        curl_easy_setopt(c, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(c, CURLOPT_READDATA, r);
        curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(c, CURLOPT_SEEKDATA, r);
        curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, r->body_len > UPLOAD_LEAST ? 1L << 20 : UPLOAD_LEAST);
    }
}

/* libcurl's form: "sha256//BASE64=;sha256//BASE64=". */
static bool set_pins(CURL *c, const char *const *pins, size_t n)
{
    static const char before[] = ";sha256//";
    char *text = malloc(n * (sizeof before + BASE64_TEXT) + 1), *end = text;
    bool is_set;

    if (!text)
        return false;
    for (size_t i = 0; i < n; i++) {
        end = stpcpy(end, before + (i == 0));
        for (const char *from = pins[i]; *from; from++) /* base64url to base64 */
            *end++ = (char)(*from == '-' ? '+' : *from == '_' ? '/' : *from);
        end = stpcpy(end, "=");
    }
    is_set = curl_easy_setopt(c, CURLOPT_PINNEDPUBLICKEY, text) == CURLE_OK;
    free(text);
    return is_set;
}

/* With a CA, libcurl checks the server's certificate, with its dates and its name. */
static bool set_ca(CURL *c, const struct http_request *r)
{
    return curl_easy_setopt(c, CURLOPT_CAINFO, r->ca) == CURLE_OK &&
           (!r->cert || (curl_easy_setopt(c, CURLOPT_SSLCERT, r->cert) == CURLE_OK &&
                         curl_easy_setopt(c, CURLOPT_SSLKEY, r->key) == CURLE_OK));
}

/* Without a CA only the server's key is checked: the certificate's name and dates do not matter. */
static bool set_tls(struct http_request *r)
{
    CURL *c = r->private->easy;
    size_t n_pins = r->pin ? 1 : r->n_pins;

    /* The system's CAs are not trusted; libcurl would read them, some 150 files, for each connection. */
    curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    return (n_pins == 0 || set_pins(c, r->pin ? &r->pin : r->pins, n_pins)) && (!r->ca || set_ca(c, r)) &&
           curl_easy_setopt(c, COMPAT_CURLOPT_PROTOCOLS, COMPAT_CURL_HTTPS) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, r->ca ? 1L : 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, r->ca ? 2L : 0L) == CURLE_OK &&
           curl_easy_setopt(c, CURLOPT_CONNECT_ONLY, (long)r->is_handshake) == CURLE_OK;
}

static bool set_protocols(struct http_request *r)
{
    if (r->pin || r->n_pins > 0 || r->ca || r->is_unproven)
        return set_tls(r);
    return curl_easy_setopt(r->private->easy, COMPAT_CURLOPT_PROTOCOLS,
                            r->is_public ? COMPAT_CURL_HTTP_HTTPS : COMPAT_CURL_HTTP) == CURLE_OK;
}

static void set_rules(struct http_request *r)
{
    CURL *c = r->private->easy;

    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(r->timeout_s * 1e3));
    if (r->must_flow) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)LEAST_BYTES_PER_S);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
    }
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, r->reply_fd > 0 ? 1L << 18 : 1L << 14);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPIDLE, 3L);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPINTVL, 2L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, r->private->why);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "job_submit/" PSGD_VERSION);
    if (!r->is_public)
        curl_easy_setopt(c, CURLOPT_PROXY, "");
    if (r->is_local)
        curl_easy_setopt(c, CURLOPT_SOCKOPTFUNCTION, on_socket);
}

int http_start(struct http *h, struct http_request *r, struct err *e)
{
    struct http_private *p = calloc(1, sizeof *p);

    r->private = p;
    if (p)
        *p = (struct http_private){
            .http = h, .request = r, .line = r->on_line ? malloc(HTTP_LINE) : NULL, .easy = curl_easy_init()};
    if (!p || !p->easy || (r->on_line && !p->line) || set_headers(r) < 0) {
        http_clear(h, r);
        return err_set(e, ERR_NOMEM, "no memory for a request to %s", r->peer);
    }
    if (!set_protocols(r)) {
        http_clear(h, r);
        return err_set(e, ERR_INTERNAL, "this libcurl cannot check a server's key%s",
                       r->pin || r->n_pins > 0 || r->ca ? "" : ", or lacks HTTP");
    }
    r->err = (struct err){0};
    r->is_refused = false;
    r->status = 0;
    r->received = 0;
    r->reply_len = 0;
    r->received_at = clock_now();
    set_rules(r);
    set_body(r);
    curl_easy_setopt(p->easy, CURLOPT_URL, r->url);
    curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, p->headers);
    curl_easy_setopt(p->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(p->easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(p->easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(p->easy, CURLOPT_PRIVATE, r);
    list_add(h, p);
    r->busy = true;
    return 0;
}

static void set_progress(struct http_private *p, enum call_progress progress)
{
    p->http->n_opening += (size_t)(progress == OPENING) - (size_t)(p->progress == OPENING);
    p->progress = progress;
}

/* Frees the curl handles; keeps the reply. */
static void drop(struct http *h, struct http_request *r)
{
    struct http_private *p = r->private;

    r->private = NULL;
    if (r->busy)
        list_remove(h, p);
    r->busy = false;
    if (!p)
        return;
    if (p->easy) {
        if (p->progress != IN_LINE)
            curl_multi_remove_handle(h->multi, p->easy);
        curl_easy_cleanup(p->easy);
    }
    set_progress(p, OPEN);
    for (struct curl_slist *s = p->headers; s; s = s->next)
        explicit_bzero(s->data, strlen(s->data)); /* the token is in one */
    curl_slist_free_all(p->headers);
    free(p->line);
    free(p);
}

void http_clear(struct http *h, struct http_request *r)
{
    drop(h, r);
    free(r->reply);
    r->reply = NULL;
    r->reply_len = 0;
}

/* The message about a server with another key than the pinned one, by the origin of the pin. */
static const struct {
    const char *what, *hint;
} pin_failures[] = {
    [PIN_JOINED] =
        {"has another key than the one that was joined: it may be another program",
         "If joined agents have changed their addresses, `job_submit agents` finds them; if the agent "
         "was set up anew, join it again with the command it prints; nothing was sent to it."},
    [PIN_HERE] =
        {"has another key than the agent that is known at this address: it may be another user's program; "
         "nothing was sent to it",
         "Start the agent again. If joined agents have changed their addresses, `job_submit agents` "
         "finds them; if an agent of another machine or user is reached at this port, remove the port's "
         ".pin and .token from psgd/agents in your state folder."},
    [PIN_LISTED] = {"has another key than the list of workers names: it may be another program; nothing was "
                    "sent to it",
                    "If the agent was set up anew, write its new fingerprint into the list."},
};

static void explain(struct http_request *r, CURLcode rc)
{
    const char *why = r->private->why[0] ? r->private->why : curl_easy_strerror(rc);
    char limit[ERR_LIMIT_TEXT];
    long os_errno = 0;

    if (rc == CURLE_OK && r->status == 0 && !r->is_handshake)
        err_set(&r->err, ERR_PROTOCOL, "%s closed the connection without an answer", r->peer);
    if (rc == CURLE_OK || r->err.code)
        return;
    curl_easy_getinfo(r->private->easy, CURLINFO_OS_ERRNO, &os_errno);
    if (rc == CURLE_COULDNT_CONNECT && os_errno) {
        r->is_refused = os_errno == ECONNREFUSED;
        err_limit_text(limit, CALL_OTHER, (int)os_errno);
        err_set(&r->err, ERR_UNREACHABLE, "%s does not answer (%s%s%s)", r->peer, strerror((int)os_errno),
                limit[0] ? ": " : "", limit);
    } else if (rc == CURLE_SSL_PINNEDPUBKEYNOTMATCH) {
        err_set(&r->err, ERR_AUTH, "%s %s", r->peer, pin_failures[r->pin_origin].what);
        err_hint(&r->err, "%s", pin_failures[r->pin_origin].hint);
    } else if (rc == CURLE_PEER_FAILED_VERIFICATION) {
        err_set(
            &r->err, ERR_AUTH,
            "%s has no certificate that a CA of %.300s has signed, that is valid now and that has this name; "
            "nothing was sent to it (%s)",
            r->peer, r->ca, why);
        err_hint(&r->err,
                 "Compare its certificate, `certtool -i <FILE`, with the address in worker.json and with "
                 "the time.");
    } else if (rc == CURLE_SSL_CACERT_BADFILE || rc == CURLE_SSL_CERTPROBLEM) {
        err_set(&r->err, ERR_CONFIG, "the file of --ca, --cert or --key is no valid PEM file (%s)", why);
    } else if (rc == CURLE_SSL_CONNECT_ERROR) {
        err_set(&r->err, ERR_UNREACHABLE, "%s does not answer in TLS 1.3; nothing was sent to it (%s)",
                r->peer, why);
        err_hint(&r->err, "It may be another program, or an agent of an older version, which needs "
                          "--insecure-no-tls.");
    } else if (rc == CURLE_GOT_NOTHING && !r->pin) {
        err_set(&r->err, ERR_UNREACHABLE, "%s does not answer (%s)", r->peer, why);
        err_hint(&r->err, "If it uses TLS, join it first, with the command that it prints when it starts.");
    } else if (rc == CURLE_WEIRD_SERVER_REPLY || rc == CURLE_UNSUPPORTED_PROTOCOL) {
        err_set(&r->err, ERR_PROTOCOL, "%s does not answer in HTTP (%s)", r->peer, why);
    } else {
        err_set(&r->err, ERR_UNREACHABLE, "%s does not answer (%s)", r->peer, why);
    }
}

/* Ends completed requests. */
static void finish_done(struct http *h)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(h->multi, &left)) != NULL) {
        struct http_request *r = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        explain(r, m->data.result);
        drop(h, r);
    }
}

/* libcurl reports when a connection is open in no other way. */
static void find_opened(struct http *h)
{
    for (struct http_private *p = h->first; p && h->n_opening > 0; p = p->next) {
        double open_s = 0;

        if (p->progress == OPENING && curl_easy_getinfo(p->easy, CURLINFO_PRETRANSFER_TIME, &open_s) == 0 &&
            open_s > 0)
            set_progress(p, OPEN);
    }
}

static void begin_next(struct http *h)
{
    for (struct http_private *p = h->first, *next; p && h->n_opening < OPENING_MAX; p = next) {
        struct http_request *r = p->request;

        next = p->next;
        if (p->progress != IN_LINE)
            continue;
        p->begun_s = h->polled_s;
        r->received_at = clock_now();
        if (curl_multi_add_handle(h->multi, p->easy) == CURLM_OK) {
            set_progress(p, OPENING);
            continue;
        }
        err_set(&r->err, ERR_INTERNAL, "libcurl refused a request to %s", r->peer);
        drop(h, r);
    }
}

/* Without events of a socket its request would never end. */
static void fail_unwatched(struct http *h)
{
    for (struct http_private *p = h->first, *next; p && h->watch_errno; p = next) {
        struct http_request *r = p->request;

        next = p->next;
        errno = h->watch_errno;
        err_call(&r->err, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl");
        drop(h, r);
    }
    h->watch_errno = 0;
}

static void count_time(struct http *h, double most_s)
{
    double now = clock_now();

    h->polled_s += fmin(now - h->polled_at, most_s);
    h->polled_at = now;
}

static void handle_events(struct http *h, double timeout_s)
{
    struct epoll_event events[EVENTS_MAX];
    double wait_s = fmin(timeout_s, fmax(h->timer_at - clock_now(), 0));
    int n = epoll_wait(h->epoll_fd, events, EVENTS_MAX, (int)ceil(1e3 * wait_s)), running;

    for (int i = 0; i < n; i++) {
        int what = 0;

        if (events[i].data.fd == NO_SOCKET)
            continue;
        what |= events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0;
        what |= events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
        what |= events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
        curl_multi_socket_action(h->multi, events[i].data.fd, what, &running);
    }
    interrupt_drain();
    if (clock_now() < h->timer_at)
        return;
    h->timer_at = HUGE_VAL; /* the call sets the next one */
    curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

void http_poll(struct http *h, double timeout_s)
{
    count_time(h, AWAY_S);
    begin_next(h);
    handle_events(h, timeout_s);
    fail_unwatched(h);
    finish_done(h);
    find_opened(h);
    count_time(h, timeout_s + AWAY_S);
}

double http_waited(const struct http *h, const struct http_request *r)
{
    return r->busy && r->private->progress != IN_LINE ? h->polled_s - r->private->begun_s : 0;
}
