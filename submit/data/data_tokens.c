/* Text as a stream of tokens, for models of language: a file, or a folder of documents. Tokens are bytes, or
 * those of byte-pair encoding (tokenizer.h), learned from the training half. A file that job_submit data
 * tokenize has written has the tokens already: token_file.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"
#include "submit/data/text_source.h"
#include "submit/data/token_file.h"

enum { TEST_TOKENS = 1 << 18, RELEASED_AT_ONCE = 8 << 20 };

static const double test_share = 0.1; /* and at most TEST_TOKENS */

struct tokens_options {
    uint64_t seed;
    double test; /* 0: test_share */
    char separator[64];
    int vocab;
};

static const struct json_field fields[] = {
    {"seed", JSON_FIELD_U64, JSON_AT(struct tokens_options, seed), .may_change = true},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct tokens_options, test), .min = 1e-9, .max = 0.999999,
     .may_change = true},
    {"separator", JSON_FIELD_TEXT, JSON_AT(struct tokens_options, separator), .may_change = true},
    {"vocab", JSON_FIELD_INT, JSON_AT(struct tokens_options, vocab), .min = TOKENIZER_BYTES,
     .max = TOKENIZER_TOKENS_MAX},
    {0},
};

/* The division of a text. */
struct token_halves {
    const struct tokens_options *opt;
    const struct data_use *use;
    struct dataset *d; /* that is filled */
    struct text_source text;
    bool *is_test;               /* (text.n) */
    struct data_spool spools[2]; /* the training and the test half */
    int to;                      /* that is written */
    struct tokenizer tokenizer;
    struct word_counts words;
    size_t test_bytes;
};

/* Of all documents, or of the bytes of one that is divided. */
static double share_of_test(const struct token_halves *h)
{
    double most = (double)TEST_TOKENS / (double)h->text.n_bytes;

    return h->opt->test > 0 ? h->opt->test : most < test_share ? most : test_share;
}

static size_t size_of_test(const struct token_halves *h, size_t n)
{
    size_t k = (size_t)(share_of_test(h) * (double)n + 0.5);

    return h->use->is_whole ? n : k > 0 ? k : 1;
}

/* The bytes of the document in a file are the stream: its end is the test half. */
static int map_file(struct token_halves *h, struct err *e)
{
    const struct text_document *doc = &h->text.docs[0]; /* lines that separate may be around it */
    struct token_stream *t = &h->d->stream;

    t->n_test = size_of_test(h, doc->len);
    t->n_train = doc->len - t->n_test;
    t->maps[0] = h->text.file;
    h->text.file = (struct data_map){0};
    h->d->train_x = (uint8_t *)t->maps[0].at + doc->at;
    h->d->test_x = (uint8_t *)h->d->train_x + t->n_train;
    return dataset_cut_stream(h->d, h->use->window, e);
}

/* Makes two documents of one. */
static int halve_document(struct text_source *s, size_t n_test, struct err *e)
{
    struct text_document *two = realloc(s->docs, 2 * sizeof *two);

    if (!two)
        return err_set(e, ERR_NOMEM, "no memory for the halves of a text");
    two[1] = two[0];
    two[0].len -= n_test;
    two[1].at += two[0].len;
    two[1].len = n_test;
    s->docs = two;
    s->n = s->room = 2;
    return 0;
}

static int choose_documents(struct token_halves *h, struct err *e)
{
    struct text_source *s = &h->text;
    bool is_one = s->n == 1 && !h->use->is_whole;
    size_t n_test;

    if (is_one && halve_document(s, size_of_test(h, s->docs[0].len), e) < 0)
        return e->code;
    h->is_test = calloc(s->n, sizeof *h->is_test);
    h->d->stream.docs = malloc(s->n * sizeof *h->d->stream.docs);
    if (!h->is_test || !h->d->stream.docs)
        return err_set(e, ERR_NOMEM, "no memory for %zu documents", s->n);
    if (!is_one && !h->use->is_whole)
        return dataset_choose_test(h->is_test, &n_test, s->n, share_of_test(h), h->opt->seed, e);
    for (size_t i = 0; i < s->n; i++)
        h->is_test[i] = h->use->is_whole || i > 0;
    return 0;
}

