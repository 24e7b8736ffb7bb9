#include <stdio.h>

#include "agent/base/log.h"
#include "agent/http/api_server.h"
#include "shared/base/clock.h"

/* The body, of which http_respond takes over what the response owns. */
static void set_body(struct http_answer *out, struct exchange *x)
{
    struct response *rs = &x->rs;

    if (rs->kind == RESPONSE_STREAM) {
        stream_open(&x->stream, &exchange_server(x)->agent->jobs, rs->id, rs->attempt, rs->after,
                    rs->is_ndjson, rs->holds);
        out->kind = HTTP_STREAM;
    } else if (rs->kind == RESPONSE_FILE && (rs->fd < 0 || rs->bytes > 0)) {
        out->kind = rs->fd < 0 ? HTTP_LENGTH : HTTP_FILE;
        out->fd = rs->fd;
        out->at = rs->after;
        out->len = rs->bytes;
    } else {
        out->kind = rs->body ? HTTP_BYTES : HTTP_LASTING;
        out->bytes = rs->body;
        out->lasting = rs->static_body ? rs->static_body : "";
        out->len = rs->len;
    }
}

void exchange_respond(struct exchange *x)
{
    struct api_server *h = exchange_server(x);
    struct response *rs = &x->rs;
    struct http_answer a = {.status = rs->status ? (unsigned)rs->status : 200};
    char number[16];

    snprintf(number, sizeof number, "%d", rs->retry_after_s);
    const struct header headers[] = {
        {"Content-Type", rs->type},
        {"X-Request-Id", x->request_id},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Location", rs->location[0] ? rs->location : NULL},
        {"Allow", rs->allow[0] ? rs->allow : NULL},
        {"ETag", rs->etag[0] ? rs->etag : NULL},
        {"WWW-Authenticate", a.status == 401 ? "Bearer" : NULL},
        {"Retry-After", rs->retry_after_s ? number : NULL},
        {"Content-Security-Policy", rs->policy},
        {"Referrer-Policy", rs->policy ? "no-referrer" : NULL},
    };
    a.headers = headers;
    a.n_headers = sizeof headers / sizeof headers[0];
    set_body(&a, x);
    if (!http_respond(x->call, &a))
        return;
    if (a.kind == HTTP_FILE)
        rs->fd = -1;
    else if (a.kind == HTTP_BYTES)
        rs->body = NULL;
    counts_request(&h->agent->jobs.counts, route_number(x->asked), x->rq.method, (int)a.status,
                   clock_now() - x->begun);
    if (a.status == 401 && x->rq.route) {
        sources_failed(h->sources, conn_source(x->call->conn), clock_now());
        exchange_log_refusal(x, "not a code that is accepted");
    }
    if (x->rq.route && a.status != 401 && x->rq.method != METHOD_GET && x->rq.method != METHOD_HEAD &&
        (x->rq.is_authorised || a.status < 400))
        log_line(LOG_LEVEL_INFO, "agent", x->rq.route->flags & ROUTE_JOB ? x->rq.arg[0] : NULL,
                 "http: %s %s %u", x->request_id, x->call->conn->inbox->head.target, a.status);
}
