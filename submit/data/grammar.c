#include "submit/data/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/rng.h"

enum { ROUNDS_MAX = 10000 };

static const char letters[GRAMMAR_LETTERS + 1] = " etaoinshrdlucmfwypvbgkjqxz";
static const double end_share = 1.0 / GRAMMAR_LENGTH; /* of a document, behind each letter */
static const double balance = 1e-15;                  /* change of the stationary distribution at its end */

/* Random streams of the seed. */
static const uint64_t stream_tables = 0x656c626174; /* "table" */
static const uint64_t stream_text = 0x74786574;     /* "text" */

static size_t n_pairs(const struct grammar *g)
{
    size_t side = (size_t)g->n_letters + 1;

    return side * side;
}

static const double *row_of(const struct grammar *g, size_t topic, size_t a, size_t b)
{
    size_t side = (size_t)g->n_letters + 1;

    return g->p + ((topic * side + a) * side + b) * (size_t)g->n_letters;
}

/* What a token says of each letter behind it, or of the second one behind it. */
static void draw_weights(double *w, size_t n, uint64_t seed, uint64_t table, uint64_t token)
{
    struct rng r;

    rng_init(&r, seed ^ stream_tables, table, token);
    for (size_t x = 0; x < n; x++) {
        double u = (double)(rng_u64(&r) >> 11) * 0x1p-53;

        w[x] = u * u * (u * u) + 1e-3; /* no letter is impossible */
    }
}

static void draw_tables(struct grammar *g, uint64_t seed)
{
    size_t n = (size_t)g->n_letters, side = n + 1;
    double last[GRAMMAR_LETTERS], before[GRAMMAR_LETTERS], sum;

    for (size_t k = 0; k < (size_t)g->n_topics; k++)
        for (size_t a = 0; a < side; a++)
            for (size_t b = 0; b < side; b++) {
                double *p = g->p + ((k * side + a) * side + b) * n;

                draw_weights(last, n, seed, 0, b);
                draw_weights(before, n, seed, k + 1, a);
                sum = 0;
                for (size_t x = 0; x < n; x++)
                    sum += p[x] = last[x] * before[x];
                for (size_t x = 0; x < n; x++)
                    p[x] /= sum;
            }
}

/* One step of the chain: to (n_topics, pairs) from `from`. */
static void move_distribution(const struct grammar *g, double *to, const double *from)
{
    size_t n = (size_t)g->n_letters, side = n + 1, n_topics = (size_t)g->n_topics, n_rows = n_pairs(g);
    double ended = 0; /* documents, whose next topic is drawn anew */

    memset(to, 0, n_topics * n_rows * sizeof *to);
    for (size_t k = 0; k < n_topics; k++)
        for (size_t a = 0; a < side; a++)
            for (size_t b = 0; b < side; b++) {
                double mass = from[k * n_rows + a * side + b], stays = mass * (b == 0 ? 1 : 1 - end_share);
                const double *p = row_of(g, k, a, b);

                ended += mass - stays;
                for (size_t x = 0; x < n; x++)
                    to[k * n_rows + b * side + x + 1] += stays * p[x];
            }
    /* What is before the end of a document has no influence: such a pair is (0, 0). */
    for (size_t k = 0; k < n_topics; k++)
        to[k * n_rows] = ended / (double)n_topics;
}

static int find_stationary(struct grammar *g, struct err *e)
{
    size_t n = (size_t)g->n_topics * n_pairs(g);
    double *next = malloc(n * sizeof *next), change = 1;

    if (!next)
        return err_set(e, ERR_NOMEM, "no memory for the distribution of a grammar");
    for (size_t i = 0; i < n; i++)
        g->stationary[i] = 1 / (double)n;
    for (int round = 0; round < ROUNDS_MAX && change > balance; round++) {
        change = 0;
        move_distribution(g, next, g->stationary);
        for (size_t i = 0; i < n; i++)
            change = fmax(change, fabs(next[i] - g->stationary[i]));
        memcpy(g->stationary, next, n * sizeof *next);
    }
    free(next);
    return 0;
}

int grammar_init(struct grammar *g, int n_letters, int n_topics, uint64_t seed, struct err *e)
{
    size_t n_rows = (size_t)(n_letters + 1) * (size_t)(n_letters + 1) * (size_t)n_topics;

    *g = (struct grammar){.n_letters = n_letters,
                          .n_topics = n_topics,
                          .p = calloc(n_rows * (size_t)(n_letters + 1), sizeof *g->p)};
    if (!g->p)
        return err_set(e, ERR_NOMEM, "no memory for a grammar of %d topics", n_topics);
    g->stationary = g->p + n_rows * (size_t)n_letters;
    draw_tables(g, seed);
    return find_stationary(g, e);
}

void grammar_clear(struct grammar *g)
{
    free(g->p);
    *g = (struct grammar){0};
}

