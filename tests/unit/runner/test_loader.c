#include "runner/loader.h"

#include "shared/base/rng.h"
#include "shared/job/partition.h"
#include "tests/unit/unit.h"

enum { WIDTH = 3, BATCH = 4, NODES = 3, SAMPLES = 50, SEED = 9 };

/* A data set in which sample s is the bytes s, s, s with label s % 10. */
static void write_shard(const char *path, const struct partition *p, const struct blocks *b, int node)
{
    int own[16];
    int n_own = blocks_of(b, node, own);
    size_t n_cols = (size_t)n_own * BATCH;
    uint8_t images[SAMPLES * WIDTH];
    int32_t labels[SAMPLES], lengths[SAMPLES];
    size_t n = 0;
    struct err e = {0};

    for (size_t c = 0; c < n_cols; c++) {
        size_t col = (size_t)own[c / BATCH] * BATCH + c % BATCH;

        lengths[c] = (int32_t)(p->start[col + 1] - p->start[col]);
        for (size_t i = p->start[col]; i < p->start[col + 1]; i++, n++) {
            memset(images + n * WIDTH, (int)p->sample[i], WIDTH);
            labels[n] = (int32_t)(p->sample[i] % 10);
        }
    }
    {
        struct tensor_view t[3] = {
            {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {n, WIDTH}, .data = images},
            {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {n}, .data = labels},
            {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {n_cols}, .data = lengths},
        };

        assert_ok(tensor_file_write(path, t, 3, NULL, &e));
    }
}

static void write_test_set(const char *path, size_t n, int label)
{
    uint8_t bytes[WIDTH * SAMPLES] = {0};
    int32_t labels[SAMPLES];
    struct tensor_view t[2] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {n, WIDTH}, .data = bytes},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {n}, .data = labels},
    };
    struct err e = {0};

    for (int i = 0; i < SAMPLES; i++)
        labels[i] = label;
    assert_ok(tensor_file_write(path, t, 2, NULL, &e));
}

/* A model with all that a loader needs. */
static struct model_spec *model(int n_in, int n_out)
{
    struct model_spec *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->n_in = n_in;
    m->n_out = n_out;
    return m;
}

static const char *folder;
static char train[128], test[128];

static int make(void **state)
{
    (void)state;
    folder = unit_folder();
    snprintf(train, sizeof train, "%s/train", folder);
    snprintf(test, sizeof test, "%s/test", folder);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unit_remove(folder);
    return 0;
}

static void partition_of(struct partition *p, struct blocks *b, int redundancy)
{
    int32_t labels[SAMPLES];
    struct err e = {0};

    for (int s = 0; s < SAMPLES; s++)
        labels[s] = s % 10;
    assert_ok(blocks_init(b, BLOCKS_IID, NODES, redundancy, &e));
    assert_ok(partition_init(p, &(struct partition_set){.n = SAMPLES, .labels = labels, .n_classes = 10},
                             &(struct partition_rule){.kind = PARTITION_IID}, (size_t)b->n_blocks, BATCH,
                             SEED, &e));
}

TEST(a_shard_of_a_given_size_is_extracted_from_its_file)
{
    enum { WIDE = 1 << 20, N = 5 };
    uint8_t *bytes = malloc((size_t)N * WIDE);
    int32_t labels[N] = {0, 1, 2, 3, 4}, length = N;
    struct tensor_view t[3] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {N, WIDE}, .data = bytes},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {N}, .data = labels},
        {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {1}, .data = &length},
    };
    struct model_spec *m = model(WIDE, 10);
    struct loader_batch batch;
    struct blocks b;
    struct loader l;
    struct rng r;
    struct err e = {0};

    assert_non_null(bytes);
    rng_init(&r, 1, 2, 3);
    for (size_t i = 0; i < (size_t)N * WIDE; i++)
        bytes[i] = (uint8_t)rng_below(&r, 256);
    assert_ok(tensor_file_write(train, t, 3, NULL, &e));
    t[0] = (struct tensor_view){
        .name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {1, WIDE}, .data = bytes};
    t[1] = (struct tensor_view){.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {1}, .data = labels};
    assert_ok(tensor_file_write(test, t, 2, NULL, &e));
    assert_ok(blocks_init(&b, BLOCKS_IID, 1, 1, &e));
    assert_ok(loader_open(&l, train, test, &b, 0, 1, N, m, SEED, &e));
    assert_ok(loader_batch_init(&batch, &l, 1, &e));
    assert_non_null(l.copy);
    assert_ptr_equal(l.train.x.data, l.copy);
    loader_epoch(&l, 0);
    for (size_t row = 0; row < N; row++) {
        loader_block(&l, row, 0, &batch);
        for (size_t i = 0; i < WIDE; i++)
            assert_true(batch.x[i] == (float)bytes[(size_t)batch.labels[0] * WIDE + i] * (1.0f / 255.0f));
    }
    loader_batch_clear(&batch);
    loader_close(&l);
    blocks_clear(&b);
    free(bytes);
    free(m);
}

