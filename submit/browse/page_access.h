/* page_access -- decides which requests of a browser are served. The address that `browse` prints has a
 * token, which works once and is exchanged for a cookie; all other requests need the cookie. Requests that a
 * page of another site makes the browser send are refused by their headers (shared/http/origin.h). The head
 * is valid by shared/http/head.h; a head with a repeated header, which two programs may read differently, is
 * refused, and so is a request with a body, as the page sends none. */
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
    PAGE_SET_COOKIE, /* set the cookie, and send the browser to / */
    PAGE_REFUSE      /* with the status and the reason */
};

struct page_refusal {
    int status;
    const char *why;
};

/* Makes token and cookie. The cookie's name has the port, because browsers send cookies to all ports of a
 * host. */
void page_access_init(struct page_access *a, int port);

/* `path` and `token` (NULL: none) are those of the head's target. */
enum page_answer page_access_check(struct page_access *a, const struct head *head, const char *path,
                                   const char *token, struct page_refusal *out);

#endif
