#include "runner/exchange/agreement.h"

#include <stdlib.h>
#include <string.h>

static size_t list_bytes(const struct agreement *a)
{
    return ((size_t)a->n + 7) / 8;
}

bool agreement_open(struct agreement *a, int n, int self)
{
    size_t room = (size_t)n;

    *a = (struct agreement){.n = n, .self = self, .is_settled = true};
    a->is_lost = calloc(room, sizeof *a->is_lost);
    a->has_stated = calloc(room, sizeof *a->has_stated);
    a->rounds = calloc(room, sizeof *a->rounds);
    a->counted = calloc(room, sizeof *a->counted);
    return a->is_lost && a->has_stated && a->rounds && a->counted;
}

void agreement_clear(struct agreement *a)
{
    free(a->is_lost);
    free(a->has_stated);
    free(a->rounds);
    free(a->counted);
    *a = (struct agreement){0};
}

void agreement_lose(struct agreement *a, int worker)
{
    a->n_lost += !a->is_lost[worker];
    a->is_lost[worker] = true;
}

void agreement_restate(struct agreement *a, uint64_t round)
{
    memset(a->has_stated, 0, (size_t)a->n * sizeof *a->has_stated);
    a->has_stated[a->self] = true;
    a->rounds[a->self] = a->top = round;
    a->is_settled = false;
}

size_t agreement_bytes(const struct agreement *a)
{
    return 2 * list_bytes(a);
}

static void write_list(unsigned char *out, const bool *list, int n)
{
    for (int w = 0; w < n; w++)
        out[w / 8] = (unsigned char)(out[w / 8] | list[w] << w % 8);
}

void agreement_write(const struct agreement *a, unsigned char *out)
{
    memset(out, 0, agreement_bytes(a));
    write_list(out, a->is_lost, a->n);
    write_list(out + list_bytes(a), a->counted, a->n);
}

static bool is_in(const unsigned char *list, int worker)
{
    return list[worker / 8] >> worker % 8 & 1;
}

/* Returns the number of workers in the list; -1: it names workers that do not exist. */
static int count(const struct agreement *a, const unsigned char *list)
{
    int n = 0;

    for (int w = 0; w < 8 * (int)list_bytes(a); w++) {
        if (w >= a->n && is_in(list, w))
            return -1;
        n += is_in(list, w);
    }
    return n;
}

bool agreement_read(struct agreement_statement *out, const struct agreement *a, int from, uint64_t own_round,
                    uint64_t round, const unsigned char *bytes, size_t len)
{
    *out = (struct agreement_statement){.round = round, .lost = bytes, .counted = bytes + len / 2};
    /* Two workers are at most one round apart, because neither can close its round without the other's
     * contribution to it. */
    return len == agreement_bytes(a) && round <= own_round + 1 && round + 1 >= own_round &&
           count(a, out->lost) > 0 && count(a, out->counted) >= 0 && !is_in(out->lost, from);
}

bool agreement_names_lost(const struct agreement_statement *s, int worker)
{
    return is_in(s->lost, worker);
}

/* All workers in the latest round have closed the previous one with the same contributions: any of their
 * lists will do. */
void agreement_take(struct agreement *a, int from, const struct agreement_statement *s)
{
    if (a->has_stated[from] || count(a, s->lost) != a->n_lost)
        return;
    a->has_stated[from] = true;
    a->rounds[from] = s->round;
    if (s->round <= a->top)
        return;
    a->top = s->round;
    for (int w = 0; w < a->n; w++)
        a->counted[w] = is_in(s->counted, w);
}

int agreement_awaits(const struct agreement *a, const bool *has_left)
{
    for (int w = 0; !a->is_settled && w < a->n; w++)
        if (!a->has_stated[w] && !a->is_lost[w] && !has_left[w])
            return w;
    return -1;
}

bool agreement_settles(struct agreement *a, const bool *has_left)
{
    bool was_settled = a->is_settled;

    a->is_settled = agreement_awaits(a, has_left) < 0;
    return a->is_settled && !was_settled;
}

bool agreement_counts(const struct agreement *a, int worker, uint64_t round)
{
    return !a->is_lost[worker] || (round < a->top && a->counted[worker]);
}

int agreement_relayer(const struct agreement *a, const bool *has_left)
{
    for (int w = 0; w < a->n; w++)
        if (a->has_stated[w] && a->rounds[w] == a->top && !has_left[w])
            return w;
    return -1;
}

bool agreement_is_behind(const struct agreement *a, int worker)
{
    return a->has_stated[worker] && a->rounds[worker] < a->top;
}
