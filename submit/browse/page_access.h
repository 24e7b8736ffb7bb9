/* page_access -- which requests of a browser are served. The address that `browse` prints has a token that
 * works once and becomes a cookie; everything else needs the cookie. A page of another site, which a browser
 * may make ask this one, is known by what shared/http/origin.h reads. The head is valid by
 * shared/http/head.h; a request that two readers may still read differently (a header twice) is refused, as
 * is one with a body, which none of the page's own has. */
#ifndef PSGD_BROWSE_PAGE_ACCESS_H
#define PSGD_BROWSE_PAGE_ACCESS_H

#include "shared/base/crypto.h"
#include "shared/http/head.h"

struct door {
    int port;
    char token[BASE64_TEXT];
    bool is_used; /* the token */
    char cookie[BASE64_TEXT];
    char cookie_name[32];
};

enum door_answer {
    DOOR_SERVE,
    DOOR_WELCOME, /* set the cookie, and go to / */
    DOOR_REFUSE   /* with the status and the reason */
};

struct door_refusal {
    int status;
    const char *why;
};

/* Makes token and cookie; the latter's name has the port, as browsers send cookies to all ports of a host. */
void door_open(struct door *d, int port);

/* `path` and `token` (NULL: none) are those of the head's target. */
enum door_answer door_check(struct door *d, const struct head *head, const char *path, const char *token,
                            struct door_refusal *out);

#endif
