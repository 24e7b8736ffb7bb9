/* tokenizer -- byte-level byte-pair encoding: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare
 * Words with Subword Units", ACL 2016, on bytes, as Radford et al., "Language Models are Unsupervised
 * Multitask Learners", 2019.
 *
 * Tokens 0 .. 255 are the bytes; token 256 + i is two earlier tokens, merge i. So any bytes have tokens, and
 * the tokens of a text are its bytes again. A text is first cut into words, and no token has bytes of two:
 *   - letters: A-Z, a-z, and all bytes from 128 on, which are those of other letters in UTF-8
 *   - digits, at most 3
 *   - other printing characters of ASCII
 *   - each with one space before it, if there is one
 *   - other white space and control characters; of several spaces before a word the last one is the word's
 * A word of more than TOKENIZER_WORD bytes is cut there. (GPT-2's rule is by Unicode's categories, with
 * English abbreviations, and has no limit.)
 *
 * Learning merges the pair of neighbouring tokens that is most frequent in all words, of equally frequent
 * ones the one with the smaller first, then second token; until there are as many tokens as wanted, or no
 * pair occurs twice. */
#ifndef PSGD_TOKENIZER_H
#define PSGD_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { TOKENIZER_BYTES = 256, TOKENIZER_TOKENS_MAX = 65536, TOKENIZER_WORD = 64 };

struct token_merge {
    uint16_t left, right;
};

struct tokenizer {
    int n_merges;
    struct token_merge *merges; /* (n_merges); owned */
    struct merge_slot *slots;   /* a hash table of the pairs; owned */
    size_t n_slots;             /* a power of two */
    struct token_bytes {
        uint32_t at;
        uint8_t len;
    } * tokens;              /* (n_merges): bytes of tokens 256, ...; owned */
    char *bytes;             /* owned */
    struct word_slot *cache; /* words that were encoded before; owned */
};

/* Copies n merges. ERR_CONFIG: a merge of a token that is not an earlier one, twice the same, more than
 * TOKENIZER_TOKENS_MAX tokens, or a token of more than TOKENIZER_WORD bytes. ERR_NOMEM. */
int tokenizer_init(struct tokenizer *t, const struct token_merge *merges, size_t n, struct err *e);
void tokenizer_clear(struct tokenizer *t);
static inline int tokenizer_vocab(const struct tokenizer *t)
{
    return TOKENIZER_BYTES + t->n_merges;
}

/* Returns the number of bytes of the first word of a text, 1 .. TOKENIZER_WORD; len > 0. */
size_t tokenizer_word(const uint8_t *text, size_t len);
/* Writes the tokens of one word of n <= TOKENIZER_WORD bytes; returns their number, at most n. */
size_t tokenizer_encode(struct tokenizer *t, uint16_t *tokens, const uint8_t *word, size_t n);
/* The same of all words of a text of n bytes. */
size_t tokenizer_encode_text(struct tokenizer *t, uint16_t *tokens, const uint8_t *text, size_t n);
/* The bytes of a token, n of them; n = 0: the token is beyond the vocabulary. */
const char *tokenizer_decode(const struct tokenizer *t, uint32_t token, size_t *n);

/* Counts the words of texts, from which merges are learned. */
struct word_counts {
    struct counted_word *slots;
    size_t n_slots, n; /* a power of two; words */
    char *bytes;       /* of all words */
    size_t n_bytes, room;
};
/* Further words are left out when there are a million different ones. ERR_NOMEM. */
int word_counts_add(struct word_counts *c, const uint8_t *word, size_t n, struct err *e);
void word_counts_clear(struct word_counts *c);
/* *merges: of at most vocab - 256 merges, *n of them; the caller frees it. ERR_NOMEM. */
int tokenizer_learn(struct token_merge **merges, size_t *n, const struct word_counts *c, int vocab,
                    struct err *e);

#endif