TEST(an_epoch_visits_a_sample_at_most_once_and_leaves_out_others_than_the_epoch_before)
{
    struct partition p;
    struct blocks b;
    struct loader l;
    struct err e = {0};
    struct loader_batch batch;
    struct model_spec *m = model(WIDTH, 10);
    int in_all[256] = {0};

    partition_of(&p, &b, 2);
    write_shard(train, &p, &b, 1);
    write_test_set(test, 5, 3);
    assert_ok(loader_open(&l, train, test, &b, 1, BATCH, p.n_rows, m, SEED, &e));
    assert_ok(loader_batch_init(&batch, &l, BATCH, &e));
    assert_int_equal(l.n_rows, p.n_rows);
    assert_int_equal(l.n_blocks, 2);
    for (uint64_t epoch = 0; epoch < 30; epoch++) {
        int seen[256] = {0};

        loader_epoch(&l, epoch);
        for (size_t row = 0; row < l.n_rows; row++)
            for (int k = 0; k < l.n_blocks; k++) {
                loader_block(&l, row, k, &batch);
                for (int j = 0; j < BATCH; j++) {
                    int s = (int)(batch.x[j * WIDTH] * 255.0f + 0.5f);

                    assert_int_equal(batch.labels[j], s % 10);
                    seen[s]++;
                }
            }
        for (size_t c = 0; c < p.n_cols; c++) {
            size_t n = 0;

            for (size_t i = p.start[c]; i < p.start[c + 1]; i++) {
                assert_in_range(seen[p.sample[i]], 0, 1);
                n += (size_t)seen[p.sample[i]];
                in_all[p.sample[i]] += seen[p.sample[i]];
            }
            assert_int_equal(n, blocks_holds(&b, (int)(c / BATCH), 1) ? p.n_rows : 0);
        }
    }
    assert_int_equal(p.start[p.n_cols], SAMPLES);
    for (size_t c = 0; c < p.n_cols; c++)
        for (size_t i = p.start[c]; i < p.start[c + 1]; i++)
            assert_int_equal(in_all[p.sample[i]] > 0, blocks_holds(&b, (int)(c / BATCH), 1));
    loader_batch_clear(&batch);
    loader_close(&l);
    free(m);
    partition_clear(&p);
    blocks_clear(&b);
}

TEST(a_shard_of_another_node_is_refused)
{
    struct partition p;
    struct blocks b;
    struct loader l;
    struct model_spec *m = model(WIDTH, 10), *wide = model(WIDTH + 1, 10), *few = model(WIDTH, 9);
    struct err e = {0};

    partition_of(&p, &b, 1);
    write_shard(train, &p, &b, 1);
    write_test_set(test, 5, 3);
    assert_int_equal(loader_open(&l, train, test, &b, 1, BATCH + 1, p.n_rows, m, SEED, &e), ERR_CONFIG);
    assert_error_has("shard of node 1");
    assert_int_equal(loader_open(&l, train, test, &b, 1, BATCH, p.n_rows, wide, SEED, &e), ERR_CONFIG);
    assert_error_has("the model takes 4");
    assert_int_equal(loader_open(&l, train, test, &b, 1, BATCH, p.n_rows, few, SEED, &e), ERR_CONFIG);
    assert_error_has("the model has classes 0 to 8");
    assert_int_equal(loader_open(&l, train, test, &b, 1, BATCH, p.n_rows + 1, m, SEED, &e), ERR_CONFIG);
    assert_error_has("an epoch has 5 steps");
    free(m);
    free(wide);
    free(few);
    partition_clear(&p);
    blocks_clear(&b);
}

