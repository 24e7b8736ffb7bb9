#include "runner/exchange/peer_stats.h"

#include <stdlib.h>

static size_t n_pages(const struct peer_stats *s)
{
    return ((size_t)s->n + PEER_STATS_PAGE - 1) / PEER_STATS_PAGE;
}

int peer_stats_open(struct peer_stats *s, int n, struct err *e)
{
    *s = (struct peer_stats){.n = n};
    s->has_left = calloc((size_t)n, sizeof *s->has_left);
    s->pages = calloc(n_pages(s), sizeof *s->pages);
    return s->has_left && s->pages
               ? 0
               : err_set(e, ERR_NOMEM, "no memory for the traffic statistics of %d nodes", n);
}

void peer_stats_clear(struct peer_stats *s)
{
    for (struct peer_stats_page *p = s->made, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(s->pages);
    free(s->has_left);
    *s = (struct peer_stats){0};
}

void peer_stats_leave(struct peer_stats *s, int slot)
{
    s->n_left += !s->has_left[slot];
    s->has_left[slot] = true;
}

void peer_stats_begin_round(const struct peer_stats *s, struct peer_traffic *t)
{
    const struct exchange_traffic none = {0};
    uint64_t n_closed = s->n_rounds - t->round;

    t->sent_done = n_closed == 1 ? t->sent : none;
    t->recv_done = n_closed == 1 ? t->received : none;
    t->sent = t->received = none;
    t->round = s->n_rounds;
}

struct peer_traffic *peer_stats_make(struct peer_stats *s, int slot)
{
    struct peer_stats_page *p = s->pages[slot / PEER_STATS_PAGE];

    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return NULL;
        s->pages[slot / PEER_STATS_PAGE] = p;
        p->next = s->made;
        s->made = p;
    }
    return peer_stats_of(s, slot);
}

const struct peer_traffic *peer_stats_read(const struct peer_stats *s, int slot)
{
    static const struct peer_traffic nothing;

    return s->pages[slot / PEER_STATS_PAGE] ? peer_stats_of(s, slot) : &nothing;
}
