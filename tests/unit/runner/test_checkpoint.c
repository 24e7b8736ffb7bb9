#include "runner/checkpoint.h"

#include <sys/resource.h>

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_state.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "tests/unit/unit.h"

static const char small[] = "{\"version\": 1, \"name\": \"small\", \"input\": [3], \"layers\": "
                            "[{\"kind\": \"dense\", \"units\": 4}, {\"kind\": \"tanh\"}, "
                            "{\"kind\": \"dense\", \"units\": 2}], \"loss\": \"softmax_cross_entropy\"}";
static const char other[] = "{\"version\": 1, \"name\": \"other\", \"input\": [3], \"layers\": "
                            "[{\"kind\": \"dense\", \"units\": 5}, {\"kind\": \"tanh\"}, "
                            "{\"kind\": \"dense\", \"units\": 2}], \"loss\": \"softmax_cross_entropy\"}";

/* The state of a codec that uses everything a state may have: numbers, and vectors that are swapped. */
struct keeper {
    float *now, *before;
    double sum;
    float *few;
    uint32_t n;
};

static struct codec *opened; /* the codec opened last */

static int keeper_open(struct codec *c)
{
    struct keeper *k = c->state;

    opened = c;
    if (codec_zeros(c, &k->now, c->n_params) < 0 || codec_zeros(c, &k->before, c->n_params) < 0)
        return -1;
    return codec_zeros(c, &k->few, 3);
}

static int no_encode(struct codec *c, struct wire_out *out)
{
    (void)c, (void)out;
    return CODEC_GO;
}

static int no_merge(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return CODEC_GO;
}

static const struct codec_round rounds = {.encode = no_encode, .merge = no_merge};
static const struct codec_events events = {0};
static const struct codec_events resting_events = {.is_quiescent_between_steps = true};
static const struct codec_plugin keeper = {.name = "keeper",
                                           .state_size = sizeof(struct keeper),
                                           .open = keeper_open,
                                           .more = CODEC_MORE(.round = &rounds)};
static const struct codec_plugin by_events = {.name = "by_events", .more = CODEC_MORE(.events = &events)};
static const struct codec_plugin resting = {.name = "resting", .more = CODEC_MORE(.events = &resting_events)};

/* One node of a job, which a test can make differ from another one. */
struct fixture {
    struct settings set;
    struct blocks blocks;
    struct model_spec *spec;
    const char *arch;
    struct checkpoint c;
};

static void open_exchange(struct fixture *f, const struct codec_plugin *p)
{
    struct err e;

    exchange_free(f->c.exchange);
    f->c.exchange = NULL;
    assert_ok(exchange_new(&f->c.exchange,
                           &(struct exchange_config){.plugin = p,
                                                     .n_workers = 2,
                                                     .n_servers = f->set.server_count,
                                                     .blocks = &f->blocks,
                                                     .is_sync = f->set.sync == SYNC_SSGD,
                                                     .local_steps = 4,
                                                     .n_steps = 30,
                                                     .seed = f->set.seed,
                                                     .n_params = net_n_params(f->c.net),
                                                     .params = net_params(f->c.net),
                                                     .grads = net_grads(f->c.net)},
                           &e));
}

static void open_node(struct fixture *f, const char *arch)
{
    json_t *doc;
    struct err e;

    *f = (struct fixture){.arch = arch};
    settings_default(&f->set);
    strcpy(f->set.server_codec, f->set.codec);
    f->set.node_count = 2;
    f->set.epochs = 3;
    f->set.steps_per_epoch = 10;
    assert_ok(blocks_init(&f->blocks, BLOCKS_IID, 2, 1, &e));
    assert_ok(json_parse(&doc, arch, strlen(arch), "arch", &e));
    assert_ok(model_spec_new(&f->spec, doc, &e));
    json_decref(doc);
    f->c = (struct checkpoint){.set = &f->set, .job = "j-abcdef", .arch = arch, .codec_sha256 = "00c0dec1"};
    assert_ok(net_new(&f->c.net, f->spec, 2, &e));
    net_init(f->c.net, 3);
    assert_ok(optimizer_new(&f->c.optimizer, &(struct optimizer_config){.kind = OPTIMIZER_ADAM},
                            net_n_trained(f->c.net), &e));
    open_exchange(f, &keeper);
}

static void close_node(struct fixture *f)
{
    exchange_free(f->c.exchange);
    optimizer_free(f->c.optimizer);
    net_free(f->c.net);
    blocks_clear(&f->blocks);
    model_spec_free(f->spec);
}