/* Calls use() for each word of a document. */
static int walk_words(struct token_halves *h, const uint8_t *text, size_t n,
                      int (*use)(struct token_halves *h, const uint8_t *word, size_t n, struct err *e),
                      struct err *e)
{
    size_t released = 0;

    for (size_t at = 0, len; at < n; at += len) {
        len = tokenizer_word(text + at, n - at);
        if (use(h, text + at, len, e) < 0)
            return e->code;
        if (at - released > RELEASED_AT_ONCE) {
            data_map_release(text + released, at - released);
            released = at;
        }
    }
    return 0;
}

static int count_word(struct token_halves *h, const uint8_t *word, size_t n, struct err *e)
{
    return word_counts_add(&h->words, word, n, e);
}

static int count_words(void *arg, const uint8_t *text, size_t n, struct err *e)
{
    return walk_words(arg, text, n, count_word, e);
}

static int learn_tokens(struct token_halves *h, struct err *e)
{
    struct token_stream *t = &h->d->stream;

    for (size_t i = 0; i < h->text.n; i++)
        if (!h->is_test[i] && text_source_visit(&h->text, &h->text.docs[i], count_words, h, e) < 0)
            return e->code;
    if (tokenizer_learn(&t->merges, &t->n_merges, &h->words, h->opt->vocab, e) < 0)
        return e->code;
    if (TOKENIZER_BYTES + (int)t->n_merges < h->opt->vocab)
        dataset_warn(&h->d->warnings, "the tokens are %zu of at most %d: no further pair occurs twice",
                     TOKENIZER_BYTES + t->n_merges, h->opt->vocab);
    return 0;
}

/* The tokens of the model that reads the text, or those of the training half. */
static int open_tokenizer(struct token_halves *h, struct err *e)
{
    struct token_stream *t = &h->d->stream;
    const struct preprocessing *known = h->use->known;

    if (known && preprocessing_copy_merges(known, &t->merges, &t->n_merges, e) < 0)
        return e->code;
    if (!known && h->opt->vocab > TOKENIZER_BYTES && learn_tokens(h, e) < 0)
        return e->code;
    h->d->vocab = h->d->n_classes = TOKENIZER_BYTES + (int)t->n_merges;
    h->d->x_type = t->n_merges > 0 ? TENSOR_U16 : TENSOR_U8;
    return tokenizer_init(&h->tokenizer, t->merges, t->n_merges, e);
}

static int put_word(struct token_halves *h, const uint8_t *word, size_t n, struct err *e)
{
    uint16_t tokens[TOKENIZER_WORD];
    size_t k = tokenizer_encode(&h->tokenizer, tokens, word, n);

    return data_spool_put(&h->spools[h->to], tokens, k * sizeof *tokens, e);
}

static int put_bytes(struct token_halves *h, const uint8_t *text, size_t n, struct err *e)
{
    for (size_t at = 0; at < n; at += RELEASED_AT_ONCE) {
        size_t k = n - at < RELEASED_AT_ONCE ? n - at : RELEASED_AT_ONCE;

        if (data_spool_put(&h->spools[h->to], text + at, k, e) < 0)
            return e->code;
        data_map_release(text + at, k);
    }
    return 0;
}

static int put_document(void *arg, const uint8_t *text, size_t n, struct err *e)
{
    static const uint8_t end[2] = {TOKEN_END, 0};
    struct token_halves *h = arg;
    bool is_wide = h->d->x_type == TENSOR_U16;

    if ((is_wide ? walk_words(h, text, n, put_word, e) : put_bytes(h, text, n, e)) < 0)
        return e->code;
    h->test_bytes += h->to == 1 ? n + 1 : 0;
    return data_spool_put(&h->spools[h->to], end, is_wide ? 2 : 1, e);
}

