#include "submit/launch/answering.h"

#include <stdio.h>
#include <stdlib.h>

#include "submit/net/http_client.h"
#include "submit/terminal/interrupt.h"

enum { REPLY_MAX = 64 };

static const double ANSWER_S = 3;

static int begin_question(struct http *h, struct http_request *r, const struct listed_agent *w, struct err *e)
{
    *r = (struct http_request){.method = "GET",
                               .peer = w->address,
                               .is_unproven = true,
                               .is_local = listed_agent_is_loopback(w),
                               .max_reply = REPLY_MAX,
                               .timeout_s = ANSWER_S};
    snprintf(r->url, sizeof r->url, "https://%s/healthz", w->address);
    return http_start(h, r, e);
}

static enum answer answer_of(const struct http_request *r)
{
    if (r->is_refused)
        return ANSWERS_NEVER;
    return r->err.code == 0 && r->status == 200 ? ANSWERS : ANSWERS_NOT;
}

int answering_ask(enum answer *out, const struct listed_agent *agents, size_t n, struct err *e)
{
    struct http_request *asked = calloc(n, sizeof *asked);
    struct http *h = http_new(e); /* of its own: its connections are never used for anything else */
    int rc = !h ? e->code : !asked ? err_set(e, ERR_NOMEM, "no memory for %zu agents", n) : 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = begin_question(h, &asked[i], &agents[i], e);
    for (size_t i = 0; i < n && rc == 0; i++)
        while (rc == 0 && asked[i].busy) {
            http_poll(h, 1);
            rc = interrupt_check(e);
        }
    for (size_t i = 0; i < n && rc == 0; i++)
        out[i] = answer_of(&asked[i]);
    for (size_t i = 0; i < n && asked && h; i++)
        http_clear(h, &asked[i]);
    http_free(h);
    free(asked);
    return rc;
}
