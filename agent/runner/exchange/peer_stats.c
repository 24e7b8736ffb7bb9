#include "agent/runner/exchange/peer_stats.h"

#include <assert.h>
#include <stdlib.h>

enum { PAGE = 8 };

struct peer_stats_page {
    struct peer_stats_page *next;
    struct link of[PAGE];
};

static size_t n_pages(const struct peer_stats *l)
{
    return ((size_t)l->n + PAGE - 1) / PAGE;
}

int peer_stats_open(struct peer_stats *l, int n, struct err *e)
{
    *l = (struct peer_stats){.n = n};
    l->has_left = calloc((size_t)n, sizeof *l->has_left);
    l->pages = calloc(n_pages(l), sizeof *l->pages);
    return l->has_left && l->pages ? 0 : err_set(e, ERR_NOMEM, "no memory for the figures of %d nodes", n);
}

void peer_stats_clear(struct peer_stats *l)
{
    for (struct peer_stats_page *p = l->made, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(l->pages);
    free(l->has_left);
    *l = (struct peer_stats){0};
}

void peer_stats_leave(struct peer_stats *l, int slot)
{
    l->n_left += !l->has_left[slot];
    l->has_left[slot] = true;
}

static struct link *up_to_date(const struct peer_stats *l, struct link *k)
{
    const struct exchange_traffic none = {0};
    uint64_t n_closed = l->n_rounds - k->round;

    if (n_closed == 0)
        return k;
    k->sent_done = n_closed == 1 ? k->sent : none;
    k->recv_done = n_closed == 1 ? k->received : none;
    k->sent = k->received = none;
    k->round = l->n_rounds;
    return k;
}

struct link *link_make(struct peer_stats *l, int slot)
{
    struct peer_stats_page *p = l->pages[slot / PAGE];

    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return NULL;
        l->pages[slot / PAGE] = p;
        p->next = l->made;
        l->made = p;
    }
    return up_to_date(l, &p->of[slot % PAGE]);
}

struct link *link_of(const struct peer_stats *l, int slot)
{
    assert(l->pages[slot / PAGE]);
    return up_to_date(l, &l->pages[slot / PAGE]->of[slot % PAGE]);
}

const struct link *link_read(const struct peer_stats *l, int slot)
{
    static const struct link nothing;

    return l->pages[slot / PAGE] ? link_of(l, slot) : &nothing;
}

void peer_stats_close_round(struct peer_stats *l)
{
    l->n_rounds++;
}
