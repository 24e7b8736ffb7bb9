/* Samples of text as a model of language learns, of the model in tests/reference/generate-gpt.safetensors. */
#include "runner/text_sample.h"

#include "nn/kernels/blas.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

enum { KNOWN = 13 };

static const int32_t prompt[] = {3, 0, 7};

struct speaker {
    struct tensor_file weights, shard;
    struct model_spec spec;
    struct net *net;
    const char *folder;
};

static struct err e;

static void open_model(struct speaker *s)
{
    const char *text;
    json_t *doc;

    blas_set_threads(1, 1);
    s->folder = unit_folder();
    assert_ok(tensor_file_open(&s->weights, "tests/reference/generate-gpt.safetensors", &e));
    text = tensor_file_meta(&s->weights, "model");
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&s->spec, doc, &e));
    json_decref(doc);
    assert_ok(net_new(&s->net, &s->spec, 1, &e));
    net_load(s->net, &s->weights, "");
}

static void close_model(struct speaker *s)
{
    net_free(s->net);
    model_spec_clear(&s->spec);
    tensor_file_close(&s->weights);
    unit_remove(s->folder);
}

/* A shard whose tokens end at `ends`, in 26 bytes. Returns the code of text_sample_open(). */
static int open_shard(struct text_sample *t, struct speaker *s, const int32_t *ends, const int32_t *tokens)
{
    static const char bytes[26] = {0};
    const struct tensor_view tensors[] = {
        {.name = "prompt", .type = TENSOR_I32, .n_dims = 1, .shape = {3}, .data = tokens},
        {.name = "token_ends", .type = TENSOR_I32, .n_dims = 1, .shape = {KNOWN}, .data = ends},
        {.name = "token_bytes", .type = TENSOR_U8, .n_dims = 1, .shape = {26}, .data = bytes}};
    char path[256];

    snprintf(path, sizeof path, "%s/shard.safetensors", s->folder);
    assert_ok(tensor_file_write_unsynced(path, tensors, 3, NULL, &e));
    assert_ok(tensor_file_open(&s->shard, path, &e));
    return text_sample_open(t, &s->shard, &s->spec, &e);
}

TEST(a_text_has_the_bytes_of_its_tokens_and_is_the_same_drawn_in_parts)
{
    int32_t ends[KNOWN];
    struct speaker s = {0};
    struct text_sample t;
    char *whole;

    open_model(&s);
    for (int k = 0; k < KNOWN; k++)
        ends[k] = 2 * k + 2;
    assert_ok(open_shard(&t, &s, ends, prompt));
    assert_true(text_sample_is_asked(&t));
    assert_string_equal(t.prompt_line, "%00%00%00%00%00%00");
    assert_ok(text_sample_begin(&t, s.net, &s.spec, 1, &e));
    while (!text_sample_go_on(&t, 7))
        ;
    assert_int_equal(t.line_len, strlen(t.line));
    assert_int_equal(t.line_len, (size_t)t.n_drawn * 6);
    whole = strdup(t.line);
    assert_ok(text_sample_begin(&t, s.net, &s.spec, 1, &e));
    assert_true(text_sample_go_on(&t, TEXT_SAMPLE_TOKENS + 1));
    assert_string_equal(t.line, whole);
    free(whole);
    text_sample_close(&t);
    tensor_file_close(&s.shard);
    close_model(&s);
}

TEST(tensors_that_contradict_each_other_are_refused)
{
    static const int32_t unknown[] = {3, KNOWN, 7};
    int32_t ends[KNOWN] = {0};
    struct speaker s = {0};
    struct text_sample t;

    open_model(&s);
    ends[4] = 27;
    assert_int_equal(open_shard(&t, &s, ends, prompt), ERR_CONFIG);
    assert_string_equal(e.text, "tensor token_ends: token 4 ends at 27");
    tensor_file_close(&s.shard);
    ends[4] = 5;
    assert_int_equal(open_shard(&t, &s, ends, prompt), ERR_CONFIG);
    assert_string_equal(e.text, "tensor token_ends: token 5 ends at 0");
    tensor_file_close(&s.shard);
    ends[4] = 0;
    assert_int_equal(open_shard(&t, &s, ends, unknown), ERR_CONFIG);
    assert_string_equal(e.text, "tensor prompt: token 13 is unknown");
    tensor_file_close(&s.shard);
    assert_ok(text_sample_open(&t, &s.weights, &s.spec, &e));
    assert_true(!text_sample_is_asked(&t));
    close_model(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_the_bytes_of_its_tokens_and_is_the_same_drawn_in_parts),
        cmocka_unit_test(tensors_that_contradict_each_other_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
