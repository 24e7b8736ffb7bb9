#include "submit/data/token_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/utf8.h"
#include "submit/data/preprocessing.h"

static const char version_key[] = "tokens", version[] = "1";

bool token_file_is(const char *path)
{
    uint8_t head[9] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_it = fd >= 0 && pread(fd, head, sizeof head, 0) == sizeof head && head[7] == 0 && head[8] == '{';

    if (fd >= 0)
        close(fd);
    return is_it;
}

static bool is_row(const struct tensor_view *t, enum tensor_type type)
{
    return t && t->type == type && t->n_dims == 1 && t->shape[0] > 0;
}

static int parse_merges(struct token_stream *t, const struct tensor_file *f, struct err *e)
{
    const struct tensor_view *m = tensor_file_find(f, "merges");
    struct tokenizer checked;

    if (!m)
        return 0;
    if (m->type != TENSOR_U16 || m->n_dims != 2 || m->shape[1] != 2)
        return err_set(e, ERR_CONFIG, "tensor merges is none of pairs of tokens");
    if (tokenizer_init(&checked, m->data, m->shape[0], e) < 0)
        return e->code;
    t->merges = checked.merges;
    t->n_merges = m->shape[0];
    checked.merges = NULL;
    tokenizer_clear(&checked);
    return 0;
}

struct token_check {
    int vocab;
    bool is_wide;
};

static int check_block(void *arg, const uint8_t *bytes, size_t at, size_t n, struct err *e)
{
    const struct token_check *c = arg;
    const uint16_t *wide = (const uint16_t *)(const void *)bytes;
    unsigned most = 0;

    (void)at;
    for (size_t i = 0; c->is_wide && i < n / 2; i++)
        most = wide[i] > most ? wide[i] : most;
    return (int)most < c->vocab
               ? 0
               : err_set(e, ERR_CONFIG, "token %u is outside the vocabulary, 0 to %d", most, c->vocab - 1);
}

static int parse_half(const struct tensor_view **out, const struct dataset *d, const struct tensor_file *f,
                      const char *name, struct err *e)
{
    const struct tensor_view *t = tensor_file_find(f, name);
    struct token_check c = {.vocab = d->vocab, .is_wide = d->x_type == TENSOR_U16};
    struct data_map m;

    if (!is_row(t, d->x_type))
        return err_set(e, ERR_CONFIG, "no tensor %s of tokens", name);
    m = (struct data_map){.at = (void *)(uintptr_t)t->data, .len = tensor_bytes(t)};
    *out = t;
    return data_map_walk(&m, check_block, &c, e) < 0 ? err_at(e, "%s", name) : 0;
}

/* The names of topics, each with its zero byte; *n of them. */
static int parse_names(char **out, int *n, const char *lines, struct err *e)
{
    *out = strdup(lines);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for the names of topics");
    *n = 1;
    for (char *at = *out; *at; at++)
        if (*at == '\n') {
            *at = '\0';
            (*n)++;
        }
    return 0;
}

static int parse_topics(struct token_stream *t, const struct tensor_file *f, struct err *e)
{
    const struct tensor_view *starts = tensor_file_find(f, "documents");
    const struct tensor_view *topics = tensor_file_find(f, "document_topics");
    const char *names = tensor_file_meta(f, "topics");
    const int64_t *start;
    const int32_t *topic;

    if (!starts && !topics && !names)
        return 0;
    if (!names || !is_row(starts, TENSOR_I64) || !is_row(topics, TENSOR_I32) ||
        starts->shape[0] != topics->shape[0])
        return err_set(e, ERR_CONFIG,
                       "tensors documents and document_topics, and the names of topics, do not "
                       "fit each other");
    if (parse_names(&t->topic_names, &t->n_topics, names, e) < 0)
        return e->code;
    start = starts->data;
    topic = topics->data;
    t->n_docs = starts->shape[0];
    t->docs = malloc(t->n_docs * sizeof *t->docs);
    if (!t->docs)
        return err_set(e, ERR_NOMEM, "no memory for %zu documents", t->n_docs);
    for (size_t i = 0; i < t->n_docs; i++) {
        if ((i == 0 ? start[i] != 0 : start[i] <= start[i - 1]) || (uint64_t)start[i] >= t->n_train ||
            topic[i] < 0 || topic[i] >= t->n_topics)
            return err_set(e, ERR_CONFIG, "document %zu begins at token %lld and has topic %d", i,
                           (long long)start[i], topic[i]);
        t->docs[i] = (struct token_document){(size_t)start[i], topic[i]};
    }
    return 0;
}