static double draw_share(struct rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/* The number from 1 of a letter, by its probabilities. */
static size_t draw_letter(const double *p, size_t n, struct rng *r)
{
    double u = draw_share(r);
    size_t x = 0;

    while (x + 1 < n && u >= p[x])
        u -= p[x++];
    return x + 1;
}

static int append_document(struct token_document **docs, size_t *n, size_t start, size_t topic, struct err *e)
{
    struct token_document *more = *docs;

    if ((*n & (*n - 1)) == 0) { /* 0 or a power of two: full */
        more = realloc(*docs, (*n ? 2 * *n : 1) * sizeof *more);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu documents", *n);
    }
    *docs = more;
    more[(*n)++] = (struct token_document){start, (int32_t)topic};
    return 0;
}

int grammar_draw(uint8_t *tokens, size_t n, struct token_document **docs, size_t *n_docs,
                 const struct grammar *g, uint64_t seed, uint64_t stream, struct err *e)
{
    size_t a = 0, b = 0, topic = 0;
    struct rng r;

    rng_init(&r, seed ^ stream_text, stream, 0);
    if (docs) {
        *docs = NULL;
        *n_docs = 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t x = 0;

        if (b == 0) {
            topic = rng_below(&r, (uint32_t)g->n_topics);
            a = 0;
            if (docs && append_document(docs, n_docs, i, topic, e) < 0) {
                free(*docs);
                *docs = NULL;
                return e->code;
            }
        }
        if (b == 0 || draw_share(&r) >= end_share)
            x = draw_letter(row_of(g, topic, a, b), (size_t)g->n_letters, &r);
        tokens[i] = x ? (uint8_t)letters[x - 1] : TOKEN_END;
        a = b;
        b = x;
    }
    return 0;
}

/* -sum p log p of the next token behind b. */
static double row_entropy(const double *p, size_t n, size_t b)
{
    double stays = b == 0 ? 1 : 1 - end_share, sum = b == 0 ? 0 : -end_share * log(end_share);

    for (size_t x = 0; x < n; x++)
        sum -= stays * p[x] * log(stays * p[x]);
    return sum;
}

double grammar_entropy(const struct grammar *g)
{
    size_t side = (size_t)g->n_letters + 1;
    double sum = 0;

    for (size_t k = 0; k < (size_t)g->n_topics; k++)
        for (size_t a = 0; a < side; a++)
            for (size_t b = 0; b < side; b++)
                sum += g->stationary[k * side * side + a * side + b] *
                       row_entropy(row_of(g, k, a, b), (size_t)g->n_letters, b);
    return sum;
}

/* What is known of the topic and of the token before the last one: their joint probability, up to a
 * factor. */
struct belief {
    double of[GRAMMAR_TOPICS_MAX][GRAMMAR_LETTERS + 1];
};

/* Behind the first token of a window, b: whatever may be before it. */
static void begin_belief(struct belief *h, const struct grammar *g, size_t b)
{
    size_t side = (size_t)g->n_letters + 1;

    for (size_t k = 0; k < (size_t)g->n_topics; k++)
        for (size_t a = 0; a < side; a++)
            h->of[k][a] = g->stationary[k * side * side + a * side + b];
}

/* Returns the probability of token x behind b, and learns from it. */
static double observe(struct belief *h, const struct grammar *g, size_t b, size_t x)
{
    size_t side = (size_t)g->n_letters + 1;
    double stays = b == 0 ? 1 : 1 - end_share, all = 0, seen = 0;

    for (size_t k = 0; k < (size_t)g->n_topics; k++) {
        double sum = 0;

        for (size_t a = 0; a < side; a++) {
            double p = h->of[k][a];

            all += p;
            if (p > 0)
                sum += p * (x == 0 ? 1 - stays : stays * row_of(g, k, a, b)[x - 1]);
            h->of[k][a] = 0;
        }
        seen += sum;
        h->of[k][x == 0 ? 0 : b] = sum;
    }
    for (size_t k = 0; k < (size_t)g->n_topics; k++) {
        size_t a = x == 0 ? 0 : b;

        h->of[k][a] = x == 0 ? 1 / (double)g->n_topics : h->of[k][a] / seen;
    }
    return seen / all;
}

double grammar_floor(const struct grammar *g, const uint8_t *tokens, size_t n_windows, size_t time)
{
    size_t number[TOKENIZER_BYTES] = {0};
    double sum = 0;

    for (size_t x = 0; x < (size_t)g->n_letters; x++)
        number[(uint8_t)letters[x]] = x + 1;
    for (size_t w = 0; w < n_windows; w++) {
        const uint8_t *at = tokens + w * time;
        struct belief h;

        memset(&h, 0, sizeof h);
        begin_belief(&h, g, number[at[0]]);
        for (size_t t = 0; t < time; t++)
            sum -= log(observe(&h, g, number[at[t]], number[at[t + 1]]));
    }
    return sum / (double)(n_windows * time);
}
