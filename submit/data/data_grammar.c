/* Text that is generated from a seed, and whose entropy is known (grammar.h), for models of language. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_sets.h"
#include "submit/data/grammar.h"

enum { TRAIN_TEXT, TEST_TEXT };

struct grammar_options {
    uint64_t seed;
    int train, test, topics, letters;
};

static const struct json_field fields[] = {
    {"seed", JSON_FIELD_U64, JSON_AT(struct grammar_options, seed)},
    {"train", JSON_FIELD_INT, JSON_AT(struct grammar_options, train), .min = 2, .max = DATA_BYTES_MAX},
    {"test", JSON_FIELD_INT, JSON_AT(struct grammar_options, test), .min = 2, .max = DATA_BYTES_MAX},
    {"topics", JSON_FIELD_INT, JSON_AT(struct grammar_options, topics), .min = 1, .max = GRAMMAR_TOPICS_MAX},
    {"letters", JSON_FIELD_INT, JSON_AT(struct grammar_options, letters), .min = 2, .max = GRAMMAR_LETTERS},
    {0},
};

static int draw_halves(struct dataset *d, const struct grammar *g, const struct grammar_options *o,
                       size_t window, struct err *e)
{
    struct token_stream *t = &d->stream;
    bool has_topics = g->n_topics > 1;

    if (grammar_draw(d->train_x, t->n_train, has_topics ? &t->docs : NULL, &t->n_docs, g, o->seed, TRAIN_TEXT,
                     e) < 0)
        return e->code;
    t->n_topics = has_topics ? g->n_topics : 0;
    if (grammar_draw(d->test_x, t->n_test, NULL, NULL, g, o->seed, TEST_TEXT, e) < 0 ||
        dataset_cut_stream(d, window, e) < 0)
        return e->code;
    t->entropy = grammar_entropy(g);
    t->floor = grammar_floor(g, d->test_x, d->n_test, window);
    return 0;
}

int grammar_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                 struct err *e)
{
    struct grammar_options o = {.seed = 1, .train = 2000000, .test = 100000, .topics = 1, .letters = 16};
    struct grammar g;
    int rc;

    (void)path;
    if (data_options(&o, fields, "seed", arg, e) < 0)
        return e->code;
    *d = (struct dataset){.x_type = TENSOR_U8, .n_classes = TOKENIZER_BYTES, .vocab = TOKENIZER_BYTES};
    d->stream = (struct token_stream){
        .n_train = (size_t)o.train, .n_test = (size_t)o.test, .bytes_per_token = 1};
    d->train_x = malloc(d->stream.n_train);
    d->test_x = malloc(d->stream.n_test);
    rc = grammar_init(&g, o.letters, o.topics, o.seed, e);
    if (rc == 0 && (!d->train_x || !d->test_x))
        rc = err_set(e, ERR_NOMEM, "no memory for %d letters", o.train + o.test);
    if (rc == 0)
        rc = draw_halves(d, &g, &o, use->window, e);
    grammar_clear(&g);
    if (rc < 0)
        dataset_clear(d);
    return rc;
}
