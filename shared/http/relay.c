/* Moves bytes between a client and the library: no other file reads or writes a client's socket. */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

static const double NEXT_HEAD_S = 10; /* from the first byte of a later head to its end */
static const double LINGER_S = 5;

enum { CHUNK = CONN_CHUNK };

enum progress { NOTHING, MOVED, OVER };

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* Reads as many TLS records, each of at most 16 KiB, as fit. The next call reports an end or an error behind
 * them. */
static ssize_t client_recv(struct conn *k, char *out, size_t len)
{
    size_t sum = 0;
    ssize_t n;

    if (!k->tls)
        return recv(k->client.fd, out, len, 0);
    do {
        n = tls_session_recv(k->tls, out + sum, len - sum);
        sum += n > 0 ? (size_t)n : 0;
    } while (n > 0 && sum < len);
    return sum > 0 ? (ssize_t)sum : n;
}

/* Sends as many bytes as the client takes, and keeps the rest in k->out. */
static enum progress to_client(struct conn *k, const char *bytes, size_t len)
{
    size_t sent = 0;
    ssize_t n = 0;

    while (sent < len && n >= 0) {
        n = k->tls ? tls_session_send(k->tls, bytes + sent, len - sent)
                   : send(k->client.fd, bytes + sent, len - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    if (n < 0 && !would_block())
        return OVER;
    if (sent > 0 || k->stalled_at == 0)
        k->stalled_at = clock_now();
    if (sent == len) {
        k->stalled_at = 0;
        free(k->out);
        k->out = NULL;
    } else if (k->out) {
        k->out_at += sent;
    } else {
        k->out = malloc(len - sent);
        if (!k->out)
            return OVER;
        memcpy(k->out, bytes + sent, len - sent);
        k->n_out = len - sent;
        k->out_at = 0;
    }
    return MOVED;
}

/* The same towards the library, with k->in. If the library has closed its end, the bytes are dropped. */
static enum progress to_library(struct conn *k, const char *bytes, size_t len)
{
    ssize_t n = send(k->inner.fd, bytes, len, MSG_NOSIGNAL);
    size_t sent = n > 0 ? (size_t)n : n < 0 && !would_block() ? len : 0;

    if (sent == len) {
        free(k->in);
        k->in = NULL;
        return MOVED;
    }
    if (k->in) {
        k->in_at += sent;
        return sent > 0 ? MOVED : NOTHING;
    }
    k->in = malloc(len - sent);
    if (!k->in)
        return OVER;
    memcpy(k->in, bytes + sent, len - sent);
    k->n_in = len - sent;
    k->in_at = 0;
    return MOVED;
}

static void on_inner(void *arg, uint32_t events);

/* Gives the library one end of a socket pair as the client's connection. */
static bool connect_library(struct conn *k)
{
    struct conns *c = k->conns;
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    int pair[2];

    if (k->inner.fd >= 0)
        return true;
    if (getpeername(k->client.fd, (struct sockaddr *)&peer, &len) < 0)
        return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
        conns_log_unaccepted(c, errno);
        return false;
    }
    k->inner = (struct watch){.fd = pair[0], .ready = on_inner, .arg = k};
    k->library_fd = pair[1];
    k->has_library_end = true;
    k->next_starting = c->starting;
    c->starting = k;
    if (MHD_add_connection(c->library, pair[1], (struct sockaddr *)&peer, len) == MHD_YES)
        return true;
    c->starting = k->next_starting; /* the library has closed its end */
    k->has_library_end = false;
    return false;
}

static void set_awaited(struct conn *k, bool is_awaited)
{
    k->conns->n_awaited += (unsigned)is_awaited - (unsigned)k->is_awaited;
    k->is_awaited = is_awaited;
}

/* Sends the library the head that head_write makes, and the bytes of the body that have come with the
 * client's. */
static enum progress take_request(struct conn *k, size_t head_len)
{
    struct request_head *in = k->request;
    const char *why;
    char head[HEAD_WRITTEN_MAX + CHUNK / 4];
    size_t n, n_body = 0;

    if (!k->refusal && !head_parse(&in->head, in->bytes, head_len, &why))
        k->refusal = why;
    if (k->refusal) /* the service answers it, whatever the client has sent */
        in->head = (struct head){.method = "GET", .target = "/", .wants_close = true};
    if (!connect_library(k))
        return OVER;
    n = head_write(head, &in->head);
    if (!k->refusal) {
        n_body = in->n - head_len;
        if (n_body > in->head.body_bytes)
            n_body = (size_t)in->head.body_bytes;
        memcpy(head + n, in->bytes + head_len, n_body);
    }
    in->n_used = head_len + n_body;
    k->body_left = in->head.body_bytes - n_body;
    k->state = k->body_left > 0 ? CONN_BODY : CONN_RESPONSE;
    set_awaited(k, true);
    return to_library(k, head, n + n_body);
}

/* Reads until a head is complete. */
static enum progress read_head(struct conn *k)
{
    const char *why = NULL;
    ssize_t len, n;

