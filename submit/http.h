/* http -- all of libcurl. Requests to many agents run at once over kept connections; the caller polls.
 *
 *     http_start(h, &r, &e);
 *     while (r.busy)
 *         http_poll(h, 1);
 * The strings, bodies and r itself stay the caller's until r.busy is false.
 *
 * An agent is not trusted: nothing is followed, unpacked or named after what it sends, and every answer has a
 * limit in bytes and, but for streams, in time. */
#ifndef PSGD_SUBMIT_HTTP_H
#define PSGD_SUBMIT_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

enum { HTTP_URL = 640, HTTP_LINE = 16384 };

struct http;

struct http_request {
    /* The question. */
    const char *method; /* GET HEAD PUT POST */
    char url[HTTP_URL];
    const char *who;   /* how sentences name the other side: "agent 127.0.0.1:15387" */
    const char *token; /* NULL: none */
    const char *accept;
    bool is_public; /* a mirror in the world: https and proxies are fine, no token */
    bool is_local;  /* loopback */
    const void *body;
    size_t body_len;
    int body_fd; /* > 0: the body is this file's first body_len bytes instead */
    const char *body_type;
    uint64_t max_reply;
    double timeout_s; /* of the whole request; 0: a stream without end */
    int reply_fd;     /* > 0: a 2xx answer goes into this file instead */
    void (*on_line)(void *arg, const char *line, size_t len); /* a 2xx answer goes here line by line instead;
                                                                 it must not call http_* */
    void *arg;

    /* The answer. err.code 0: there is one, with `status`; else nobody answered, or not as an agent does. */
    bool busy;
    int status;  /* set as soon as the header is complete */
    char *reply; /* with a zero byte behind it; NULL when empty. http_clear frees it */
    size_t reply_len;
    uint64_t received;
    double received_at; /* clock_now of the last byte */
    struct err err;

    struct http_private *private;
};

struct http *http_new(struct err *e);
void http_free(struct http *h);

int http_start(struct http *h, struct http_request *r, struct err *e);
/* Moves all requests on; returns after something happened, a signal came, or timeout_s. */
void http_poll(struct http *h, double timeout_s);
/* Ends a running request (its connection closes) and frees the answer; fine on an empty one. */
void http_clear(struct http *h, struct http_request *r);

#endif
