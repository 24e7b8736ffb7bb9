/* Models of language that go on with a text: PyTorch's tokens (tests/reference/generate.py), and draws. */
#include "nn/generator.h"

#include <math.h>

#include "nn/kernels/blas.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "tests/unit/unit.h"

enum { N_KNOWN = 13, DRAWS = 4000 };

static const char *const names[] = {"gpt", "rope", "gru"};
static const struct sampling greedy = {.top_p = 1};

struct speaker {
    struct tensor_file file;
    struct model_spec spec;
    struct net *net;
    int n_prompt;
    const int32_t *tokens; /* (n_tokens): prompt and what follows */
    size_t n_tokens;
};

static void open_speaker(struct speaker *s, const char *name)
{
    const struct tensor_view *t;
    const char *text;
    char path[80];
    json_t *doc;
    struct err e;

    blas_set_threads(1, 1);
    snprintf(path, sizeof path, "tests/reference/generate-%s.safetensors", name);
    assert_ok(tensor_file_open(&s->file, path, &e));
    text = tensor_file_meta(&s->file, "model");
    assert_non_null(text);
    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&s->spec, doc, &e));
    json_decref(doc);
    assert_ok(model_spec_language(&s->spec, &e));
    assert_ok(net_new(&s->net, &s->spec, 1, &e));
    net_load(s->net, &s->file, "");
    s->n_prompt = atoi(tensor_file_meta(&s->file, "prompt"));
    t = tensor_file_find(&s->file, "tokens");
    s->tokens = t->data;
    s->n_tokens = t->shape[0];
}

static void close_speaker(struct speaker *s)
{
    net_free(s->net);
    model_spec_clear(&s->spec);
    tensor_file_close(&s->file);
}

/* A text that begins with the prompt. */
static struct generator *begin_text(struct speaker *s, const struct sampling *how)
{
    struct generator *g;
    struct err e;

    assert_ok(generator_new(&g, s->net, &s->spec, N_KNOWN, how, &e));
    for (int i = 0; i < s->n_prompt; i++)
        assert_ok(generator_add(g, s->tokens[i], &e));
    return g;
}

TEST(the_most_probable_tokens_are_those_of_pytorch_also_beyond_the_input)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct generator *g;
        struct speaker s;
        struct err e;

        open_speaker(&s, names[k]);
        g = begin_text(&s, &greedy);
        assert_true(s.n_tokens > (size_t)s.spec.n_in);
        for (size_t i = (size_t)s.n_prompt; i < s.n_tokens; i++)
            assert_int_equal(generator_next(g, &e), s.tokens[i]);
        generator_free(g);
        close_speaker(&s);
    }
}

TEST(a_step_alone_has_the_outputs_of_a_forward_pass)
{
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        float x[16] = {0}, all[16 * N_KNOWN];
        struct speaker s;
        double top = 0;

        open_speaker(&s, names[k]);
        assert_true(s.spec.n_in <= 16);
        for (int t = 0; t < s.spec.n_in; t++)
            x[t] = (float)s.tokens[t];
        memcpy(all, net_forward(s.net, x, 1), (size_t)s.spec.n_out * sizeof *all);
        for (int t = 0; t < s.spec.n_in; t++) {
            const float *z = net_step(s.net, x, t);

            for (int i = 0; i < N_KNOWN; i++)
                top = fmax(top, fabs((double)z[i] - (double)all[t * N_KNOWN + i]));
        }
        assert_true(top < 2e-5);
        close_speaker(&s);
    }
}

/* Draws one token behind the prompt, again and again; n[i]: how often token i. */
static void count_draws(size_t n[N_KNOWN], struct sampling how)
{
    struct speaker s;
    struct err e;

    memset(n, 0, N_KNOWN * sizeof *n);
    open_speaker(&s, "rope");
    for (how.seed = 1; how.seed <= DRAWS; how.seed++) {
        struct generator *g = begin_text(&s, &how);
        int token = generator_next(g, &e);

        assert_true(token >= 0 && token < N_KNOWN);
        n[token]++;
        generator_free(g);
    }
    close_speaker(&s);
}

