/* Learning the merges of a tokenizer from the counts of words. A table has the count of each pair of
 * neighbouring tokens, and the words in which it occurs; a heap has the pairs by their counts, which may have
 * fallen since: a pair that is taken from it with an old count is put back. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/names.h"
#include "submit/data/tokenizer.h"

enum { WORDS_MAX = 1 << 20 };

struct counted_word {
    uint64_t count; /* 0: the slot is empty */
    size_t at;      /* of its bytes */
    uint8_t len;
};

void word_counts_clear(struct word_counts *c)
{
    free(c->slots);
    free(c->bytes);
    *c = (struct word_counts){0};
}

static struct counted_word *word_slot_of(const struct word_counts *c, const uint8_t *word, size_t n)
{
    for (size_t k = (size_t)names_hash((const char *)word, n);; k++) {
        struct counted_word *s = &c->slots[k & (c->n_slots - 1)];

        if (s->count == 0 || (s->len == n && memcmp(c->bytes + s->at, word, n) == 0))
            return s;
    }
}

static int grow_slots(struct word_counts *c, struct err *e)
{
    struct word_counts more = *c;

    more.n_slots = c->n_slots ? 2 * c->n_slots : 4096;
    more.slots = calloc(more.n_slots, sizeof *more.slots);
    if (!more.slots)
        return err_set(e, ERR_NOMEM, "no memory for %zu words", more.n_slots);
    for (size_t k = 0; k < c->n_slots; k++)
        if (c->slots[k].count > 0)
            *word_slot_of(&more, (const uint8_t *)c->bytes + c->slots[k].at, c->slots[k].len) = c->slots[k];
    free(c->slots);
    *c = more;
    return 0;
}

static int copy_word(struct word_counts *c, const uint8_t *word, size_t n, struct err *e)
{
    if (c->n_bytes + n > c->room) {
        size_t room = c->room ? 2 * c->room : 1 << 16;
        char *more = realloc(c->bytes, room);

        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for the bytes of %zu words", c->n);
        c->bytes = more;
        c->room = room;
    }
    memcpy(c->bytes + c->n_bytes, word, n);
    c->n_bytes += n;
    return 0;
}

int word_counts_add(struct word_counts *c, const uint8_t *word, size_t n, struct err *e)
{
    struct counted_word *s;

    if (2 * c->n >= c->n_slots && grow_slots(c, e) < 0)
        return e->code;
    s = word_slot_of(c, word, n);
    if (s->count == 0) {
        if (c->n == WORDS_MAX)
            return 0;
        if (copy_word(c, word, n, e) < 0)
            return e->code;
        *s = (struct counted_word){.at = c->n_bytes - n, .len = (uint8_t)n};
        c->n++;
    }
    s->count++;
    return 0;
}

struct pair_count {
    uint32_t pair; /* left << 16 | right */
    bool is_used;
    uint64_t count;
    uint32_t *words; /* in which it occurs or has occurred, some twice */
    uint32_t n, room;
};

struct heap_item {
    uint64_t count;
    uint32_t pair;
};

struct learner {
    size_t n_words;
    struct learned_word {
        uint64_t count;
        size_t at; /* of its tokens */
        uint32_t n;
    } * words;        /* (n_words) */
    uint16_t *tokens; /* of all words */
    struct pair_count *pairs;
    size_t n_slots, n_pairs;
    struct heap_item *heap;
    size_t n_heap, heap_room;
};

static struct pair_count *pair_slot_of(struct pair_count *pairs, size_t n_slots, uint32_t pair)
{
    for (size_t k = (size_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32);; k++) {
        struct pair_count *p = &pairs[k & (n_slots - 1)];

        if (!p->is_used || p->pair == pair)
            return p;
    }
}

/* NULL: no memory. */
static struct pair_count *find_pair(struct learner *l, uint32_t pair)
{
    struct pair_count *p;

