#include "sim/pairs.h"

#include <stdlib.h>

enum { FIRST_ROOM = 256 };

static bool is(const struct sim_pair *p, int from, int to)
{
    return p->from == from && p->to == to;
}

static uint32_t hash_of(const struct sim_pairs *p, int from, int to)
{
    uint64_t key = (uint64_t)from << 32 | (uint32_t)to;

    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & (2 * p->room - 1);
}

/* Returns the position of the pair's number in the index, or the free one for it. */
static uint32_t place_of(const struct sim_pairs *p, int from, int to)
{
    uint32_t at = hash_of(p, from, to);

    while (p->index[at] && !is(&p->of[p->index[at] - 1], from, to))
        at = (at + 1) & (2 * p->room - 1);
    return at;
}

static int make_room(struct sim_pairs *p, uint32_t room, struct err *e)
{
    struct sim_pair *of = realloc(p->of, room * sizeof *of);
    uint32_t *index = calloc(2 * (size_t)room, sizeof *index);

    p->of = of ? of : p->of;
    if (!of || !index) {
        free(index);
        return err_set(e, ERR_NOMEM, "no memory for %u pairs of nodes", room);
    }
    free(p->index);
    p->index = index;
    p->room = room;
    for (uint32_t i = 0; i < p->n; i++)
        index[place_of(p, of[i].from, of[i].to)] = i + 1;
    return 0;
}

int sim_pairs_init(struct sim_pairs *p, struct err *e)
{
    *p = (struct sim_pairs){0};
    return make_room(p, FIRST_ROOM, e);
}

void sim_pairs_clear(struct sim_pairs *p)
{
    free(p->of);
    free(p->index);
    *p = (struct sim_pairs){0};
}

/* A node sends to all peers in the same order each time, so most often the next pair is the one searched
 * for: it is tried before the index, in which neighbors are far apart. */
struct sim_pair *sim_pairs_find(struct sim_pairs *p, int from, int to)
{
    uint32_t next = p->latest + 1, number;

    if (next < p->n && is(&p->of[next], from, to)) {
        p->latest = next;
        return &p->of[next];
    }
    number = p->index[place_of(p, from, to)];
    if (number == 0)
        return NULL;
    p->latest = number - 1;
    return &p->of[number - 1];
}

struct sim_pair *sim_pairs_add(struct sim_pairs *p, int from, int to, struct err *e)
{
    if (p->n == p->room && make_room(p, 2 * p->room, e) < 0)
        return NULL;
    p->index[place_of(p, from, to)] = p->n + 1;
    p->latest = p->n++;
    p->of[p->latest] = (struct sim_pair){.from = from, .to = to, .next_of_sender = SIM_NO_PAIR};
    return &p->of[p->latest];
}
