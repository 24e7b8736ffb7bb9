#include "agent/http/sources.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 8, SETS = SOURCES_MAX / WAYS };

static const double FIRST_S = 15, LONGEST_S = 600, FORGET_S = 600;

struct entry {
    struct source source;
    double used_at;   /* of its last failure or log line; 0: the place is free */
    double slowed_to; /* the end of its last slowed time */
    double logged_at, slowed_s;
    unsigned n_failed;
};

struct sources {
    struct entry sets[SETS][WAYS];
};

struct sources *sources_new(void)
{
    return calloc(1, sizeof(struct sources));
}

void sources_free(struct sources *t)
{
    free(t);
}

/* FNV-1a. Sources that share a set can only evict each other. */
static size_t set_of(const struct source *s)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < sizeof s->address; i++)
        h = (h ^ s->address[i]) * 16777619u;
    for (int i = 0; i < 4; i++)
        h = (h ^ ((uint32_t)s->uid >> 8 * i & 0xff)) * 16777619u;
    return (h ^ h >> 16) % SETS;
}

static struct entry *find_source(const struct sources *t, const struct source *s, double now)
{
    const struct entry *set = t->sets[set_of(s)];

    for (int i = 0; i < WAYS; i++)
        if (set[i].used_at > 0 && source_is(&set[i].source, s) &&
            now < fmax(set[i].used_at, set[i].slowed_to) + FORGET_S)
            return (struct entry *)(uintptr_t)&set[i];
    return NULL;
}

/* Returns the source's entry. A new one replaces the least recently used entry of its set. */
static struct entry *claim(struct sources *t, const struct source *s, double now)
{
    struct entry *set = t->sets[set_of(s)], *e = find_source(t, s, now);

    if (!e) {
        e = set;
        for (int i = 1; i < WAYS; i++)
            if (set[i].used_at < e->used_at)
                e = &set[i];
        *e = (struct entry){.source = *s, .logged_at = -1};
    }
    e->used_at = now;
    return e;
}

int sources_slowed_s(const struct sources *t, const struct source *s, double now)
{
    const struct entry *e = find_source(t, s, now);

    return e && now < e->slowed_to ? (int)ceil(e->slowed_to - now) : 0;
}

void sources_failed(struct sources *t, const struct source *s, double now)
{
    struct entry *e = claim(t, s, now);

    if (++e->n_failed < FAILURES_FREE)
        return;
    e->slowed_s = e->slowed_s > 0 ? fmin(2 * e->slowed_s, LONGEST_S) : FIRST_S;
    e->slowed_to = now + e->slowed_s;
}

bool sources_may_log(struct sources *t, const struct source *s, double now)
{
    struct entry *e = claim(t, s, now);

    if (e->logged_at >= 0 && now < e->logged_at + 1)
        return false;
    e->logged_at = now;
    return true;
}
