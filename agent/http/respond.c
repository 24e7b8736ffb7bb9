#include "agent/http/server.h"

#include <math.h>
#include <stdio.h>

#include "agent/log.h"
#include "shared/clock.h"

enum { BLOCK_BYTES = 16 << 10 };

/* libmicrohttpd 0.9.72 declares these as size_t. */
enum {
    READ_ENDED = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM,
    READ_FAILED = (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR
};

static ssize_t read_stream(void *arg, uint64_t at, char *buf, size_t size)
{
    struct exchange *x = arg;
    ssize_t n;

    (void)at;
    if (x->is_gone || x->server->is_closing)
        return READ_FAILED;
    n = stream_read(&x->stream, buf, size);
    if (n < 0)
        return READ_ENDED;
    if (n == 0)
        exchange_park(x);
    return n;
}

/* For responses of which only the length is sent: to HEAD, and 304. */
static ssize_t read_nothing(void *arg, uint64_t at, char *buf, size_t size)
{
    (void)arg;
    (void)at;
    (void)buf;
    (void)size;
    return READ_FAILED;
}

/* Takes over what the response owns. */
static struct MHD_Response *body_of(struct exchange *x)
{
    struct response *rs = &x->rs;
    struct MHD_Response *r;

    if (rs->kind == RESPONSE_STREAM) {
        stream_open(&x->stream, x->server->agent, rs->id, rs->attempt, rs->after, rs->is_ndjson, rs->holds);
        x->conn->deadline = HUGE_VAL; /* no deadline: the reader's inactivity is timed instead */
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, x, NULL);
    }
    if (rs->kind == RESPONSE_FILE && rs->fd < 0)
        return MHD_create_response_from_callback(rs->bytes, BLOCK_BYTES, read_nothing, NULL, NULL);
    if (rs->kind == RESPONSE_FILE && rs->bytes > 0) {
        r = MHD_create_response_from_fd_at_offset64(rs->bytes, rs->fd, rs->after);
        if (r) {
            x->conn->deadline = conn_deadline(rs->bytes);
            rs->fd = -1;
        }
        return r;
    }
    if (rs->lasting)
        return MHD_create_response_from_buffer(rs->len, (void *)(uintptr_t)rs->lasting,
                                               MHD_RESPMEM_PERSISTENT);
    r = MHD_create_response_from_buffer(rs->len, rs->body ? rs->body : (void *)(uintptr_t) "",
                                        rs->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r)
        rs->body = NULL;
    return r;
}

enum MHD_Result respond(struct exchange *x)
{
    struct response *rs = &x->rs;
    unsigned status = rs->status ? (unsigned)rs->status : 200;
    struct MHD_Response *r;
    enum MHD_Result rc;
    char number[16];

    x->is_answered = true;
    x->conn->deadline = conn_deadline(0);
    r = body_of(x);
    if (!r)
        return MHD_NO;
    snprintf(number, sizeof number, "%d", rs->retry_after_s);
    const struct header headers[] = {
        {"Content-Type", rs->type},
        {"X-Request-Id", x->request_id},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Location", rs->location[0] ? rs->location : NULL},
        {"Allow", rs->allow[0] ? rs->allow : NULL},
        {"ETag", rs->etag[0] ? rs->etag : NULL},
        {"WWW-Authenticate", status == 401 ? "Bearer" : NULL},
        {"Connection", x->conn->inbox->head.wants_close ? "close" : NULL},
        {"Retry-After", rs->retry_after_s ? number : NULL},
        {"Content-Security-Policy", rs->policy},
        {"Referrer-Policy", rs->policy ? "no-referrer" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (headers[i].value)
            MHD_add_response_header(r, headers[i].name, headers[i].value);
    rc = MHD_queue_response(x->connection, status, r);
    MHD_destroy_response(r);
    counts_request(&x->server->agent->counts, x->asked, x->rq.method, (int)status, clock_now() - x->begun);
    if (status == 401 && x->rq.route) {
        sources_failed(x->server->conns.sources, conn_source(x->conn), clock_now());
        exchange_log_refusal(x, "not a code that is accepted");
    }
    if (x->rq.route && status != 401 && x->rq.method != METHOD_GET && x->rq.method != METHOD_HEAD &&
        (x->rq.is_authorised || status < 400))
        log_line(LOG_LEVEL_INFO, "agent", x->rq.route->flags & ROUTE_JOB ? x->rq.arg[0] : NULL,
                 "http: %s %s %u", x->request_id, x->conn->inbox->head.target, status);
    return rc;
}