/* The probabilities behind the prompt, the largest first; order[i]: their tokens. */
static void known_shares(double share[N_KNOWN], int order[N_KNOWN], double temperature)
{
    float x[16] = {0};
    const float *z = NULL;
    struct speaker s;
    double sum = 0;

    open_speaker(&s, "rope");
    for (int t = 0; t < s.n_prompt; t++)
        x[t] = (float)s.tokens[t];
    for (int t = 0; t < s.n_prompt; t++)
        z = net_step(s.net, x, t);
    for (int i = 0; i < N_KNOWN; i++) {
        int k = i;

        for (; k > 0 && z[i] > z[order[k - 1]]; k--)
            order[k] = order[k - 1];
        order[k] = i;
        sum += exp((double)z[i] / temperature);
    }
    for (int i = 0; i < N_KNOWN; i++)
        share[i] = exp((double)z[order[i]] / temperature) / sum;
    close_speaker(&s);
}

TEST(tokens_are_drawn_by_their_probabilities)
{
    static const double temperatures[] = {1, 2};

    for (int k = 0; k < 2; k++) {
        double share[N_KNOWN];
        int order[N_KNOWN];
        size_t n[N_KNOWN];

        known_shares(share, order, temperatures[k]);
        count_draws(n, (struct sampling){.temperature = temperatures[k], .top_p = 1});
        for (int i = 0; i < N_KNOWN; i++) {
            double p = share[i], off = (double)n[order[i]] - DRAWS * p;

            assert_true(fabs(off) < 5 * sqrt(DRAWS * p * (1 - p)) + 1);
        }
    }
}

TEST(improbable_tokens_are_left_out)
{
    double share[N_KNOWN], part = 0;
    int order[N_KNOWN], fewest = 0;
    size_t n[N_KNOWN];

    known_shares(share, order, 1);
    count_draws(n, (struct sampling){.temperature = 1, .top_k = 3, .top_p = 1});
    for (int i = 0; i < N_KNOWN; i++)
        assert_true((n[order[i]] > 0) == (i < 3));
    while (part < 0.8)
        part += share[fewest++];
    assert_true(fewest > 1 && fewest < N_KNOWN);
    count_draws(n, (struct sampling){.temperature = 1, .top_p = 0.8});
    for (int i = 0; i < N_KNOWN; i++)
        assert_true((n[order[i]] > 0) == (i < fewest));
    count_draws(n, (struct sampling){.temperature = 1, .top_p = 1e-9});
    assert_int_equal(n[order[0]], DRAWS);
}

TEST(a_seed_repeats_a_text)
{
    const struct sampling how = {.temperature = 1, .top_p = 1, .seed = 7};
    struct speaker s;
    int tokens[2][40];
    struct err e;

    open_speaker(&s, "gpt");
    for (int k = 0; k < 2; k++) {
        struct generator *g = begin_text(&s, &how);

        for (int i = 0; i < 40; i++)
            tokens[k][i] = generator_next(g, &e);
        generator_free(g);
    }
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
    close_speaker(&s);
}

TEST(tokens_beyond_the_vocabulary_and_outputs_that_are_not_finite_are_refused)
{
    struct generator *g;
    struct speaker s;
    struct err e;

    open_speaker(&s, "gpt");
    assert_int_equal(generator_new(&g, s.net, &s.spec, N_KNOWN + 1, &greedy, &e), ERR_CONFIG);
    assert_string_equal(e.text, "model \"gpt\" reads 13 tokens and predicts 13, the text has 14");
    g = begin_text(&s, &greedy);
    assert_int_equal(generator_add(g, N_KNOWN, &e), ERR_CONFIG);
    assert_string_equal(e.text, "token 13 is outside the model's vocabulary, 0 to 12");
    assert_int_equal(generator_add(g, -1, &e), ERR_CONFIG);
    net_params(s.net)[net_n_params(s.net) - 1] = NAN;
    assert_int_equal(generator_next(g, &e), ERR_CONFIG);
    assert_string_equal(e.text, "an output of the model is not a finite number");
    generator_free(g);
    close_speaker(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_probable_tokens_are_those_of_pytorch_also_beyond_the_input),
        cmocka_unit_test(a_step_alone_has_the_outputs_of_a_forward_pass),
        cmocka_unit_test(tokens_are_drawn_by_their_probabilities),
        cmocka_unit_test(improbable_tokens_are_left_out),
        cmocka_unit_test(a_seed_repeats_a_text),
        cmocka_unit_test(tokens_beyond_the_vocabulary_and_outputs_that_are_not_finite_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
