#include "submit/net/moved_agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/net/http_client.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

static const double SEARCH_S = 3;

/* A search for the pin that fits among pins[first .. first + n). */
struct search {
    const char *address;
    size_t first, n;
    size_t n_asked; /* of these, from the first: the running handshake is pinned with them */
    bool is_done;   /* n is 1, or 0: none fits */
    struct http_request call;
};

static int shake(struct http *h, struct search *s, const char *const *pins, size_t n_asked, struct err *e)
{
    struct http_request *r = &s->call;

    *r = (struct http_request){.method = "GET",
                               .peer = s->address,
                               .pins = pins + s->first,
                               .n_pins = n_asked,
                               .is_handshake = true,
                               .timeout_s = SEARCH_S};
    s->n_asked = n_asked;
    if (snprintf(r->url, sizeof r->url, "https://%s/", s->address) >= (int)sizeof r->url)
        return err_set(e, ERR_INTERNAL, "a URL for %s is too long", s->address);
    return http_start(h, r, e);
}

/* After a handshake. The first one is pinned with all, so that an unknown server costs only that one; of n
 * pins one is then known to fit. */
static int narrow(struct http *h, struct search *s, const char *const *pins, struct err *e)
{
    int code = s->call.err.code;

    if (code == 0) {
        s->n = s->n_asked;
    } else if (code == ERR_AUTH && s->n_asked < s->n) {
        s->first += s->n_asked;
        s->n -= s->n_asked;
    } else {
        s->n = 0;
    }
    s->is_done = s->n <= 1;
    return s->is_done ? 0 : shake(h, s, pins, s->n / 2, e);
}

static int search_all(struct http *h, struct search *all, size_t n, const char *const *pins, struct err *e)
{
    double until = clock_now() + SEARCH_S;
    size_t n_left = n;

    for (size_t i = 0; i < n; i++)
        if (shake(h, &all[i], pins, all[i].n, e) < 0)
            return e->code;
    while (n_left > 0 && clock_now() < until) {
        http_poll(h, 0.1);
        if (interrupt_check(e) < 0)
            return e->code;
        n_left = 0;
        for (size_t i = 0; i < n; i++) {
            struct search *s = &all[i];

            if (!s->is_done && !s->call.busy && narrow(h, s, pins, e) < 0)
                return e->code;
            n_left += !s->is_done;
        }
    }
    return 0;
}

int moved_agents_find(struct moved_agent *s, size_t n, const struct access_list *known, struct err *e)
{
    const char **pins = calloc(known->n + 1, sizeof *pins);
    struct search *all = calloc(n + 1, sizeof *all);
    struct http *h = http_new(e); /* of its own: these connections are of no use to others */
    int rc = pins && all && h ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu addresses", n);

    for (size_t i = 0; rc == 0 && i < known->n; i++)
        pins[i] = known->items[i].pin;
    for (size_t i = 0; rc == 0 && i < n; i++)
        all[i] = (struct search){.address = s[i].address, .n = known->n};
    if (rc == 0 && known->n > 0)
        rc = search_all(h, all, n, pins, e);
    for (size_t i = 0; i < n; i++) {
        s[i].found = rc == 0 && all[i].is_done && all[i].n == 1 ? &known->items[all[i].first] : NULL;
        if (h && all)
            http_clear(h, &all[i].call);
    }
    http_free(h);
    free(all);
    free(pins);
    return rc;
}

int moved_agents_keep(const struct access *a, const char *address, struct err *e)
{
    struct access moved = *a;
    int rc;

    snprintf(moved.address, sizeof moved.address, "%s", address);
    rc = access_save(&moved, e);
    explicit_bzero(&moved, sizeof moved);
    return rc;
}
