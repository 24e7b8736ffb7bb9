/* page_access -- which requests of a browser are served. The address that `browse` prints has a token that
 * works once and becomes a cookie; everything else needs the cookie. A page of another site, which a browser
 * may make ask this one, is known by what shared/http/origin.h reads. The head is valid by
 * shared/http/head.h; a request that two readers may still read differently (a header twice) is refused, as
 * is one with a body, which none of the page's own has. */
#ifndef PSGD_BROWSE_PAGE_ACCESS_H
#define PSGD_BROWSE_PAGE_ACCESS_H

#include "shared/base/crypto.h"
#include "shared/http/head.h"

struct page_access {
    int port;
    char token[BASE64_TEXT];
    bool is_used; /* the token */
    char cookie[BASE64_TEXT];
    char cookie_name[32];
};

enum page_answer {
    PAGE_SERVE,
    PAGE_SET_COOKIE, /* set the cookie, and go to / */
    PAGE_REFUSE      /* with the status and the reason */
};

struct page_refusal {
    int status;
    const char *why;
};

/* Makes token and cookie; the latter's name has the port, as browsers send cookies to all ports of a host. */
void page_access_init(struct page_access *d, int port);

/* `path` and `token` (NULL: none) are those of the head's target. */
enum page_answer page_access_check(struct page_access *d, const struct head *head, const char *path,
                                   const char *token, struct page_refusal *out);

#endif
