#include "runner/exchange/peer_stats.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4 };

int peer_stats_open(struct peer_stats *s, int n, struct err *e)
{
    *s = (struct peer_stats){.n = n};
    s->has_left = calloc((size_t)n, sizeof *s->has_left);
    return s->has_left ? 0 : err_set(e, ERR_NOMEM, "no memory for the traffic statistics of %d nodes", n);
}

void peer_stats_clear(struct peer_stats *s)
{
    free(s->made);
    free(s->has_left);
    *s = (struct peer_stats){0};
}

void peer_stats_leave(struct peer_stats *s, int slot)
{
    s->n_left += !s->has_left[slot];
    s->has_left[slot] = true;
}

/* The position of the peer's statistics, or, if there are none, the one for them. */
static int place_of(const struct peer_stats *s, int slot)
{
    int low = 0, end = s->n_made;

    if (slot < end && s->made[slot].slot == slot) /* always, if all have statistics */
        return slot;
    while (low < end) {
        int middle = (low + end) / 2;

        if (s->made[middle].slot < slot)
            low = middle + 1;
        else
            end = middle;
    }
    return low;
}

static bool is_made(const struct peer_stats *s, int place, int slot)
{
    return place < s->n_made && s->made[place].slot == slot;
}

static void begin_round(const struct peer_stats *s, struct peer_traffic *t)
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
    int place = place_of(s, slot);

    if (!is_made(s, place, slot)) {
        int room = s->room ? 2 * s->room : FIRST_ROOM;
        struct peer_traffic *more = s->made;

        if (s->n_made == s->room && !(more = realloc(s->made, (size_t)room * sizeof *more)))
            return NULL;
        s->room = s->n_made == s->room ? room : s->room;
        s->made = more;
        memmove(&more[place + 1], &more[place], (size_t)(s->n_made++ - place) * sizeof *more);
        more[place] = (struct peer_traffic){.slot = slot, .round = s->n_rounds};
    }
    return peer_stats_of(s, slot);
}

struct peer_traffic *peer_stats_of(const struct peer_stats *s, int slot)
{
    int place = place_of(s, slot);

    assert(is_made(s, place, slot));
    if (s->made[place].round != s->n_rounds)
        begin_round(s, &s->made[place]);
    return &s->made[place];
}

const struct peer_traffic *peer_stats_read(const struct peer_stats *s, int slot)
{
    static const struct peer_traffic nothing;

    return is_made(s, place_of(s, slot), slot) ? peer_stats_of(s, slot) : &nothing;
}

int peer_stats_next(const struct peer_stats *s, int slot)
{
    int place = place_of(s, slot);

    return place < s->n_made ? s->made[place].slot : s->n;
}