/* A shard of one block of `n` samples, all in one row: sample s begins with byte or value s. */
static void write_one(const char *path, const struct tensor_view *x, const struct tensor_view *more,
                      size_t n_more)
{
    static const int32_t labels[BATCH] = {0}, lengths[BATCH] = {1, 1, 1, 1};
    struct tensor_view t[6] = {
        *x,
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {BATCH}, .data = labels},
        {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {BATCH}, .data = lengths},
    };
    struct err e = {0};

    for (size_t i = 0; i < n_more; i++)
        t[3 + i] = more[i];
    assert_ok(tensor_file_write(path, t, 3 + n_more, NULL, &e));
}

/* A loader of BATCH samples of `n_in` values, or tokens below 10, train and test the same; `more` is added
 * to the shard. */
static int open_one(struct loader *l, enum tensor_type type, const void *values, size_t n_in,
                    const struct tensor_view *more, size_t n_more, struct err *e)
{
    struct model_spec *m = model((int)n_in, 10);
    struct tensor_view x = {.name = "x", .type = type, .n_dims = 2, .shape = {BATCH, n_in}, .data = values};
    struct blocks b;
    int rc;

    m->n_layers = 1;
    if (type == TENSOR_I32)
        m->layers[0] = (struct layer_spec){.kind = LAYER_EMBEDDING, .embedding.vocab = 10};
    write_one(train, &x, more, n_more);
    write_one(test, &x, NULL, 0);
    assert_int_equal(blocks_init(&b, BLOCKS_IID, 1, 1, e), 0);
    rc = loader_open(l, train, test, &b, 0, BATCH, 1, m, SEED, e);
    blocks_clear(&b);
    free(m);
    return rc;
}

static struct tensor_view floats(const char *name, const float *v, size_t n)
{
    struct tensor_view t = {.n_dims = 1, .shape = {n}, .data = v};

    snprintf(t.name, sizeof t.name, "%s", name);
    return t;
}

TEST(labels_in_one_split_and_targets_in_the_other_are_refused)
{
    uint8_t bytes[WIDTH * 2] = {0};
    float targets[2 * 10] = {0};
    struct tensor_view t[2] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {2, WIDTH}, .data = bytes},
        {.name = "y", .type = TENSOR_F32, .n_dims = 2, .shape = {2, 10}, .data = targets},
    };
    struct model_spec *m = model(WIDTH, 10);
    struct partition p;
    struct blocks b;
    struct loader l;
    struct err e = {0};

    m->loss = LOSS_MSE;
    partition_of(&p, &b, 1);
    write_shard(train, &p, &b, 1);
    assert_ok(tensor_file_write(test, t, 2, NULL, &e));
    assert_int_equal(loader_open(&l, train, test, &b, 1, BATCH, p.n_rows, m, SEED, &e), ERR_CONFIG);
    assert_error_has("labels in one file, targets in the other");
    free(m);
    partition_clear(&p);
    blocks_clear(&b);
}

