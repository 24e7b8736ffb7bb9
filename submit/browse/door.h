/* door -- which requests of a browser are served. The address that `browse` prints has a token that works
 * once and becomes a cookie; everything else needs the cookie. A page of another site, which a browser
 * may make ask this one, is known by Host (DNS rebinding), Origin and Sec-Fetch-Site. */
#ifndef PSGD_BROWSE_DOOR_H
#define PSGD_BROWSE_DOOR_H

#include <stdbool.h>

#include "shared/crypto.h"

struct door {
    char token[BASE64_TEXT];
    bool is_used; /* the token */
    char cookie[BASE64_TEXT];
    char cookie_name[32];
};

struct door_request { /* headers: NULL where there is none */
    const char *method, *path, *token;
    const char *host, *origin, *site, *cookie;
    const char *own; /* X-Psgd */
};

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
