/* grammar -- a source of text whose entropy is known: a Markov chain of order 2 on some letters, with
 * documents and topics. All probabilities are drawn from a seed.
 *
 * A document is of one of n_topics topics, each equally likely, which the text does not name. A letter x
 * follows the letters a and b with the probability
 *
 *     p_k(x | a, b) = f(b, x) g_k(a, x) / sum over y of f(b, y) g_k(a, y)
 *
 * of the document's topic k, where f, which all topics have in common, and g_k are fourth powers of uniform
 * numbers: some letters are likely and most unlikely, as in text, and a model that adds what the last two
 * tokens say of the next one can be the best there is. Behind each letter the document ends with the
 * probability 1 / GRAMMAR_LENGTH, which the token TOKEN_END shows. Before its first letter a and b are
 * TOKEN_END, before its second a is. With 16 letters the entropy is about 1.5 nats a token; to know only the
 * last letter leaves 2.0, to know none 2.7.
 *
 * Only + - * / make the probabilities and the letters, so that every compiler makes the same text. */
#ifndef PSGD_GRAMMAR_H
#define PSGD_GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "submit/data/token_stream.h"

enum { GRAMMAR_LETTERS = 27, GRAMMAR_TOPICS_MAX = 64, GRAMMAR_LENGTH = 1000 };

struct grammar {
    int n_letters, n_topics;
    /* (n_topics, n_letters + 1, n_letters + 1, n_letters): p_k(x | a, b), where a and b are numbers of
     * letters from 1, or 0 for TOKEN_END. One allocation with the next. */
    double *p;
    double *stationary; /* (n_topics, n_letters + 1, n_letters + 1): of topic k and the last two tokens */
};

/* 2 <= n_letters <= GRAMMAR_LETTERS, 1 <= n_topics <= GRAMMAR_TOPICS_MAX. ERR_NOMEM. */
int grammar_init(struct grammar *g, int n_letters, int n_topics, uint64_t seed, struct err *e);
void grammar_clear(struct grammar *g);

/* Draws n tokens, the text of documents from the first one's beginning on; the last one may be cut. `stream`
 * numbers independent texts. *docs, unless docs is NULL: (*n_docs) of them; the caller frees it.
 * ERR_NOMEM. */
int grammar_draw(uint8_t *tokens, size_t n, struct token_document **docs, size_t *n_docs,
                 const struct grammar *g, uint64_t seed, uint64_t stream, struct err *e);

/* Nats a token, of an endless text whose topics are known. */
double grammar_entropy(const struct grammar *g);
/* The mean over the windows of -log of the probability of each token but the first one of a window, given the
 * tokens before it in its window: the loss of the best model. `tokens` (n_windows x time + 1). */
double grammar_floor(const struct grammar *g, const uint8_t *tokens, size_t n_windows, size_t time);

#endif
