#include "runner/loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/compiler.h"
#include "shared/base/memory.h"
#include "shared/base/rng.h"
#include "shared/job/partition.h"

enum { AHEAD = 6, AHEAD_BYTES = 4096, LINE = 64, HUGE_PAGE = 2 << 20 };

static const double SMALL_SHARD = 8; /* at most 1/8 of the available memory */

/* Independent of all other random streams of the job's seed. */
static const uint64_t stream_augment = 0x746e656d677561; /* "augment" */

static int check_labels(const int32_t *labels, size_t n, int n_classes, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i] < 0 || labels[i] >= n_classes)
            return err_set(e, ERR_CONFIG, "sample %zu has label %d, but the model has classes 0 to %d", i,
                           labels[i], n_classes - 1);
    return 0;
}

static int check_tokens(const struct tensor_view *x, int vocab, struct err *e)
{
    const int32_t *tokens = x->data;
    size_t n = tensor_count(x);

    if ((x->type == TENSOR_I32) != (vocab > 0))
        return err_set(e, ERR_CONFIG, "the model reads %s", vocab > 0 ? "tokens" : "no tokens");
    for (size_t i = 0; vocab > 0 && i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return err_set(e, ERR_CONFIG, "token %d is outside the model's vocabulary, 0 to %d", tokens[i],
                           vocab - 1);
    return 0;
}

/* Checks the samples x (n, n_in). */
static int check_samples(struct loader_part *p, const struct model_spec *m, struct err *e)
{
    const struct tensor_view *x = tensor_file_find(&p->file, "x");

    if (!x || x->n_dims != 2 || (x->type != TENSOR_U8 && x->type != TENSOR_F32 && x->type != TENSOR_I32))
        return err_set(e, ERR_CONFIG, "no tensor x of samples");
    if (x->shape[1] != (size_t)m->n_in)
        return err_set(e, ERR_CONFIG, "%zu values per sample, the model takes %d", x->shape[1], m->n_in);
    p->x = *x;
    p->n = x->shape[0];
    return check_tokens(x, model_spec_vocab(m), e);
}

/* The pieces of a shard in the data set `place`. */
static int open_pieces(struct loader_part *p, const struct tensor_file *place, size_t time, int vocab,
                       struct err *e)
{
    const struct tensor_view *train = tensor_file_find(place, "train");
    const struct tensor_view *pieces = tensor_file_find(&p->file, "pieces");
    const char *text = tensor_file_meta(&p->file, "per_piece");
    uint64_t per_piece = text ? strtoull(text, NULL, 10) : 0;

    if (!train || !pieces)
        return err_set(e, ERR_CONFIG, "no tensor %s of a data set that is read in place",
                       train ? "pieces" : "train");
    return token_windows_open_place(&p->windows, train, pieces, per_piece, time, vocab, e);
}

/* place NULL: the windows are in the tensor. */
static int open_windows(struct loader_part *p, const struct tensor_view *tokens,
                        const struct tensor_file *place, const struct model_spec *m, struct err *e)
{
    int vocab = model_spec_vocab(m), n_classes = model_spec_classes(m);
    int most = vocab < n_classes ? vocab : n_classes;

    if (m->loss != LOSS_TOKEN_CROSS_ENTROPY)
        return err_set(e, ERR_CONFIG, "the samples are windows of tokens, and the model's loss is %s",
                       loss_kind_name(m->loss));
    if (model_spec_labels(m) != m->n_in)
        return err_set(e, ERR_CONFIG, "the model has outputs for %d of %d tokens", model_spec_labels(m),
                       m->n_in);
    if ((place ? open_pieces(p, place, (size_t)m->n_in, most, e)
               : token_windows_open(&p->windows, tokens, (size_t)m->n_in, most, e)) < 0)
        return e->code;
    p->n = p->windows.n;
    return 0;
}

/* Checks the labels y (n) or targets y (n, n_out) of the samples. */
static int check_truth(struct loader_part *p, const struct model_spec *m, struct err *e)
{
    const struct tensor_view *y = tensor_file_find(&p->file, "y");

    if (!y || !(y->type == TENSOR_I32 ? y->n_dims == 1 : y->type == TENSOR_F32 && y->n_dims == 2))
        return err_set(e, ERR_CONFIG, "no tensor y of labels or targets");
    if (p->x.shape[0] != y->shape[0])
        return err_set(e, ERR_CONFIG, "the numbers of samples and labels differ");
    if (y->type == TENSOR_F32 && (y->shape[1] != (size_t)m->n_out || m->loss == LOSS_SOFTMAX_CROSS_ENTROPY))
        return err_set(e, ERR_CONFIG, "%zu targets per sample do not fit the model's %d outputs and loss",
                       y->shape[1], m->n_out);
    p->labels = y->type == TENSOR_I32 ? y->data : NULL;
    p->targets = y->type == TENSOR_F32 ? y->data : NULL;
    if (!p->labels)
        return 0;
    return check_labels(p->labels, tensor_count(y), m->n_out == 1 ? 2 : model_spec_classes(m), e);
}

static int check_part(struct loader_part *p, const struct tensor_file *place, bool may_lack_truth,
                      const struct model_spec *m, struct err *e)
{
    const struct tensor_view *tokens = tensor_file_find(&p->file, "tokens");

    if (tokens || place)
        return open_windows(p, tokens, place, m, e);
    if (m->loss == LOSS_TOKEN_CROSS_ENTROPY) /* has a label for each step, and y one for each sample */
        return err_set(e, ERR_CONFIG, "no tensor tokens, which the model's loss %s needs",
                       loss_kind_name(m->loss));
    if (check_samples(p, m, e) < 0)
        return e->code;
    return may_lack_truth && !tensor_file_find(&p->file, "y") ? 0 : check_truth(p, m, e);
}

static int open_part(struct loader_part *p, const char *path, const struct tensor_file *place,
                     bool may_lack_truth, const struct model_spec *m, struct err *e)
{
    if (tensor_file_open(&p->file, path, e) < 0)
        return e->code;
    return check_part(p, place, may_lack_truth, m, e) < 0 ? err_at(e, "%s", path) : 0;
}

static int check_alike(const struct loader_part *train, const struct loader_part *test, struct err *e)
{
    if (train->windows.token_bytes != test->windows.token_bytes)
        return err_set(e, ERR_CONFIG, "training and test tokens are of different types");
    if (train->x.type != test->x.type)
        return err_set(e, ERR_CONFIG, "training and test samples are of different types");
    if (!train->labels != !test->labels)
        return err_set(e, ERR_CONFIG, "labels in one file, targets in the other");
    return 0;
}

/* 0: not known. */
static double bytes_per_token(const struct tensor_file *f)
{
    const char *text = tensor_file_meta(f, "bytes_per_token");
    double v = text ? strtod(text, NULL) : 0;

    return v > 0 && isfinite(v) ? v : 0;
}

/* Repeats the values of channels or columns so that there is one for each value of a sample, and one loop
 * scales a row. */
static int spread(float **out, const float *v, size_t n, size_t n_in, struct err *e)
{
    *out = malloc(n_in * sizeof **out);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for %zu values", n_in);
    for (size_t i = 0; i < n_in; i++)
        (*out)[i] = v[i % n];
    return 0;
}

/* Reads the scale from the file of `p`. */
static int open_scale(struct loader *l, const struct loader_part *p, struct err *e)
{
    const struct tensor_view *scale = tensor_file_find(&p->file, "scale");
    const struct tensor_view *shift = tensor_file_find(&p->file, "shift");
    size_t n = scale ? scale->shape[0] : 0;

    l->is_scaled = scale || p->x.type == TENSOR_U8;
    l->scale = 1.0f / 255.0f;
    if (!scale && !shift)
        return 0;
    if (!scale || !shift || scale->type != TENSOR_F32 || shift->type != TENSOR_F32 || scale->n_dims != 1 ||
        shift->n_dims != 1 || shift->shape[0] != n || n == 0 || l->n_in % n != 0 || p->x.type == TENSOR_I32)
        return err_set(e, ERR_CONFIG, "tensors scale and shift do not fit samples of %zu values", l->n_in);
    l->scale = ((const float *)scale->data)[0];
    l->shift = ((const float *)shift->data)[0];
    if (n == 1)
        return 0;
    return spread(&l->scales, scale->data, n, l->n_in, e) < 0 ||
                   spread(&l->shifts, shift->data, n, l->n_in, e) < 0
               ? e->code
               : 0;
}

static int open_image(struct loader *l, struct err *e)
{
    const struct tensor_view *t = tensor_file_find(&l->train.file, "augment");
    const int32_t *v = t ? t->data : NULL;

    if (!t)
        return 0;
    if (t->type != TENSOR_I32 || t->n_dims != 1 || t->shape[0] != 5 || v[0] < 1 || v[1] < 1 || v[2] < 1 ||
        v[3] < 0 || v[3] >= v[0] || v[3] >= v[1] || v[0] > LAYER_VALUES_MAX || v[1] > LAYER_VALUES_MAX ||
        v[2] > LAYER_VALUES_MAX || l->n_in % (size_t)v[0] != 0 ||
        l->n_in / (size_t)v[0] != (size_t)v[1] * (size_t)v[2] || l->train.x.type == TENSOR_I32)
        return err_set(e, ERR_CONFIG, "tensor augment does not fit samples of %zu values", l->n_in);
    l->image = (struct loader_image){.rows = (size_t)v[0],
                                     .cols = (size_t)v[1],
                                     .channels = (size_t)v[2],
                                     .crop = (size_t)v[3],
                                     .flip = v[4] != 0};
    l->whole = malloc(l->n_in * sizeof *l->whole);
    return l->whole ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu values", l->n_in);
}

/* A batch's samples lie anywhere in the shard, and with pages of 4 KiB nearly each one misses the TLB: with
 * huge pages a batch is gathered in two thirds of the time. Few file systems map files with huge pages, so
 * a small shard is copied; copied parts of the file no longer count as this process's memory. */
static void use_huge_pages(struct loader *l)
{
    const char *from = l->train.x.data, *map = l->train.file.map;
    size_t bytes = tensor_bytes(&l->train.x), page = (size_t)sysconf(_SC_PAGESIZE);
    char *to;

    if (bytes < HUGE_PAGE || (double)bytes > memory_available() / SMALL_SHARD)
        return;
    to = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (!to)
        return;
    madvise(to, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += HUGE_PAGE) {
        size_t n = bytes - at < HUGE_PAGE ? bytes - at : HUGE_PAGE;

        memcpy(to + at, from + at, n);
        madvise(l->train.file.map, (size_t)(from + at + n - map) / page * page, MADV_DONTNEED);
    }
    l->train.x.data = l->copy = to;
}

static int open_orders(struct loader *l, struct err *e)
{
    size_t at = 0;

    l->windows = malloc(l->n_cols * sizeof *l->windows);
    l->first_window = malloc(l->n_cols * sizeof *l->first_window);
    if (!l->windows || !l->first_window)
        return err_set(e, ERR_NOMEM, "no memory for %zu columns", l->n_cols);
    for (size_t c = 0; c < l->n_cols; c++) {
        l->first_window[c] = at;
        at += (size_t)l->lengths[c] * l->train.windows.per_piece;
    }
    return 0;
}

/* Checks the columns' lengths, and makes room for their order. */
static int open_columns(struct loader *l, const char *train, int node, struct err *e)
{
    const struct tensor_view *t = tensor_file_find(&l->train.file, "lengths");
    size_t per_piece = l->train.windows.n > 0 ? l->train.windows.per_piece : 1;
    size_t n = l->train.n, sum = 0, most = 0;

    if (!t || t->type != TENSOR_I32 || t->n_dims != 1 || t->shape[0] != l->n_cols)
        return err_set(e, ERR_CONFIG, "%s: not the shard of node %d: it has %zu columns, the node %zu", train,
                       node, t ? t->shape[0] : 0, l->n_cols);
    l->lengths = t->data;
    for (size_t c = 0; c < l->n_cols; c++) {
        size_t pieces = l->lengths[c] > 0 ? (size_t)l->lengths[c] : 0, length = pieces * per_piece;

        if (pieces > (n - sum) / per_piece) /* before the sum, which could wrap around */
            return err_set(e, ERR_CONFIG, "%s: %zu samples, its columns have more", train, n);
        if (length < l->n_rows || l->n_rows == 0)
            return err_set(e, ERR_CONFIG, "%s: column %zu has %zu samples, an epoch has %zu steps", train, c,
                           length, l->n_rows);
        most = length > most ? length : most;
        sum += length;
    }
    if (sum != n || (n > UINT32_MAX && l->train.windows.n == 0))
        return err_set(e, ERR_CONFIG, "%s: %zu samples, its columns have %zu", train, n, sum);
    if (l->train.windows.n > 0)
        return open_orders(l, e);
    l->order = malloc(l->n_cols * l->n_rows * sizeof *l->order);
    l->column = malloc(most * sizeof *l->column);
    return l->order && l->column ? 0 : err_set(e, ERR_NOMEM, "no memory for the order of %zu samples", n);
}

int loader_open_blocks(struct loader *l, const struct blocks *b, int node, struct err *e)
{
    l->blocks = malloc((size_t)b->n_blocks * sizeof *l->blocks);
    if (!l->blocks)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    l->n_blocks = blocks_of(b, node, l->blocks);
    return 0;
}

int loader_open_place(struct loader *l, const char *train, const char *test, const char *place,
                      const struct blocks *b, int node, size_t batch, size_t n_rows,
                      const struct model_spec *m, uint64_t seed, struct err *e)
{
    *l = (struct loader){.n_in = (size_t)m->n_in,
                         .n_targets = (size_t)m->n_out,
                         .batch = batch,
                         .n_rows = n_rows,
                         .seed = seed};
    if (loader_open_blocks(l, b, node, e) < 0)
        return e->code;
    l->n_cols = (size_t)l->n_blocks * batch;
    if ((place && tensor_file_open(&l->place, place, e) < 0) ||
        open_part(&l->train, train, place ? &l->place : NULL, false, m, e) < 0 ||
        open_part(&l->test, test, NULL, false, m, e) < 0)
        goto fail;
    if (check_alike(&l->train, &l->test, e) < 0 || open_scale(l, &l->train, e) < 0 || open_image(l, e) < 0) {
        err_at(e, "%s", train);
        goto fail;
    }
    l->n_test = l->test.n;
    l->n_labels = l->train.windows.n > 0 ? l->n_in : 1;
    l->bytes_per_token = bytes_per_token(&l->test.file);
    if (open_columns(l, train, node, e) < 0)
        goto fail;
    if (l->train.windows.n == 0)
        use_huge_pages(l);
    return 0;
fail:
    loader_close(l);
    return e->code;
}

struct step_text loader_text(const struct loader *l, const struct settings *set, const struct blocks *b)
{
    if (l->train.windows.n == 0)
        return (struct step_text){0};
    return (struct step_text){(uint64_t)blocks_in_row(b) * settings_block_samples(set) * l->n_labels,
                              l->bytes_per_token};
}

int loader_open(struct loader *l, const char *train, const char *test, const struct blocks *b, int node,
                size_t batch, size_t n_rows, const struct model_spec *m, uint64_t seed, struct err *e)
{
    return loader_open_place(l, train, test, NULL, b, node, batch, n_rows, m, seed, e);
}

int loader_open_test(struct loader *l, const char *test, const struct model_spec *m, struct err *e)
{
    *l = (struct loader){.n_in = (size_t)m->n_in, .n_targets = (size_t)m->n_out};
    if (open_part(&l->test, test, NULL, true, m, e) < 0)
        goto fail;
    if (open_scale(l, &l->test, e) < 0) {
        err_at(e, "%s", test);
        goto fail;
    }
    l->n_test = l->test.n;
    l->n_labels = l->test.windows.n > 0 ? l->n_in : 1;
    return 0;
fail:
    loader_close(l);
    return e->code;
}

void loader_close(struct loader *l)
{
    tensor_file_close(&l->train.file);
    tensor_file_close(&l->test.file);
    tensor_file_close(&l->place);
    free(l->copy);
    free(l->blocks);
    free(l->order);
    free(l->column);
    free(l->windows);
    free(l->first_window);
    free(l->scales);
    free(l->shifts);
    free(l->whole);
    *l = (struct loader){0};
}

/* Returns the job-wide number of this node's column c. */
static uint64_t global_column(const struct loader *l, size_t c)
{
    return (uint64_t)l->blocks[c / l->batch] * l->batch + c % l->batch;
}

/* The entries of one step are consecutive in `order`. */
void loader_epoch(struct loader *l, uint64_t epoch)
{
    uint32_t first = 0; /* sample of the column */

    l->epoch = epoch;
    for (size_t c = 0; l->windows && c < l->n_cols; c++)
        permutation_init(&l->windows[c], (uint64_t)l->lengths[c] * l->train.windows.per_piece, l->seed, epoch,
                         global_column(l, c));
    for (size_t c = 0; !l->windows && c < l->n_cols; c++) {
        partition_order(l->column, (size_t)l->lengths[c], l->seed, epoch, global_column(l, c));
        for (size_t row = 0; row < l->n_rows; row++)
            l->order[row * l->n_cols + c] = first + l->column[row];
        first += (uint32_t)l->lengths[c];
    }
}

bool loader_has_labels(const struct loader *l)
{
    return l->test.labels || l->test.windows.n > 0;
}

int loader_batch_init(struct loader_batch *b, const struct loader *l, size_t n, struct err *e)
{
    /* Aligned to cache lines: matrix products load them faster. */
    *b = (struct loader_batch){
        .x = aligned_alloc(LINE, (n * l->n_in * sizeof *b->x + LINE - 1) / LINE * LINE)};
    if (loader_has_labels(l))
        b->labels = malloc(n * l->n_labels * sizeof *b->labels);
    else
        b->targets = malloc(n * l->n_targets * sizeof *b->targets);
    if (b->x && (b->labels || b->targets))
        return 0;
    loader_batch_clear(b);
    return err_set(e, ERR_NOMEM, "no memory for a batch of %zu", n);
}

void loader_batch_clear(struct loader_batch *b)
{
    free(b->x);
    free(b->labels);
    free(b->targets);
    *b = (struct loader_batch){0};
}

struct truth loader_truth(const struct loader_batch *b)
{
    return (struct truth){.labels = b->labels, .targets = b->targets};
}

/* With one scale for all values, the common case, only the sample is read. */
FAST static void scale_bytes(float *restrict x, const uint8_t *restrict bytes, size_t n, float scale,
                             float shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)bytes[i] * scale + shift;
}

