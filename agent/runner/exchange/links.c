#include "agent/runner/exchange/links.h"

#include <assert.h>
#include <stdlib.h>

enum { PAGE = 8 };

struct links_page {
    struct links_page *next;
    struct link of[PAGE];
};

static size_t n_pages(const struct links *l)
{
    return ((size_t)l->n + PAGE - 1) / PAGE;
}

int links_open(struct links *l, int n, struct err *e)
{
    *l = (struct links){.n = n};
    l->has_left = calloc((size_t)n, sizeof *l->has_left);
    l->pages = calloc(n_pages(l), sizeof *l->pages);
    return l->has_left && l->pages ? 0 : err_set(e, ERR_NOMEM, "no memory for the figures of %d nodes", n);
}

void links_clear(struct links *l)
{
    for (struct links_page *p = l->made, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(l->pages);
    free(l->has_left);
    *l = (struct links){0};
}

void links_leave(struct links *l, int slot)
{
    l->n_left += !l->has_left[slot];
    l->has_left[slot] = true;
}

static struct link *up_to_date(const struct links *l, struct link *k)
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

struct link *link_make(struct links *l, int slot)
{
    struct links_page *p = l->pages[slot / PAGE];

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

struct link *link_of(const struct links *l, int slot)
{
    assert(l->pages[slot / PAGE]);
    return up_to_date(l, &l->pages[slot / PAGE]->of[slot % PAGE]);
}

const struct link *link_read(const struct links *l, int slot)
{
    static const struct link nothing;

    return l->pages[slot / PAGE] ? link_of(l, slot) : &nothing;
}

void links_close_round(struct links *l)
{
    l->n_rounds++;
}