/* Two epochs later, as far as is visible from outside. */
static void work(struct fixture *f)
{
    struct keeper *k = opened->state;
    float *swap = k->now;
    float *g = net_grads(f->c.net);

    for (size_t i = 0; i < net_n_params(f->c.net); i++)
        g[i] = 0.1f * (float)(i + 1);
    for (int i = 0; i < 20; i++)
        optimizer_step(f->c.optimizer, net_params(f->c.net), g, 0.01f, 1);
    k->now[2] = 7;
    k->before[1] = -3;
    k->now = k->before;
    k->before = swap;
    k->few[2] = 1.5f;
    k->sum = 0.1;
    k->n = 42;
    opened->run->lr_factor = 0.25f;
    opened->run->step = 20;
    opened->run->round = 5;
    opened->samples = 256;
    exchange_set_rounds(f->c.exchange, 5);
    for (int i = 0; i < 9; i++)
        codec_uniform(opened);
    f->c.epoch = 2;
    f->c.step = 20;
    f->c.samples = 1280;
}

/* Returns the bytes of a node's checkpoint after its work. The caller frees. */
static char *bytes_of(size_t *len, struct fixture *f)
{
    const char *dir = unit_folder();
    char path[256];
    char *bytes;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "c.safetensors", &e));
    assert_ok(checkpoint_write(path, &f->c, &e));
    assert_ok(file_read(&bytes, len, path, 1 << 20, &e));
    unit_remove(dir);
    return bytes;
}

/* Runs a node; returns it and its checkpoint, which the caller frees. */
static char *open_worked(struct fixture *f, size_t *len)
{
    open_node(f, small);
    work(f);
    return bytes_of(len, f);
}

static int restore(struct fixture *f, const void *bytes, size_t len, struct err *e)
{
    char *copy = unit_copy(bytes, len);
    struct tensor_file file;
    int rc = tensor_file_parse(&file, copy, len, "c", e);

    if (rc == 0) {
        rc = checkpoint_restore(&f->c, &file, f->spec, e);
        tensor_file_close(&file);
    }
    free(copy);
    return rc;
}

TEST(a_node_is_restored_bit_for_bit)
{
    struct fixture a, b;
    struct codec *then;
    const struct keeper *k;
    struct tensor_view x[OPTIMIZER_TENSORS], y[OPTIMIZER_TENSORS];
    size_t len;
    char *bytes;
    struct err e;

    open_node(&a, small);
    work(&a);
    then = opened;
    bytes = bytes_of(&len, &a);
    open_node(&b, small);
    assert_ok(restore(&b, bytes, len, &e));
    assert_memory_equal(net_params(a.c.net), net_params(b.c.net), net_n_params(a.c.net) * sizeof(float));
    assert_int_equal(optimizer_tensors(a.c.optimizer, x), 2);
    assert_int_equal(optimizer_tensors(b.c.optimizer, y), 2);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(x[i].data, y[i].data, x[i].shape[0] * sizeof(float));
    assert_int_equal(optimizer_steps(b.c.optimizer), 20);
    k = opened->state;
    assert_true(k->now[1] == -3 && k->before[2] == 7 && k->sum == 0.1 && k->n == 42 && k->few[2] == 1.5f);
    assert_ptr_not_equal(k->now, ((struct keeper *)then->state)->now);
    assert_true(opened->run->lr_factor == 0.25f);
    assert_true(opened->run->step == 20 && opened->run->round == 5 && opened->samples == 256);
    assert_int_equal(exchange_rounds(b.c.exchange), 5);
    for (int i = 0; i < 5; i++)
        assert_true(codec_uniform(opened) == codec_uniform(then));
    assert_true(b.c.epoch == 2 && b.c.step == 20 && b.c.samples == 1280);
    free(bytes);
    close_node(&a);
    close_node(&b);
}

TEST(a_restored_node_saves_the_same_bytes)
{
    struct fixture a, b;
    char *first, *second;
    size_t len, again;
    struct err e;

    first = open_worked(&a, &len);
    open_node(&b, small);
    assert_ok(restore(&b, first, len, &e));
    second = bytes_of(&again, &b);
    assert_int_equal(len, again);
    assert_memory_equal(first, second, len);
    free(first);
    free(second);
    close_node(&a);
    close_node(&b);
}