    if (2 * l->n_pairs >= l->n_slots) {
        size_t n_slots = l->n_slots ? 2 * l->n_slots : 1024;
        struct pair_count *more = calloc(n_slots, sizeof *more);

        if (!more)
            return NULL;
        for (size_t k = 0; k < l->n_slots; k++)
            if (l->pairs[k].is_used)
                *pair_slot_of(more, n_slots, l->pairs[k].pair) = l->pairs[k];
        free(l->pairs);
        l->pairs = more;
        l->n_slots = n_slots;
    }
    p = pair_slot_of(l->pairs, l->n_slots, pair);
    if (!p->is_used) {
        *p = (struct pair_count){.pair = pair, .is_used = true};
        l->n_pairs++;
    }
    return p;
}

static bool add_occurrence(struct learner *l, uint32_t pair, uint32_t word)
{
    struct pair_count *p = find_pair(l, pair);

    if (!p)
        return false;
    p->count += l->words[word].count;
    if (p->n > 0 && p->words[p->n - 1] == word)
        return true;
    if (p->n == p->room) {
        uint32_t room = p->room ? 2 * p->room : 2;
        uint32_t *more = realloc(p->words, room * sizeof *more);

        if (!more)
            return false;
        p->words = more;
        p->room = room;
    }
    p->words[p->n++] = word;
    return true;
}

/* The heap: the most frequent pair first, of equal ones the smaller. */

static bool comes_before(struct heap_item a, struct heap_item b)
{
    return a.count != b.count ? a.count > b.count : a.pair < b.pair;
}