TEST(samples_are_scaled_globally_by_channel_or_not_at_all)
{
    static const uint8_t bytes[BATCH * 6] = {0, 51, 255, 1, 2, 3};
    static const float values[BATCH * 6] = {0, 51, 255, 1, 2, 3};
    static const float scale[] = {.5f, 2, 4}, shift[] = {1, 2, 3};
    const struct tensor_view one[] = {floats("scale", scale, 1), floats("shift", shift, 1)};
    const struct tensor_view three[] = {floats("scale", scale, 3), floats("shift", shift, 3)};
    static const struct {
        enum tensor_type type;
        size_t n_scales;
        float x[6];
    } cases[] = {
        {TENSOR_U8, 0, {0, 51 * (1 / 255.f), 255 * (1 / 255.f), 1 / 255.f, 2 * (1 / 255.f), 3 * (1 / 255.f)}},
        {TENSOR_U8, 1, {1, 26.5f, 128.5f, 1.5f, 2, 2.5f}},
        {TENSOR_U8, 3, {1, 104, 1023, 1.5f, 6, 15}},
        {TENSOR_F32, 0, {0, 51, 255, 1, 2, 3}},
        {TENSOR_F32, 1, {1, 26.5f, 128.5f, 1.5f, 2, 2.5f}},
        {TENSOR_F32, 3, {1, 104, 1023, 1.5f, 6, 15}},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct loader_batch batch;
        struct err e = {0};
        struct loader l;

        assert_ok(open_one(&l, cases[i].type, cases[i].type == TENSOR_U8 ? (const void *)bytes : values, 6,
                           cases[i].n_scales == 3 ? three : one, cases[i].n_scales ? 2 : 0, &e));
        assert_ok(loader_batch_init(&batch, &l, BATCH, &e));
        loader_epoch(&l, 0);
        loader_block(&l, 0, 0, &batch);
        assert_memory_equal(batch.x, cases[i].x, sizeof cases[i].x);
        memset(batch.x, 0, sizeof cases[i].x);
        loader_test(&l, 0, 1, &batch); /* the test split is scaled with the training split's statistics */
        assert_memory_equal(batch.x, cases[i].x, sizeof cases[i].x);
        loader_batch_clear(&batch);
        loader_close(&l);
    }
}

/* Whether x (4, 5, 2) is the picture moved by (down, right) and mirrored or not, with `outside` around it. */
static bool is_window(const float *x, const float *picture, int down, int right, bool mirrored,
                      const float *outside)
{
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 5; c++)
            for (int k = 0; k < 2; k++) {
                int from_r = r + down;
                int from_c = (mirrored ? 4 - c : c) + right;
                bool inside = from_r >= 0 && from_r < 4 && from_c >= 0 && from_c < 5;
                float want = inside ? picture[(from_r * 5 + from_c) * 2 + k] : outside[k];

                if (x[(r * 5 + c) * 2 + k] != want)
                    return false;
            }
    return true;
}

TEST(images_are_cropped_and_flipped_by_seed_epoch_and_column)
{
    static const float scale[] = {1, 2}, shift[] = {-7, -9};
    static const int32_t augment[] = {4, 5, 2, 2, 1};
    const struct tensor_view more[] = {
        floats("scale", scale, 2),
        floats("shift", shift, 2),
        {.name = "augment", .type = TENSOR_I32, .n_dims = 1, .shape = {5}, .data = augment}};
    uint8_t bytes[BATCH * 40];
    float picture[40];
    int seen[5][5][2] = {0}, n_seen = 0;
    struct loader_batch batch, again;
    struct err e = {0};
    struct loader l;

    for (int i = 0; i < BATCH * 40; i++)
        bytes[i] = (uint8_t)(i % 40 + 1);
    for (int i = 0; i < 40; i++)
        picture[i] = (float)(i + 1) * scale[i % 2] + shift[i % 2];
    assert_ok(open_one(&l, TENSOR_U8, bytes, 40, more, 3, &e));
    assert_ok(loader_batch_init(&batch, &l, BATCH, &e));
    assert_ok(loader_batch_init(&again, &l, BATCH, &e));
    for (uint64_t epoch = 0; epoch < 200; epoch++) {
        loader_epoch(&l, epoch);
        loader_block(&l, 0, 0, &batch);
        loader_block(&l, 0, 0, &again);
        assert_memory_equal(batch.x, again.x, BATCH * 40 * sizeof(float));
        for (int j = 0; j < BATCH; j++) {
            int found = 0;

            for (int down = -2; down <= 2; down++)
                for (int right = -2; right <= 2; right++)
                    for (int m = 0; m < 2; m++)
                        if (is_window(batch.x + j * 40, picture, down, right, m, shift)) {
                            seen[down + 2][right + 2][m]++;
                            found++;
                        }
            assert_int_equal(found, 1);
        }
    }
    for (int i = 0; i < 50; i++)
        n_seen += ((int *)seen)[i] > 0;
    assert_int_equal(n_seen, 50);  /* 800 images in 50 ways: 16 each */
    loader_test(&l, 0, 1, &batch); /* the test split is not transformed */
    assert_true(is_window(batch.x, picture, 0, 0, false, shift));
    loader_batch_clear(&batch);
    loader_batch_clear(&again);
    loader_close(&l);
}

