/* door -- which requests of a browser are served. The address that `browse` prints has a token that works
 * once and becomes a cookie; everything else needs the cookie. A page of another site, which a browser
 * may make ask this one, is known by Host (DNS rebinding), Origin and Sec-Fetch-Site. A request that two
 * readers may read differently (two Hosts; a body, whose length is said in two ways) is refused; the page's
 * own requests have no body. */
#ifndef PSGD_BROWSE_DOOR_H
#define PSGD_BROWSE_DOOR_H

#include <stdbool.h>

#include "shared/base/crypto.h"

struct door {
    char token[BASE64_TEXT];
    bool is_used; /* the token */
    char cookie[BASE64_TEXT];
    char cookie_name[32];
};

/* The headers that are looked at; of each a request has at most one. */
enum door_header {
    DOOR_HOST,
    DOOR_ORIGIN,
    DOOR_SITE, /* Sec-Fetch-Site */
    DOOR_COOKIE,
    DOOR_OWN, /* X-Psgd */
    DOOR_LENGTH,
    DOOR_CODING, /* Transfer-Encoding */
    N_DOOR_HEADERS
};
extern const char *const door_headers[N_DOOR_HEADERS]; /* their names */

struct door_request {
    const char *method, *path, *token;
    const char *value[N_DOOR_HEADERS]; /* NULL where there is none */
    bool is_unclear;                   /* two of one name, or a zero byte in one */
};

/* Counts a header of the request in. */
void door_take(struct door_request *rq, const char *name, const char *value, size_t len);

/* By its headers. */
bool door_has_body(const struct door_request *rq);

enum door_answer {
    DOOR_SERVE,
    DOOR_WELCOME, /* set the cookie, and go to / */
    DOOR_REFUSE   /* 403 with the reason */
};

/* Makes token and cookie; the latter's name has the port, as browsers send cookies to all ports of a host. */
void door_open(struct door *d, int port);

/* The caller serializes the calls. */
enum door_answer door_check(struct door *d, const struct door_request *rq, const char **why);

#endif