/* Writes each document to the stream of its half. */
static int put_documents(struct token_halves *h, struct err *e)
{
    struct token_stream *t = &h->d->stream;

    for (size_t i = 0; i < h->text.n; i++) {
        h->to = h->is_test[i];
        if (!h->is_test[i])
            t->docs[t->n_docs++] = (struct token_document){h->spools[0].n / tensor_type_size(h->d->x_type),
                                                           h->text.docs[i].topic};
        if (text_source_visit(&h->text, &h->text.docs[i], put_document, h, e) < 0)
            return e->code;
    }
    return 0;
}

/* Without topics nobody asks where documents begin. */
static void take_topics(struct token_halves *h)
{
    struct token_stream *t = &h->d->stream;

    if (h->text.n_topics > 0 && t->n_docs > 0) {
        t->n_topics = (int)h->text.n_topics;
        t->topic_names = h->text.topics;
        h->text.topics = NULL;
        return;
    }
    free(t->docs);
    t->docs = NULL;
    t->n_docs = 0;
}

static int map_halves(struct token_halves *h, struct err *e)
{
    struct token_stream *t = &h->d->stream;
    size_t size = tensor_type_size(h->d->x_type);

    t->n_train = h->spools[0].n / size;
    t->n_test = h->spools[1].n / size;
    t->bytes_per_token = (double)h->test_bytes / (double)t->n_test;
    if (data_spool_map(&t->maps[0], &h->spools[0], e) < 0 ||
        data_spool_map(&t->maps[1], &h->spools[1], e) < 0)
        return e->code;
    h->d->train_x = t->maps[0].at;
    h->d->test_x = t->maps[1].at;
    return h->use->is_uncut ? 0 : dataset_cut_stream(h->d, h->use->window, e);
}

static int write_halves(struct token_halves *h, struct err *e)
{
    if (choose_documents(h, e) < 0 || open_tokenizer(h, e) < 0 || data_spool_open(&h->spools[0], e) < 0 ||
        data_spool_open(&h->spools[1], e) < 0 || put_documents(h, e) < 0)
        return e->code;
    take_topics(h);
    return map_halves(h, e);
}

static int divide_text(struct token_halves *h, const char *path, struct err *e)
{
    const struct preprocessing *known = h->use->known;
    bool has_bytes = known ? known->n_merges == 0 : h->opt->vocab == TOKENIZER_BYTES;

    if (text_source_open(&h->text, path, h->opt->separator, &h->d->warnings, e) < 0)
        return e->code;
    h->d->stream.bytes_per_token = 1;
    h->d->stream.entropy = h->d->stream.floor = (double)NAN;
    return has_bytes && h->text.n == 1 && !h->use->is_uncut ? map_file(h, e) : write_halves(h, e);
}

static void clear_halves(struct token_halves *h)
{
    text_source_clear(&h->text);
    tokenizer_clear(&h->tokenizer);
    word_counts_clear(&h->words);
    data_spool_close(&h->spools[0]);
    data_spool_close(&h->spools[1]);
    free(h->is_test);
}

int tokens_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                struct err *e)
{
    struct tokens_options o = {.seed = 1, .vocab = TOKENIZER_BYTES};
    struct token_halves h = {.opt = &o, .use = use, .d = d, .spools = {{.fd = -1}, {.fd = -1}}};
    int rc;

    if (data_options_as(&o, fields, NULL, "tokens", arg, use, e) < 0)
        return e->code;
    *d = (struct dataset){.x_type = TENSOR_U8, .n_classes = TOKENIZER_BYTES, .vocab = TOKENIZER_BYTES};
    if (!token_file_is(path))
        rc = divide_text(&h, path, e);
    else if (arg)
        rc = err_set(e, ERR_CONFIG, "%s: %s has tokens already, and their options", arg, path);
    else
        rc = token_file_open(d, path, use, e);
    clear_halves(&h);
    if (rc < 0)
        dataset_clear(d);
    return rc;
}