TEST(a_token_outside_the_vocabulary_of_the_model_is_refused)
{
    int32_t tokens[BATCH * 3] = {0, 9, 4};
    struct err e = {0};
    struct loader l;

    assert_ok(open_one(&l, TENSOR_I32, tokens, 3, NULL, 0, &e));
    loader_close(&l);
    tokens[7] = 10;
    assert_int_equal(open_one(&l, TENSOR_I32, tokens, 3, NULL, 0, &e), ERR_CONFIG);
    assert_error_has("token 10 is outside the model's vocabulary, 0 to 9");
    tokens[7] = -1;
    assert_int_equal(open_one(&l, TENSOR_I32, tokens, 3, NULL, 0, &e), ERR_CONFIG);
    assert_error_has("token -1 is outside the model's vocabulary, 0 to 9");
}

/* Predicts one of 10 tokens at each of `time` steps. */
static struct model_spec *token_model(int time)
{
    struct model_spec *m = model(time, time * 10);

    m->loss = LOSS_TOKEN_CROSS_ENTROPY;
    m->n_layers = 1;
    m->layers[0] = (struct layer_spec){
        .kind = LAYER_EMBEDDING, .embedding.vocab = 10, .out = {.n_dims = 2, .dim = {time, 10}}};
    return m;
}

/* A model with a label for each step would read labels behind the end of y. */
TEST(samples_with_one_label_each_are_refused_for_a_loss_of_each_token)
{
    static const int32_t tokens[BATCH * 3] = {0}, labels[BATCH] = {0};
    static const float targets[BATCH * 30] = {0};
    struct tensor_view t[2] = {
        {.name = "x", .type = TENSOR_I32, .n_dims = 2, .shape = {BATCH, 3}, .data = tokens},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {BATCH}, .data = labels},
    };
    struct model_spec *m = token_model(3);
    struct err e = {0};
    struct loader l;

    assert_ok(tensor_file_write(test, t, 2, NULL, &e));
    assert_int_equal(loader_open_test(&l, test, m, &e), ERR_CONFIG);
    assert_error_has("no tensor tokens, which the model's loss token_cross_entropy needs");
    t[1] = (struct tensor_view){
        .name = "y", .type = TENSOR_F32, .n_dims = 2, .shape = {BATCH, 30}, .data = targets};
    assert_ok(tensor_file_write(test, t, 2, NULL, &e));
    assert_int_equal(loader_open_test(&l, test, m, &e), ERR_CONFIG);
    assert_error_has("no tensor tokens, which the model's loss token_cross_entropy needs");
    free(m);
}

/* With 2^20 windows in a piece, these columns have 2^64 windows more than the shard. */
TEST(columns_whose_sum_wraps_around_are_refused)
{
    enum { WINDOWS = 1 << 20, COLS = (1 << 13) + 1 };
    static const uint8_t tokens[WINDOWS + 1] = {0};
    static int32_t lengths[COLS];
    const struct tensor_view t[2] = {
        {.name = "tokens", .type = TENSOR_U8, .n_dims = 2, .shape = {1, WINDOWS + 1}, .data = tokens},
        {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {COLS}, .data = lengths},
    };
    struct model_spec *m = token_model(1);
    struct err e = {0};
    struct loader l;
    struct blocks b;

    for (size_t c = 0; c + 1 < COLS; c++)
        lengths[c] = INT32_MAX;
    lengths[COLS - 1] = COLS;
    assert_ok(tensor_file_write(train, t, 2, NULL, &e));
    assert_ok(tensor_file_write(test, t, 1, NULL, &e));
    assert_ok(blocks_init(&b, BLOCKS_IID, 1, 1, &e));
    assert_int_equal(loader_open(&l, train, test, &b, 0, COLS, 1, m, SEED, &e), ERR_CONFIG);
    assert_error_has("1048576 samples, its columns have more");
    blocks_clear(&b);
    free(m);
}