FAST static void scale_bytes_each(float *restrict x, const uint8_t *restrict bytes, size_t n,
                                  const float *restrict scale, const float *restrict shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)bytes[i] * scale[i] + shift[i];
}

FAST static void scale_floats(float *restrict x, const float *restrict from, size_t n, float scale,
                              float shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] = from[i] * scale + shift;
}

FAST static void scale_floats_each(float *restrict x, const float *restrict from, size_t n,
                                   const float *restrict scale, const float *restrict shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] = from[i] * scale[i] + shift[i];
}

FAST static void ints_to_floats(float *restrict x, const int32_t *restrict tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tokens[i];
}

/* Sample number `at` of the file as floats. */
static void take_values(const struct loader *l, const struct loader_part *p, size_t at, float *x)
{
    const uint8_t *bytes = (const uint8_t *)p->x.data + at * l->n_in;
    const float *floats = (const float *)p->x.data + at * l->n_in;

    if (p->x.type == TENSOR_I32)
        ints_to_floats(x, (const int32_t *)p->x.data + at * l->n_in, l->n_in);
    else if (!l->is_scaled)
        memcpy(x, floats, l->n_in * sizeof *x);
    else if (p->x.type == TENSOR_U8 && l->scales)
        scale_bytes_each(x, bytes, l->n_in, l->scales, l->shifts);
    else if (p->x.type == TENSOR_U8)
        scale_bytes(x, bytes, l->n_in, l->scale, l->shift);
    else if (l->scales)
        scale_floats_each(x, floats, l->n_in, l->scales, l->shifts);
    else
        scale_floats(x, floats, l->n_in, l->scale, l->shift);
}