static int parse_file(struct dataset *d, const struct tensor_file *f, struct err *e)
{
    const char *v = tensor_file_meta(f, version_key), *bytes = tensor_file_meta(f, "test_bytes");
    const struct tensor_view *train, *test;
    struct token_stream *t = &d->stream;

    *d = (struct dataset){.x_type = TENSOR_U8};
    if (!v || strcmp(v, version) != 0)
        return err_set(e, ERR_CONFIG,
                       v ? "version %s of tokenized texts, and this version of psgd reads %s"
                         : "not a tokenized text, which job_submit data tokenize writes",
                       v, version);
    if (parse_merges(t, f, e) < 0)
        return e->code;
    d->vocab = d->n_classes = TOKENIZER_BYTES + (int)t->n_merges;
    d->x_type = t->n_merges > 0 ? TENSOR_U16 : TENSOR_U8;
    if (parse_half(&train, d, f, "train", e) < 0 || parse_half(&test, d, f, "test", e) < 0)
        return e->code;
    d->train_x = (void *)(uintptr_t)train->data;
    d->test_x = (void *)(uintptr_t)test->data;
    t->n_train = train->shape[0];
    t->n_test = test->shape[0];
    t->entropy = t->floor = (double)NAN;
    t->bytes_per_token = bytes ? strtod(bytes, NULL) / (double)t->n_test : 0;
    if (!(t->bytes_per_token > 0 && t->bytes_per_token <= TOKENIZER_WORD))
        return err_set(e, ERR_CONFIG, "test_bytes: \"%.40s\" is not the length of a text of %zu tokens",
                       bytes ? bytes : "", t->n_test);
    return parse_topics(t, f, e);
}

int token_file_open(struct dataset *d, const char *path, const struct data_use *use, struct err *e)
{
    struct tensor_file f;
    int rc;

    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = parse_file(d, &f, e) < 0 ? err_at(e, "%s", path) : 0;
    d->stream.maps[0] = (struct data_map){f.map, f.map_len}; /* moved */
    f.map = NULL;
    tensor_file_close(&f);
    if (rc == 0 && use->known)
        rc = preprocessing_check_merges(use->known, d->stream.merges, d->stream.n_merges, e);
    return rc < 0 || use->is_uncut ? rc : dataset_cut_stream(d, use->window, e);
}

/* The names, a line each; the caller frees. */
static char *lines_of(const struct token_stream *t)
{
    size_t len = 0;
    char *lines;

    for (int k = 0; k < t->n_topics; k++)
        len += strlen(t->topic_names + len) + 1;
    lines = malloc(len);
    for (size_t at = 0; lines && at < len; at += strlen(lines + at) + 1) {
        strcpy(lines + at, t->topic_names + at);
        utf8_clean(lines + at, strlen(lines + at), false);
    }
    for (size_t i = 0; lines && i + 1 < len; i++)
        lines[i] = lines[i] ? lines[i] : '\n';
    return lines;
}

struct token_file_parts {
    int64_t *starts;
    int32_t *topics;
    char *names;
};

static int make_parts(struct token_file_parts *p, const struct token_stream *t, struct err *e)
{
    p->starts = malloc(t->n_docs * sizeof *p->starts);
    p->topics = malloc(t->n_docs * sizeof *p->topics);
    p->names = lines_of(t);
    if (!p->starts || !p->topics || !p->names)
        return err_set(e, ERR_NOMEM, "no memory for %zu documents", t->n_docs);
    for (size_t i = 0; i < t->n_docs; i++) {
        p->starts[i] = (int64_t)t->docs[i].start;
        p->topics[i] = t->docs[i].topic;
    }
    return 0;
}

int token_file_write(const char *path, const struct dataset *d, const char *dataset, struct err *e)
{
    const struct token_stream *t = &d->stream;
    struct token_file_parts p = {0};
    struct tensor_view tensors[5] = {
        {.name = "train", .type = d->x_type, .n_dims = 1, .shape = {t->n_train}, .data = d->train_x},
        {.name = "test", .type = d->x_type, .n_dims = 1, .shape = {t->n_test}, .data = d->test_x}};
    char bytes[32];
    struct tensor_meta meta[5] = {{version_key, version}, {"dataset", dataset}, {"test_bytes", bytes}, {0}};
    size_t n = 2;
    int rc = 0;

    snprintf(bytes, sizeof bytes, "%.0f", t->bytes_per_token * (double)t->n_test);
    if (t->n_merges > 0)
        tensors[n++] = (struct tensor_view){
            .name = "merges", .type = TENSOR_U16, .n_dims = 2, .shape = {t->n_merges, 2}, .data = t->merges};
    if (t->n_topics > 0 && (rc = make_parts(&p, t, e)) == 0) {
        tensors[n++] = (struct tensor_view){
            .name = "documents", .type = TENSOR_I64, .n_dims = 1, .shape = {t->n_docs}, .data = p.starts};
        tensors[n++] = (struct tensor_view){.name = "document_topics",
                                            .type = TENSOR_I32,
                                            .n_dims = 1,
                                            .shape = {t->n_docs},
                                            .data = p.topics};
        meta[3] = (struct tensor_meta){"topics", p.names};
    }
    if (rc == 0)
        rc = tensor_file_write(path, tensors, n, meta, e);
    free(p.starts);
    free(p.topics);
    free(p.names);
    return rc;
}