/* Its longest name has 127 characters, before which the file writes "model/". */
TEST(a_node_of_a_training_program_is_restored_by_the_names_of_its_tensors)
{
    static const char program[] =
        "{\"version\": 1, \"name\": \"train.py\", \"trainer\": true, \"tensors\": [{\"name\": "
        "\"head.weight\", "
        "\"shape\": [2, 5]}, {\"name\": \"bn.mean\", \"shape\": [3], \"statistic\": true}, {\"name\": "
        "\"scale\", "
        "\"shape\": []}, {\"name\": "
        "\"0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.01234567"
        "89.0123456789.0123456789.0123456789.0123456789.01234A\", \"shape\": [2]}, {\"name\": "
        "\"0123456789.012345"
        "6789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789.0123456789."
        "0123456789"
        ".01234B\", \"shape\": [2]}]}";
    struct fixture a, b;
    char *bytes;
    size_t len;
    struct err e;

    open_node(&a, program);
    assert_int_equal(strlen(a.spec->tensors[3].name), MODEL_TENSOR_NAME - 1);
    for (size_t i = 0; i < net_n_params(a.c.net); i++)
        net_params(a.c.net)[i] = (float)i - 7;
    work(&a);
    bytes = bytes_of(&len, &a);
    open_node(&b, program);
    assert_ok(restore(&b, bytes, len, &e));
    assert_memory_equal(net_params(a.c.net), net_params(b.c.net), net_n_params(a.c.net) * sizeof(float));
    free(bytes);
    close_node(&a);
    close_node(&b);
}

TEST(what_a_training_program_has_saved_is_in_its_nodes_checkpoint)
{
    static const char state[] = "step 20\0seed";
    struct tensor_file file;
    struct fixture f;
    char *bytes;
    size_t len;
    struct err e;

    open_node(&f, small);
    work(&f);
    f.c.program = state;
    f.c.n_program = sizeof state;
    bytes = bytes_of(&len, &f);
    f.c.program = NULL;
    assert_ok(tensor_file_parse(&file, bytes, len, "c", &e));
    assert_ok(checkpoint_restore(&f.c, &file, f.spec, &e));
    assert_int_equal(f.c.n_program, sizeof state);
    assert_memory_equal(f.c.program, state, sizeof state);
    tensor_file_close(&file);
    free(bytes);

    f.c.n_program = 0;
    bytes = bytes_of(&len, &f);
    f.c.program = state;
    assert_ok(restore(&f, bytes, len, &e));
    assert_null(f.c.program);
    free(bytes);
    close_node(&f);
}

TEST(every_truncation_is_refused)
{
    struct fixture f;
    char *bytes;
    size_t len;
    struct err e;

    bytes = open_worked(&f, &len);
    for (size_t n = 0; n < len; n++)
        assert_int_equal(restore(&f, bytes, n, &e), ERR_CONFIG);
    assert_int_equal(restore(&f, bytes, len, &e), 0);
    free(bytes);
    close_node(&f);
}

/* An accepted file yields finite weights, and addresses of this process only. */
TEST(a_flipped_bit_is_refused_or_harmless)
{
    struct fixture f;
    char *bytes;
    size_t len, n_taken = 0;
    struct err e;

    bytes = open_worked(&f, &len);
    for (size_t i = 0; i < 8 * len; i += 3) {
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
        if (restore(&f, bytes, len, &e) == 0) {
            struct keeper *k = opened->state;

            n_taken++;
            for (size_t p = 0; p < net_n_params(f.c.net); p++)
                assert_true(net_params(f.c.net)[p] - net_params(f.c.net)[p] == 0);
            assert_ptr_equal(exchange_channel(f.c.exchange, 0)->zeros[0].v, k->now);
            k->now = k->before = NULL; /* the next file must set them again */
        } else {
            assert_int_equal(e.code, ERR_CONFIG);
        }
        bytes[i / 8] = (char)(bytes[i / 8] ^ (1 << i % 8));
    }
    assert_true(n_taken > 0);
    free(bytes);
    close_node(&f);
}

/* Replaces one text in a file by another of the same length. */
static void replace(char *bytes, size_t len, const char *from, const char *to)
{
    char *at = memmem(bytes, len, from, strlen(from));

    assert_int_equal(strlen(from), strlen(to));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
}