    for (;;) {
        if (k->request) {
            len = head_find_end(k->request->bytes, k->request->n, &k->request->n_seen, &why);
            if (len < 0)
                k->refusal = why;
            if (len != 0)
                return take_request(k, len < 0 ? k->request->n : (size_t)len);
        }
        if (k->peer_ended)
            return k->is_awaited ? NOTHING : OVER;
        n = client_recv(k, k->conns->chunk, HEAD_MAX - (k->request ? k->request->n : 0));
        if (n < 0)
            return would_block() ? NOTHING : OVER;
        if (n == 0) {
            k->peer_ended = true;
            continue;
        }
        if (!k->request) {
            k->request = calloc(1, sizeof *k->request);
            if (!k->request)
                return OVER;
            if (!k->is_answered)
                conn_begin(k);
            else
                k->deadline = clock_now() + NEXT_HEAD_S;
        }
        memcpy(k->request->bytes + k->request->n, k->conns->chunk, (size_t)n);
        k->request->n += (size_t)n;
    }
}

static enum progress relay_body(struct conn *k)
{
    size_t most = k->body_left < CHUNK ? (size_t)k->body_left : CHUNK;
    ssize_t n;

    if (k->in)
        return to_library(k, k->in + k->in_at, k->n_in - k->in_at);
    if (k->body_left == 0) {
        k->state = CONN_RESPONSE;
        return NOTHING;
    }
    n = client_recv(k, k->conns->chunk, most);
    if (n < 0)
        return would_block() ? NOTHING : OVER;
    if (n == 0) { /* the client may still read an answer that does not need the whole body */
        k->peer_ended = k->is_cut = true;
        k->state = CONN_RESPONSE;
        conn_mark_ready(k);
        return MOVED;
    }
    k->body_left -= (size_t)n;
    return to_library(k, k->conns->chunk, (size_t)n);
}

static enum progress linger(struct conn *k)
{
    ssize_t n = recv(k->client.fd, k->conns->chunk, CHUNK, 0); /* also of TLS: the bytes are dropped */

    return n > 0 ? MOVED : n < 0 && would_block() ? NOTHING : OVER;
}

static enum progress relay_in(struct conn *k)
{
    switch (k->state) {
    case CONN_HEAD:
        return read_head(k);
    case CONN_BODY:
        return relay_body(k);
    case CONN_RESPONSE:
        return k->in ? to_library(k, k->in + k->in_at, k->n_in - k->in_at) : NOTHING;
    case CONN_LINGER:
        return linger(k);
    case CONN_FIRST:
    case CONN_HANDSHAKE:
        break;
    }
    return NOTHING;
}

/* Call when all is sent. Closing now would reset the connection if the client still sends, and the client
 * could lose the response. */
static enum progress begin_linger(struct conn *k)
{
    if (k->inner.fd >= 0) {
        loop_unwatch(k->conns->loop, &k->inner);
        close(k->inner.fd);
        k->inner.fd = -1;
    }
    set_awaited(k, false);
    if (k->peer_ended)
        return OVER;
    if (k->tls && k->state != CONN_HANDSHAKE)
        tls_session_bye(k->tls);
    shutdown(k->client.fd, SHUT_WR);
    k->state = CONN_LINGER;
    k->deadline = clock_now() + LINGER_S;
    return MOVED;
}

static enum progress relay_out(struct conn *k)
{
    ssize_t n;

    if (k->out)
        return to_client(k, k->out + k->out_at, k->n_out - k->out_at) == OVER ? OVER
               : k->out                                                       ? NOTHING
                                                                              : MOVED;
    if (k->inner.fd < 0)
        return NOTHING;
    n = recv(k->inner.fd, k->conns->chunk, CHUNK, 0);
    if (n > 0)
        return to_client(k, k->conns->chunk, (size_t)n);
    if (n < 0 && would_block()) {
        if (k->is_awaited && k->state == CONN_HEAD) {
            set_awaited(k, false);
            k->deadline = conn_deadline(0);
        }
        return NOTHING;
    }
    return begin_linger(k); /* also after ECONNRESET: the library has not read all of a body */
}

/* Finds out whether the client speaks TLS. A client that should speak TLS and does not gets no alert, which
 * it could not read. */
static enum progress look_at_first(struct conn *k)
{
    const struct http_options *o = &k->conns->options;
    uint8_t first;
    ssize_t n = recv(k->client.fd, &first, 1, MSG_PEEK);

