/* Weights in the form in which GPT-2 is published, small and random, and the logits that PyTorch computes
 * with them (tests/reference/gpt2.py). */
#include "submit/stages/gpt2_names.h"

#include <math.h>

#include "nn/net.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "tests/unit/unit.h"

#define WEIGHTS "tests/reference/gpt2.safetensors"
#define LOGITS  "tests/reference/gpt2-logits.safetensors"

struct gpt2 {
    struct tensor_file weights, logits;
    struct model_spec spec;
};

static void open_files(struct gpt2 *g)
{
    const char *text;
    json_t *doc;
    struct err e;

    assert_ok(tensor_file_open(&g->weights, WEIGHTS, &e));
    assert_ok(tensor_file_open(&g->logits, LOGITS, &e));
    text = tensor_file_meta(&g->logits, "model");
    assert_non_null(text);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&g->spec, doc, &e));
    json_decref(doc);
}

static void close_files(struct gpt2 *g)
{
    tensor_file_close(&g->weights);
    tensor_file_close(&g->logits);
    model_spec_clear(&g->spec);
}

TEST(published_weights_give_the_logits_of_pytorch)
{
    const struct tensor_view *x, *z;
    struct net *net;
    const float *ours, *theirs;
    struct gpt2 g;
    double top = 0;
    struct err e;

    open_files(&g);
    gpt2_names_replace(&g.weights, &g.spec);
    assert_ok(weights_check(&g.weights, "", &g.spec, &e));
    x = tensor_file_find(&g.logits, "x");
    z = tensor_file_find(&g.logits, "z");
    assert_true(x && z && tensor_count(z) == x->shape[0] * (size_t)g.spec.n_out);
    assert_ok(net_new(&net, &g.spec, (int)x->shape[0], &e));
    net_load(net, &g.weights, "");
    ours = net_forward(net, x->data, (int)x->shape[0]);
    theirs = z->data;
    for (size_t i = 0; i < tensor_count(z); i++)
        top = fmax(top, fabs((double)theirs[i]));
    for (size_t i = 0; i < tensor_count(z); i++)
        assert_true(fabs((double)ours[i] - (double)theirs[i]) < 2e-6 * top);
    net_free(net);
    close_files(&g);
}

/* Of the file; the name without the part before it is another tensor's. */
static bool add_prefix(struct tensor_view *t, void *owner)
{
    char name[TENSOR_NAME];

    (void)owner;
    snprintf(name, sizeof name, "transformer.%.100s", t->name);
    memcpy(t->name, name, sizeof name);
    return true;
}

TEST(names_may_have_the_prefix_of_a_model_with_a_head)
{
    struct gpt2 g;
    struct err e;

    open_files(&g);
    tensor_file_rename(&g.weights, add_prefix, NULL);
    assert_int_equal(weights_check(&g.weights, "", &g.spec, &e), ERR_CONFIG);
    gpt2_names_replace(&g.weights, &g.spec);
    assert_ok(weights_check(&g.weights, "", &g.spec, &e));
    close_files(&g);
}

static bool shift_block(struct tensor_view *t, void *owner)
{
    (void)owner;
    if (strncmp(t->name, "h.1.", 4) == 0)
        t->name[2] = '7';
    return true;
}

TEST(a_block_that_the_model_has_not_is_named)
{
    struct gpt2 g;
    struct err e;

    open_files(&g);
    tensor_file_rename(&g.weights, shift_block, NULL);
    gpt2_names_replace(&g.weights, &g.spec);
    assert_int_equal(weights_check(&g.weights, "", &g.spec, &e), ERR_CONFIG);
    assert_error_has("tensor \"layer4.0.layer_norm.gain\" of shape (8) is missing");
    close_files(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_weights_give_the_logits_of_pytorch),
        cmocka_unit_test(names_may_have_the_prefix_of_a_model_with_a_head),
        cmocka_unit_test(a_block_that_the_model_has_not_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
