#include "submit/data/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/names.h"

enum { CACHE = 1 << 14, CACHED_WORD = 16, DIGITS = 3 };

static const uint32_t no_merge = UINT32_MAX;

struct merge_slot {
    uint32_t pair;  /* left << 16 | right */
    uint32_t merge; /* its number; no_merge: the slot is empty */
};

struct word_slot {
    uint8_t n_bytes, n_tokens; /* 0: empty */
    uint8_t bytes[CACHED_WORD];
    uint16_t tokens[CACHED_WORD];
};

/* Words. */

enum byte_kind { BYTE_LETTER, BYTE_DIGIT, BYTE_MARK, BYTE_SPACE };

static enum byte_kind kind_of(uint8_t c)
{
    if (c >= 128 || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
        return BYTE_LETTER;
    if (c >= '0' && c <= '9')
        return BYTE_DIGIT;
    return c > ' ' && c < 127 ? BYTE_MARK : BYTE_SPACE;
}

size_t tokenizer_word(const uint8_t *text, size_t len)
{
    size_t begin = text[0] == ' ' && len > 1 && kind_of(text[1]) != BYTE_SPACE, n = begin, most;
    enum byte_kind kind = kind_of(text[begin]);

    most = kind == BYTE_DIGIT ? begin + DIGITS : TOKENIZER_WORD;
    most = most < len ? most : len;
    while (n < most && kind_of(text[n]) == kind)
        n++;
    /* The last space belongs to the word behind it. */
    if (kind == BYTE_SPACE && n > 1 && n < len && text[n - 1] == ' ' && kind_of(text[n]) != BYTE_SPACE)
        n--;
    return n;
}

/* Merges. */

static uint32_t pair_of(uint32_t left, uint32_t right)
{
    return left << 16 | right;
}

static struct merge_slot *merge_slot_of(const struct tokenizer *t, uint32_t pair)
{
    for (size_t k = (size_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 32);; k++) {
        struct merge_slot *s = &t->slots[k & (t->n_slots - 1)];

        if (s->merge == no_merge || s->pair == pair)
            return s;
    }
}

static int add_merge(struct tokenizer *t, size_t i, struct token_merge m, size_t *n_bytes, struct err *e)
{
    size_t known = TOKENIZER_BYTES + i, n;
    struct token_bytes left, right;
    struct merge_slot *s;

    if (m.left >= known || m.right >= known)
        return err_set(e, ERR_CONFIG, "merge %zu is of the tokens %u and %u, and only %zu are known there", i,
                       m.left, m.right, known);
    left = t->tokens[m.left];
    right = t->tokens[m.right];
    n = (size_t)left.len + right.len;
    if (n > TOKENIZER_WORD)
        return err_set(e, ERR_CONFIG, "merge %zu makes a token of %zu bytes, at most %d", i, n,
                       TOKENIZER_WORD);
    s = merge_slot_of(t, pair_of(m.left, m.right));
    if (s->merge != no_merge)
        return err_set(e, ERR_CONFIG, "merge %zu is merge %u again", i, s->merge);
    *s = (struct merge_slot){pair_of(m.left, m.right), (uint32_t)i};
    t->merges[i] = m;
    t->tokens[known] = (struct token_bytes){(uint32_t)*n_bytes, (uint8_t)n};
    memcpy(t->bytes + *n_bytes, t->bytes + left.at, left.len);
    memcpy(t->bytes + *n_bytes + left.len, t->bytes + right.at, right.len);
    *n_bytes += n;
    return 0;
}

static int allocate_tables(struct tokenizer *t, size_t n, struct err *e)
{
    t->n_slots = 16;
    while (t->n_slots < 2 * n)
        t->n_slots *= 2;
    t->slots = malloc(t->n_slots * sizeof *t->slots);
    t->merges = malloc((n + 1) * sizeof *t->merges);
    t->tokens = malloc((TOKENIZER_BYTES + n) * sizeof *t->tokens);
    t->bytes = malloc(TOKENIZER_BYTES + n * TOKENIZER_WORD);
    t->cache = calloc(CACHE, sizeof *t->cache);
    if (!t->slots || !t->merges || !t->tokens || !t->bytes || !t->cache)
        return err_set(e, ERR_NOMEM, "no memory for %zu merges", n);
    for (size_t k = 0; k < t->n_slots; k++)
        t->slots[k].merge = no_merge;
    for (uint32_t k = 0; k < TOKENIZER_BYTES; k++) {
        t->bytes[k] = (char)k;
        t->tokens[k] = (struct token_bytes){k, 1};
    }
    return 0;
}

int tokenizer_init(struct tokenizer *t, const struct token_merge *merges, size_t n, struct err *e)
{
    size_t n_bytes = TOKENIZER_BYTES;
    int rc;

    *t = (struct tokenizer){0};
    if (n > TOKENIZER_TOKENS_MAX - TOKENIZER_BYTES)
        return err_set(e, ERR_CONFIG, "%zu merges, at most %d", n, TOKENIZER_TOKENS_MAX - TOKENIZER_BYTES);
    rc = allocate_tables(t, n, e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_merge(t, i, merges[i], &n_bytes, e);
    t->n_merges = (int)n;
    if (rc < 0)
        tokenizer_clear(t);
    return rc;
}

void tokenizer_clear(struct tokenizer *t)
{
    free(t->merges);
    free(t->slots);
    free(t->tokens);
    free(t->bytes);
    free(t->cache);
    *t = (struct tokenizer){0};
}

/* The place of the earliest merge among the neighbours; n: there is none. */
static size_t earliest_merge(const struct tokenizer *t, const uint16_t *tokens, size_t n, uint32_t *merge)
{
    size_t at = n;

    *merge = no_merge;
    for (size_t i = 0; i + 1 < n; i++) {
        const struct merge_slot *s = merge_slot_of(t, pair_of(tokens[i], tokens[i + 1]));

        if (s->merge < *merge) {
            *merge = s->merge;
            at = i;
        }
    }
    return at;
}

/* Replaces each occurrence of the pair, from the left. Returns the number of tokens. */
static size_t merge_pair(uint16_t *tokens, size_t n, struct token_merge m, uint16_t by)
{
    size_t k = 0;

    for (size_t i = 0; i < n; k++) {
        bool is_pair = i + 1 < n && tokens[i] == m.left && tokens[i + 1] == m.right;

        tokens[k] = is_pair ? by : tokens[i];
        i += is_pair ? 2 : 1;
    }
    return k;
}

static size_t encode_word(const struct tokenizer *t, uint16_t *tokens, const uint8_t *word, size_t n)
{
    uint32_t merge;

    for (size_t i = 0; i < n; i++)
        tokens[i] = word[i];
    while (t->n_merges > 0 && earliest_merge(t, tokens, n, &merge) < n)
        n = merge_pair(tokens, n, t->merges[merge], (uint16_t)(TOKENIZER_BYTES + merge));
    return n;
}

size_t tokenizer_encode(struct tokenizer *t, uint16_t *tokens, const uint8_t *word, size_t n)
{
    struct word_slot *s = NULL;

    if (n <= CACHED_WORD && t->cache) {
        s = &t->cache[names_hash((const char *)word, n) & (CACHE - 1)];
        if (s->n_bytes == n && memcmp(s->bytes, word, n) == 0) {
            memcpy(tokens, s->tokens, s->n_tokens * sizeof *tokens);
            return s->n_tokens;
        }
        memcpy(s->bytes, word, n);
        s->n_bytes = (uint8_t)n;
    }
    n = encode_word(t, tokens, word, n);
    if (s) {
        memcpy(s->tokens, tokens, n * sizeof *tokens);
        s->n_tokens = (uint8_t)n;
    }
    return n;
}

size_t tokenizer_encode_text(struct tokenizer *t, uint16_t *tokens, const uint8_t *text, size_t n)
{
    size_t n_tokens = 0;

    for (size_t at = 0, len; at < n; at += len) {
        len = tokenizer_word(text + at, n - at);
        n_tokens += tokenizer_encode(t, tokens + n_tokens, text + at, len);
    }
    return n_tokens;
}

const char *tokenizer_decode(const struct tokenizer *t, uint32_t token, size_t *n)
{
    bool is_known = token < (uint32_t)tokenizer_vocab(t);

    *n = is_known ? t->tokens[token].len : 0;
    return is_known ? t->bytes + t->tokens[token].at : NULL;
}