    if (n <= 0)
        return n < 0 && would_block() ? NOTHING : OVER;
    if (first != TLS_FIRST_BYTE) {
        if (!o->allows_plain)
            return begin_linger(k);
        k->state = CONN_HEAD;
        return MOVED;
    }
    if (!o->keys)
        return begin_linger(k);
    k->tls = tls_session_new(o->keys, k->client.fd);
    k->state = CONN_HANDSHAKE;
    return k->tls ? MOVED : OVER;
}

static void set_events(struct conn *k, struct watch *w, uint32_t *has, uint32_t want, uint32_t fired)
{
    struct loop *l = k->conns->loop;
    struct err e;

    /* An event that is not wanted now stays registered until it fires: mostly it is wanted again before
     * that. */
    if (w->fd < 0 || (!(want & ~*has) && !(fired & *has & ~want)))
        return;
    *has = want;
    if (!want)
        loop_unwatch(l, w); /* epoll would report a closed end again and again */
    else if (loop_watch(l, w, want, &e) < 0)
        conns_warn(k->conns, "http: %s", e.text);
}

static void wait_for_events(struct conn *k, uint32_t client_fired, uint32_t inner_fired)
{
    bool reads = !k->peer_ended && k->state != CONN_RESPONSE && !(k->state == CONN_BODY && k->in);
    uint32_t client = (reads ? EPOLLIN : 0u) | (k->peer_ended ? 0u : EPOLLRDHUP) | (k->out ? EPOLLOUT : 0u);
    uint32_t inner = (k->out ? 0u : EPOLLIN) | (k->in ? EPOLLOUT : 0u);

    set_events(k, &k->client, &k->client_events, client, client_fired);
    set_events(k, &k->inner, &k->inner_events, inner, inner_fired);
}

/* Responses first: a client that has closed its sending side may still read. */
static enum progress relay_some(struct conn *k)
{
    enum progress out, in;

    if (k->state == CONN_FIRST)
        return look_at_first(k);
    if (k->state == CONN_HANDSHAKE) {
        int rc = tls_session_handshake(k->tls);

        if (rc <= 0)
            return rc < 0 ? begin_linger(k) : NOTHING;
        k->state = CONN_HEAD;
    }
    out = relay_out(k);
    if (out == OVER)
        return OVER;
    in = relay_in(k);
    return in == OVER || out == NOTHING ? in : MOVED;
}

static void relay(struct conn *k, uint32_t client_fired, uint32_t inner_fired)
{
    enum { TURNS = 16 }; /* so that one client does not delay others */
    enum progress p = MOVED;

    for (int i = 0; p == MOVED && i < TURNS; i++)
        p = relay_some(k);
    if (p == OVER || (k->is_closing && p != MOVED)) {
        conn_end(k);
        return;
    }
    /* A poll does not report bytes that the TLS library has read already. */
    if (p == MOVED)
        conn_mark_ready(k);
    wait_for_events(k, client_fired, inner_fired);
}

void conn_wait(struct conn *k)
{
    wait_for_events(k, 0, 0);
}

/* If the client has ended within a body, its request is answered by now, or never. The library may not notice
 * the end of its input: 0.9.75 does not if the end comes with the last bytes. */
void conn_relay(struct conn *k)
{
    if (k->is_cut && k->call && !k->call->is_answered) {
        conn_end(k);
        return;
    }
    if (k->is_cut && !k->call)
        conn_mark_ready(k);
    relay(k, 0, 0);
}

static void on_inner(void *arg, uint32_t events)
{
    relay(arg, 0, events);
}

void conn_on_client(void *arg, uint32_t events)
{
    struct conn *k = arg;

    if (events & (EPOLLERR | EPOLLHUP)) {
        conn_end(k);
        return;
    }
    if ((events & EPOLLRDHUP) && k->state == CONN_RESPONSE) {
        k->peer_ended = true;
        if (k->call && k->call->is_parked && !k->call->is_brief)
            conn_lose_client(k);
    }
    relay(k, events, 0);
}

void conn_answered(struct conn *k)
{
    struct request_head *in = k->request;

    k->call = NULL;
    k->is_answered = true;
    k->is_cut = false;
    conn_mark_ready(k);
    if (k->is_ended)
        return;
    free(k->in);
    k->in = NULL;
    /* In any other case the library closes its end. */
    if (k->state == CONN_RESPONSE && !in->head.wants_close) {
        k->state = CONN_HEAD;
        memmove(in->bytes, in->bytes + in->n_used, in->n - in->n_used);
        in->n -= in->n_used;
        in->n_seen = 0;
        if (in->n == 0)
            conn_drop_request(k);
    } else {
        k->state = CONN_RESPONSE;
    }
}