static void take_truth(const struct loader *l, const struct loader_part *p, size_t at, struct loader_batch *b,
                       size_t j)
{
    if (p->labels)
        b->labels[j] = p->labels[at];
    else if (p->targets)
        memcpy(b->targets + j * l->n_targets, p->targets + at * l->n_targets,
               l->n_targets * sizeof *b->targets);
}

static void take_window(const struct loader *l, const struct loader_part *p, size_t at,
                        struct loader_batch *b, size_t j)
{
    token_windows_take(&p->windows, at, b->x + j * l->n_in, b->labels + j * l->n_labels);
}

/* Copies n pixels of one row of the whole image from `from` on, forwards or backwards. */
static void copy_pixels(float *to, const float *from, size_t n, size_t channels, bool backwards)
{
    if (!backwards) {
        memcpy(to, from, n * channels * sizeof *to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * channels, from - i * channels, channels * sizeof *to);
}

/* A pixel outside the image counts as 0 in the file, which is the shift after scaling. */
static void fill_outside(const struct loader *l, float *to, size_t n)
{
    for (size_t i = 0; i < n * l->image.channels; i++)
        to[i] = l->shifts ? l->shifts[i % l->image.channels] : l->is_scaled ? l->shift : 0;
}

/* Pixel (r, c) of x is pixel (r + down - crop, c + right - crop) of f->whole, if there is one. */
static void show_window(const struct loader *l, float *x, size_t down, size_t right, bool mirrored)
{
    const struct loader_image *im = &l->image;
    size_t width = im->cols * im->channels;
    size_t skip = right < im->crop ? im->crop - right : 0;  /* columns of x before the image begins */
    size_t first = right > im->crop ? right - im->crop : 0; /* first column of the image in x */
    size_t n = im->cols - skip - first;
    size_t behind = im->cols - skip - n;

    for (size_t r = 0; r < im->rows; r++, x += width) {
        size_t before = mirrored ? behind : skip;
        const float *row;

        if (r + down < im->crop || r + down - im->crop >= im->rows) {
            fill_outside(l, x, im->cols);
            continue;
        }
        row = l->whole + (r + down - im->crop) * width;
        fill_outside(l, x, before);
        copy_pixels(x + before * im->channels, row + (mirrored ? first + n - 1 : first) * im->channels, n,
                    im->channels, mirrored);
        fill_outside(l, x + (before + n) * im->channels, im->cols - before - n);
    }
}

/* The same on all nodes that hold the block: depends on the job's seed, the epoch, the column and the
 * step. */
static void take_augmented(const struct loader *l, size_t at, size_t col, size_t row, float *x)
{
    uint32_t n_offsets = 2 * (uint32_t)l->image.crop + 1;
    uint32_t down, right;
    struct rng r;

    rng_init(&r, l->seed ^ stream_augment, l->epoch, global_column(l, col) * l->n_rows + row);
    take_values(l, &l->train, at, l->whole);
    down = rng_below(&r, n_offsets);
    right = rng_below(&r, n_offsets);
    show_window(l, x, down, right, l->image.flip && rng_below(&r, 2));
}

/* Returns the number of the file's sample that column col uses in step row. */
static size_t sample_of(const struct loader *l, size_t row, size_t col)
{
    return l->windows ? l->first_window[col] + permutation_at(&l->windows[col], row)
                      : l->order[row * l->n_cols + col];
}

/* A batch's samples lie anywhere in the file: prefetching halves the time. The second-level cache has more
 * outstanding loads than the first. */
static void fetch_ahead(const struct loader *l, size_t at)
{
    size_t size = tensor_type_size(l->train.x.type) * l->n_in;
    const char *p = (const char *)l->train.x.data + at * size;

    for (size_t k = 0; k < size && k < AHEAD_BYTES; k += LINE)
        __builtin_prefetch(p + k, 0, 2);
}

void loader_block(const struct loader *l, size_t row, int i, struct loader_batch *b)
{
    for (size_t j = 0; j < l->batch; j++) {
        size_t col = (size_t)i * l->batch + j;
        size_t at = sample_of(l, row, col);

        if (l->windows) {
            take_window(l, &l->train, at, b, j);
            continue;
        }
        if (j + AHEAD < l->batch)
            fetch_ahead(l, sample_of(l, row, col + AHEAD));
        if (l->whole)
            take_augmented(l, at, col, row, b->x + j * l->n_in);
        else
            take_values(l, &l->train, at, b->x + j * l->n_in);
        take_truth(l, &l->train, at, b, j);
    }
}

void loader_test(const struct loader *l, size_t start, size_t n, struct loader_batch *b)
{
    for (size_t j = 0; j < n; j++) {
        if (l->test.windows.n > 0) {
            take_window(l, &l->test, start + j, b, j);
            continue;
        }
        take_values(l, &l->test, start + j, b->x + j * l->n_in);
        take_truth(l, &l->test, start + j, b, j);
    }
}