static bool push_pair(struct learner *l, struct heap_item item)
{
    size_t i = l->n_heap;

    if (i == l->heap_room) {
        size_t room = l->heap_room ? 2 * l->heap_room : 1024;
        struct heap_item *more = realloc(l->heap, room * sizeof *more);

        if (!more)
            return false;
        l->heap = more;
        l->heap_room = room;
    }
    for (l->n_heap++; i > 0 && comes_before(item, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = item;
    return true;
}

static struct heap_item pop_pair(struct learner *l)
{
    struct heap_item first = l->heap[0], last = l->heap[--l->n_heap];
    size_t i = 0;

    for (size_t k; (k = 2 * i + 1) < l->n_heap; i = k) {
        if (k + 1 < l->n_heap && comes_before(l->heap[k + 1], l->heap[k]))
            k++;
        if (!comes_before(l->heap[k], last))
            break;
        l->heap[i] = l->heap[k];
    }
    l->heap[i] = last;
    return first;
}

/* By their bytes, so that the order does not depend on the hash table. */
static int by_bytes(const void *a, const void *b, void *arg)
{
    const struct counted_word *x = *(const struct counted_word *const *)a;
    const struct counted_word *y = *(const struct counted_word *const *)b;
    const char *bytes = arg;
    int c = memcmp(bytes + x->at, bytes + y->at, x->len < y->len ? x->len : y->len);

    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static bool take_words(struct learner *l, const struct word_counts *c)
{
    const struct counted_word **order = malloc((c->n + 1) * sizeof *order);
    size_t n = 0, at = 0;

    l->words = malloc((c->n + 1) * sizeof *l->words);
    l->tokens = malloc((c->n_bytes + 1) * sizeof *l->tokens);
    for (size_t k = 0; order && k < c->n_slots; k++)
        if (c->slots[k].count > 0)
            order[n++] = &c->slots[k];
    if (order)
        qsort_r(order, n, sizeof *order, by_bytes, c->bytes);
    for (size_t i = 0; order && l->words && l->tokens && i < n; i++) {
        l->words[i] = (struct learned_word){order[i]->count, at, order[i]->len};
        for (size_t k = 0; k < order[i]->len; k++)
            l->tokens[at++] = (uint8_t)c->bytes[order[i]->at + k];
    }
    l->n_words = n;
    free(order);
    return order && l->words && l->tokens;
}

static uint32_t neighbours(const uint16_t *tokens)
{
    return (uint32_t)tokens[0] << 16 | tokens[1];
}

static bool count_pairs(struct learner *l)
{
    for (size_t w = 0; w < l->n_words; w++)
        for (uint32_t i = 0; i + 1 < l->words[w].n; i++)
            if (!add_occurrence(l, neighbours(l->tokens + l->words[w].at + i), (uint32_t)w))
                return false;
    for (size_t k = 0; k < l->n_slots; k++)
        if (l->pairs[k].is_used && !push_pair(l, (struct heap_item){l->pairs[k].count, l->pairs[k].pair}))
            return false;
    return true;
}

/* Replaces the pair in one word, and moves the counts of its pairs. New pairs have the new token. */
static bool merge_in_word(struct learner *l, uint32_t word, uint32_t pair, uint16_t by)
{
    struct learned_word *w = &l->words[word];
    uint16_t *tokens = l->tokens + w->at;
    uint32_t k = 0;
    bool has_pair = false;

    for (uint32_t i = 0; i + 1 < w->n; i++)
        has_pair |= neighbours(tokens + i) == pair;
    if (!has_pair)
        return true;
    for (uint32_t i = 0; i + 1 < w->n; i++)
        pair_slot_of(l->pairs, l->n_slots, neighbours(tokens + i))->count -= w->count;
    for (uint32_t i = 0; i < w->n; k++) {
        bool is_pair = i + 1 < w->n && neighbours(tokens + i) == pair;

        tokens[k] = is_pair ? by : tokens[i];
        i += is_pair ? 2 : 1;
    }
    w->n = k;
    for (uint32_t i = 0; i + 1 < w->n; i++) {
        uint32_t now = neighbours(tokens + i);

        if (tokens[i] != by && tokens[i + 1] != by)
            pair_slot_of(l->pairs, l->n_slots, now)->count += w->count;
        else if (!add_occurrence(l, now, word))
            return false;
    }
    return true;
}

/* Pairs with the new token, which are in the words of the merged one. */
static bool push_new_pairs(struct learner *l, const uint32_t *words, uint32_t n, uint16_t token)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct learned_word *w = &l->words[words[i]];
        const uint16_t *tokens = l->tokens + w->at;

        for (uint32_t k = 0; k + 1 < w->n; k++) {
            struct pair_count *p;

            if (tokens[k] != token && tokens[k + 1] != token)
                continue;
            p = pair_slot_of(l->pairs, l->n_slots, neighbours(tokens + k));
            if (p->words[0] == words[i] && !push_pair(l, (struct heap_item){p->count, p->pair}))
                return false;
        }
    }
    return true;
}

static bool merge_everywhere(struct learner *l, uint32_t pair, uint16_t by)
{
    struct pair_count *p = pair_slot_of(l->pairs, l->n_slots, pair);
    uint32_t *words = p->words, n = p->n;
    bool ok = true;

    p->words = NULL; /* the table may move */
    p->n = p->room = 0;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = merge_in_word(l, words[i], pair, by);
    ok = ok && push_new_pairs(l, words, n, by);
    free(words);
    return ok;
}

static bool learn(struct learner *l, struct token_merge *merges, size_t *n, size_t most)
{
    while (*n < most && l->n_heap > 0) {
        struct heap_item item = pop_pair(l);
        uint64_t count = pair_slot_of(l->pairs, l->n_slots, item.pair)->count;

        if (count < 2)
            continue;
        if (count != item.count) {
            item.count = count;
            push_pair(l, item); /* there is room: it was just taken out */
            continue;
        }
        merges[*n] = (struct token_merge){(uint16_t)(item.pair >> 16), (uint16_t)item.pair};
        if (!merge_everywhere(l, item.pair, (uint16_t)(TOKENIZER_BYTES + *n)))
            return false;
        (*n)++;
    }
    return true;
}

static void clear_learner(struct learner *l)
{
    for (size_t k = 0; k < l->n_slots; k++)
        free(l->pairs[k].words);
    free(l->pairs);
    free(l->heap);
    free(l->words);
    free(l->tokens);
}

int tokenizer_learn(struct token_merge **merges, size_t *n, const struct word_counts *c, int vocab,
                    struct err *e)
{
    size_t most = (size_t)(vocab - TOKENIZER_BYTES);
    struct learner l = {0};
    bool ok;

    *n = 0;
    *merges = malloc((most + 1) * sizeof **merges);
    ok = *merges && take_words(&l, c) && count_pairs(&l) && learn(&l, *merges, n, most);
    clear_learner(&l);
    if (ok)
        return 0;
    free(*merges);
    *merges = NULL;
    return err_set(e, ERR_NOMEM, "no memory to learn tokens from %zu words", c->n);
}
