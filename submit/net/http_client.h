/* http_client -- the HTTP client, the only user of libcurl. Requests to many agents run concurrently over
 * kept connections; the caller polls.
 *
 *     http_start(h, &r, &e);
 *     while (r.busy)
 *         http_poll(h, 1);
 * The caller owns r, its strings and its bodies and keeps them until r.busy is false.
 *
 * Agents are not trusted: no redirect is followed, no content encoding is unpacked, no file is named after
 * what an agent sends, and every answer is limited in bytes and, except for streams, in time; a download also
 * has a minimum rate. */
#ifndef PSGD_SUBMIT_HTTP_CLIENT_H
#define PSGD_SUBMIT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { HTTP_URL = 640, HTTP_LINE = 16384 };

struct http;

/* Where a pin comes from: it selects the message if the server has another key. */
enum pin_origin {
    PIN_JOINED, /* by job_submit join */
    PIN_HERE,   /* of an agent at a loopback address */
    PIN_LISTED  /* in the list of workers */
};

struct http_request {
    /* Request. */
    const char *method; /* GET HEAD PUT POST */
    char url[HTTP_URL];
    const char *peer;    /* the other side, for messages: "agent 127.0.0.1:15387" */
    const char *token;   /* NULL: none */
    const char *job_key; /* X-Job-Key; NULL: none */
    int attempt;         /* X-Job-Attempt; 0: none */
    const char *pin; /* of the server's key (agent/access/identity.h), for https; NULL: HTTP without TLS */
    enum pin_origin pin_origin;
    const char *ca; /* file of CA certificates: one of these CAs must have signed the server's; NULL */
    const char *cert, *key;  /* files with the client's; NULL: none */
    const char *const *pins; /* (n_pins) instead of `pin`: the server's key must have one of these */
    size_t n_pins;
    bool is_handshake; /* only a TLS handshake; err.code 0: the server's key has the pin, or one of `pins` */
    const char *accept;
    bool is_unproven; /* https with any key; no token is sent */
    bool is_public;   /* a public mirror: https and proxies are allowed, no token is sent */
    bool is_local;    /* loopback */
    const void *body;
    size_t body_len;
    int body_fd; /* > 0: the body is the first body_len bytes of this file instead */
    const char *body_type;
    uint64_t max_reply;
    double timeout_s; /* of the whole request; 0: an endless stream */
    bool must_flow;   /* ERR_UNREACHABLE also below 1,000 bytes a second, for a minute */
    int reply_fd;     /* > 0: a 2xx answer is written to this file instead */
    void (*on_line)(void *arg, const char *line, size_t len); /* gets a 2xx answer line by line instead;
                                                                 must not call http_* */
    void *arg;

    /* Answer. err.code 0: an HTTP answer arrived, with `status`; otherwise there was no answer, or not a
     * valid one. */
    bool busy;
    int status;  /* set as soon as the header is complete */
    char *reply; /* zero-terminated; NULL when empty. http_clear frees it */
    size_t reply_len;
    uint64_t received;
    double received_at; /* clock_now of the last byte */
    struct err err;
    bool is_refused; /* the connection was refused: no program listens at the address */

    struct http_private *private;
};

struct http *http_new(struct err *e);
void http_free(struct http *h);

/* Few connections are opened at once: a request that needs one waits until it is its turn, and its time runs
 * from then on. */
int http_start(struct http *h, struct http_request *r, struct err *e);
/* http_poll() returns also while this descriptor is readable. The caller closes it after http_free().
 * ERR_IO. */
int http_wake_by(struct http *h, int fd, struct err *e);
/* Advances all requests; returns after an event, a signal, or timeout_s. */
void http_poll(struct http *h, double timeout_s);
/* Seconds for which this process has waited in http_poll for the answer; 0: the request has ended, or waits
 * for its turn. The time in which a busy process, or one that was stopped, did not poll hardly counts: an
 * answer may have arrived that it has not read. */
double http_waited(const struct http *h, const struct http_request *r);
/* Ends a running request (its connection closes) and frees the answer; allowed on an empty request. */
void http_clear(struct http *h, struct http_request *r);

#endif