TEST(transforms_must_suit_the_samples)
{
    static const uint8_t bytes[BATCH * 6] = {0};
    static const float v[4] = {1, 1, 1, 1};
    static const int32_t wrong[][5] = {{2, 3, 2, 0, 0},   {2, 3, 1, 2, 0}, {0, 3, 1, 0, 0}, {2, 3, 1, -1, 0},
                                       {-2, -3, 1, 0, 0}, {2, 0, 1, 0, 0}, {2, 3, 0, 0, 0}};
    const struct tensor_view alone = floats("scale", v, 1);
    const struct tensor_view four[] = {floats("scale", v, 4), floats("shift", v, 4)};
    const struct tensor_view uneven[] = {floats("scale", v, 3), floats("shift", v, 2)};
    struct err e = {0};
    struct loader l;

    assert_int_equal(open_one(&l, TENSOR_U8, bytes, 6, &alone, 1, &e), ERR_CONFIG);
    assert_error_has("tensors scale and shift do not fit samples of 6 values");
    assert_int_equal(open_one(&l, TENSOR_U8, bytes, 6, four, 2, &e), ERR_CONFIG);
    assert_int_equal(open_one(&l, TENSOR_U8, bytes, 6, uneven, 2, &e), ERR_CONFIG);
    for (size_t i = 0; i < N_OF(wrong); i++) {
        const struct tensor_view t = {
            .name = "augment", .type = TENSOR_I32, .n_dims = 1, .shape = {5}, .data = wrong[i]};

        assert_int_equal(open_one(&l, TENSOR_U8, bytes, 6, &t, 1, &e), ERR_CONFIG);
        assert_error_has("tensor augment does not fit samples of 6 values");
    }
}

TEST(samples_alone_are_scaled_by_their_own_file)
{
    static const uint8_t bytes[6] = {0, 1, 2, 3, 4, 5};
    static const float scale[3] = {1, 2, 3}, shift[3] = {0, 10, 20};
    static const float expected[6] = {0, 12, 26, 3, 18, 35};
    static const int32_t labels[2] = {4, 9};
    struct tensor_view t[4] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {2, WIDTH}, .data = bytes},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {2}, .data = labels},
        floats("scale", scale, 3),
        floats("shift", shift, 3),
    };
    struct model_spec *m = model(WIDTH, 10);
    struct loader_batch batch;
    struct err e = {0};
    struct loader l;

    assert_ok(tensor_file_write(test, t, 4, NULL, &e));
    assert_ok(loader_open_test(&l, test, m, &e));
    assert_int_equal(l.n_test, 2);
    assert_ok(loader_batch_init(&batch, &l, 2, &e));
    loader_test(&l, 0, 2, &batch);
    assert_memory_equal(batch.x, expected, sizeof expected);
    assert_memory_equal(batch.labels, labels, sizeof labels);
    loader_batch_clear(&batch);
    loader_close(&l);
    t[2] = floats("scale", scale, 2);
    assert_ok(tensor_file_write(test, t, 4, NULL, &e));
    assert_int_equal(loader_open_test(&l, test, m, &e), ERR_CONFIG);
    assert_error_has("tensors scale and shift do not fit samples of 3 values");
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_shard_of_a_given_size_is_extracted_from_its_file, make, clean),
        cmocka_unit_test_setup_teardown(
            an_epoch_visits_a_sample_at_most_once_and_leaves_out_others_than_the_epoch_before, make, clean),
        cmocka_unit_test_setup_teardown(a_shard_of_another_node_is_refused, make, clean),
        cmocka_unit_test_setup_teardown(labels_in_one_split_and_targets_in_the_other_are_refused, make,
                                        clean),
        cmocka_unit_test_setup_teardown(samples_are_scaled_globally_by_channel_or_not_at_all, make, clean),
        cmocka_unit_test_setup_teardown(images_are_cropped_and_flipped_by_seed_epoch_and_column, make, clean),
        cmocka_unit_test_setup_teardown(transforms_must_suit_the_samples, make, clean),
        cmocka_unit_test_setup_teardown(a_token_outside_the_vocabulary_of_the_model_is_refused, make, clean),
        cmocka_unit_test_setup_teardown(samples_with_one_label_each_are_refused_for_a_loss_of_each_token,
                                        make, clean),
        cmocka_unit_test_setup_teardown(columns_whose_sum_wraps_around_are_refused, make, clean),
        cmocka_unit_test_setup_teardown(samples_alone_are_scaled_by_their_own_file, make, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