TEST(a_checkpoint_of_another_node_is_refused)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"\"psgd-checkpoint\"", "\"psgd-chickpoint\"", "its format is \"psgd-chickpoint\""},
        {"\"version\":\"2\"", "\"version\":\"1\"", "it has version \"1\", this psgd reads 2"},
        {"\"version\":\"2\"", "\"virsion\":\"2\"", "its metadata has no \"version\""},
        {"\"node\":\"0\"", "\"node\":\"1\"", "it belongs to node 1, not to node 0"},
        {"\"epoch\":\"2\"", "\"epoch\":\"3\"", "epoch 3 is reached already, the job ends with epoch 3"},
        {"\"epoch\":\"2\"", "\"epoch\":\"1\"", "after step 20 not 1 epochs are complete"},
        {"\"step\":\"20\"", "\"step\":\"-2\"", "\"step\" is not a number"},
        {"\"round\":\"5\"", "\"round\":\"4\"", "round 4 does not belong to step 20"},
        {"\"00c0dec1\"", "\"00c0dec2\"", "another build of codec plain (SHA-256 00c0dec2, now 00c0dec1)"},
        {"\\\"seed\\\":1,", "\\\"seed\\\":2,", "seed was 2 in the earlier job, and is 1 now"},
        {"\\\"node_count\\\":2,", "\\\"node_count\\\":3,",
         "node_count was 3 in the earlier job, and is 2 now"},
        {"\"opt/adam.m\"", "\"opt/adam.w\"", "tensor \"opt/adam.m\" of 26 values is missing"},
        {"\"codec/0/vector1\"", "\"codec/0/victor1\"", "\"codec/0/vector1\" is missing"},
        {"\"codec/0/vector2\"", "\"codec/0/vector3\"", "\"codec/0/vector2\" is missing"},
        {"\"codec/0/state\"", "\"codec/1/state\"", "\"codec/0/state\" is missing"},
        {"model/layer2.dense.bias", "model/layer9.dense.bias", "layer2.dense.bias\" of shape (2) is missing"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct fixture f;
        char *bytes;
        size_t len;
        struct err e;

        bytes = open_worked(&f, &len);
        replace(bytes, len, cases[i].from, cases[i].to);
        assert_int_equal(restore(&f, bytes, len, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        free(bytes);
        close_node(&f);
    }
}

TEST(a_codec_at_another_step_than_the_job_is_refused)
{
    static const struct {
        uint64_t step, round;
        const char *expected;
    } cases[] = {
        {20, 4, "codec/0/cursor is at step 20 and round 4, the job at step 20 and round 5"},
        {10, 5, "codec/0/cursor is at step 10 and round 5, the job at step 20 and round 5"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct fixture f;
        int64_t cursor[2] = {20, 5};
        char *bytes, *at;
        size_t len;
        struct err e;

        bytes = open_worked(&f, &len);
        at = memmem(bytes, len, cursor, sizeof cursor);
        assert_non_null(at);
        memcpy(at, &cases[i].step, sizeof cases[i].step);
        memcpy(at + 8, &cases[i].round, sizeof cases[i].round);
        assert_int_equal(restore(&f, bytes, len, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        free(bytes);
        close_node(&f);
    }
}

/* The size is known before the file exists, except for the header, which counts with its maximum. */
TEST(a_checkpoint_too_large_for_a_file_is_refused_in_advance)
{
    enum { HEADER = 2 << 20 };
    struct rlimit old, most;
    struct tensor_file file;
    struct fixture f;
    uint64_t data = 0;
    char *bytes;
    size_t len;
    struct err e;

    bytes = open_worked(&f, &len);
    assert_ok(tensor_file_parse(&file, bytes, len, "c", &e));
    for (size_t i = 0; i < file.n; i++)
        data += tensor_bytes(&file.tensors[i]);
    tensor_file_close(&file);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    most = (struct rlimit){data + HEADER - 1, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
    assert_int_equal(checkpoint_can_write(&f.c, &e), ERR_CONFIG);
    assert_error_has("a checkpoint would have ");
    most.rlim_cur = data + HEADER + 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
    assert_ok(checkpoint_can_write(&f.c, &e));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    free(bytes);
    close_node(&f);
}

TEST(a_checkpoint_of_another_model_is_refused)
{
    struct fixture a, b;
    char *bytes;
    size_t len;
    struct err e;

    bytes = open_worked(&a, &len);
    open_node(&b, other);
    assert_int_equal(restore(&b, bytes, len, &e), ERR_CONFIG);
    assert_error_has("\"model/layer0.dense.weight\" has the shape (3, 4), the model's has (3, 5)");
    free(bytes);
    close_node(&a);
    close_node(&b);
}

TEST(only_the_length_and_the_limits_of_a_job_may_differ)
{
    struct settings s, t;
    json_t *doc;
    struct err e;

    settings_default(&s);
    strcpy(s.server_codec, s.codec);
    doc = settings_json(&s);
    t = s;
    t.epochs = 50;
    t.record_every = 7;
    t.time_limit_s = 100;
    t.round_timeout_s = 9;
    t.checkpoint_every = 4;
    t.data_tls = DATA_TLS_OFF;
    strcpy(t.name, "another");
    t.starts_from = STARTS_FROM_CHECKPOINT;
    assert_ok(settings_check_resume(&t, doc, &e));
    t.learn_rate = 0.5;
    assert_int_equal(settings_check_resume(&t, doc, &e), ERR_CONFIG);
    assert_error_has("learn_rate was 0.05");
    json_object_del(doc, "learn_rate"); /* a document without the key means the default */
    t.learn_rate = s.learn_rate;
    assert_ok(settings_check_resume(&t, doc, &e));
    json_decref(doc);
}

/* A pointer that is not one of the codec's vectors is meaningless in another process, and a vector of
 * another length does not fit. */
TEST(a_state_field_without_a_vector_of_its_length_is_refused)
{
    struct fixture f;
    struct keeper *k;
    float *now;
    struct err e;

    open_node(&f, small);
    k = opened->state;
    now = k->now;
    assert_ok(exchange_can_save(f.c.exchange, &e));
    float *const aliens[] = {now + 1, opened->params, NULL, k->few};
    for (size_t i = 0; i < N_OF(aliens); i++) {
        k->now = aliens[i];
        assert_int_equal(exchange_can_save(f.c.exchange, &e), ERR_CODEC);
        assert_error_has(
            "codec keeper cannot be saved: the field at byte 0 of its state does not hold one of its "
            "vectors");
    }
    k->now = k->before;
    k->before = now;
    assert_ok(exchange_can_save(f.c.exchange, &e));
    close_node(&f);
}

TEST(a_rule_that_may_have_messages_in_flight_is_refused)
{
    struct fixture f;
    struct err e;

    open_node(&f, small);
    open_exchange(&f, &by_events);
    assert_int_equal(exchange_can_save(f.c.exchange, &e), ERR_CODEC);
    assert_error_has("codec by_events runs by events");
    open_exchange(&f, &resting);
    assert_ok(exchange_can_save(f.c.exchange, &e));
    assert_int_equal(exchange_rounds_after(f.c.exchange, 27), 27); /* its traffic is counted by step */
    f.set.server_count = 1;
    open_exchange(&f, &resting);
    assert_int_equal(exchange_can_save(f.c.exchange, &e), ERR_CODEC);
    assert_error_has("its servers receive messages and cannot know the workers' step");
    f.set.server_count = 0;
    f.set.sync = SYNC_ASGD;
    open_exchange(&f, &keeper);
    assert_int_equal(exchange_can_save(f.c.exchange, &e), ERR_CODEC);
    assert_error_has("in asgd without servers contributions may be in transit");
    close_node(&f);
}

/* 30 steps in rounds of 4: the last round is partial */
TEST(the_closing_round_of_a_job_is_known_in_advance)
{
    struct fixture f;

    open_node(&f, small);
    assert_true(exchange_closes_early(f.c.exchange, 30));
    assert_false(exchange_closes_early(f.c.exchange, 29));
    assert_false(exchange_closes_early(f.c.exchange, 28));
    assert_int_equal(exchange_rounds_after(f.c.exchange, 27), 6);
    assert_int_equal(exchange_rounds_after(f.c.exchange, 28), 7);
    assert_int_equal(exchange_rounds_after(f.c.exchange, 30), 7);
    close_node(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_restored_bit_for_bit),
        cmocka_unit_test(a_restored_node_saves_the_same_bytes),
        cmocka_unit_test(a_node_of_a_training_program_is_restored_by_the_names_of_its_tensors),
        cmocka_unit_test(what_a_training_program_has_saved_is_in_its_nodes_checkpoint),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(a_checkpoint_of_another_node_is_refused),
        cmocka_unit_test(a_codec_at_another_step_than_the_job_is_refused),
        cmocka_unit_test(a_checkpoint_too_large_for_a_file_is_refused_in_advance),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
        cmocka_unit_test(only_the_length_and_the_limits_of_a_job_may_differ),
        cmocka_unit_test(a_state_field_without_a_vector_of_its_length_is_refused),
        cmocka_unit_test(a_rule_that_may_have_messages_in_flight_is_refused),
        cmocka_unit_test(the_closing_round_of_a_job_is_known_in_advance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
