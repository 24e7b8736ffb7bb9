#include "tests/lib/compress_case.h"

#include "tests/unit/unit.h"

void compress_case_open(struct compress_case *k, const char *text, size_t n)
{
    struct chain_spec spec;
    struct err e;

    *k = (struct compress_case){.n = n};
    assert_ok(chain_parse(&spec, text, &e));
    assert_ok(chain_open(&k->chain, &spec, n, NULL, 0, &e));
    k->room = chain_most_bytes(&k->chain, n);
    k->message = malloc(k->room ? k->room : 1);
    k->out = malloc((n + 1) * sizeof *k->out);
    assert_true(k->message && k->out);
}

void compress_case_close(struct compress_case *k)
{
    chain_clear(&k->chain);
    free(k->message);
    free(k->out);
}

void compress_case_send(struct compress_case *k, const float *v, float *residual, uint64_t seed)
{
    struct wire_out out = {.bytes = k->message, .limit = k->room};
    struct rng r;

    rng_init(&r, seed, 0, 0);
    chain_encode(&k->chain, &r, residual, v, k->n, &out);
    assert_false(out.bad);
    k->len = out.len;
    assert_true(compress_case_reads(k, k->message, k->len));
}

bool compress_case_reads(struct compress_case *k, const unsigned char *message, size_t len)
{
    unsigned char *copy = unit_copy(message, len);
    struct wire_in in = {.bytes = copy, .len = len};
    bool is_right = chain_decode(&k->chain, &in, k->out, k->n);

    assert_int_equal(is_right, !in.bad);
    is_right = is_right && wire_ok(&in);
    free(copy);
    return is_right;
}

double square_sum(const float *v, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += (double)v[i] * (double)v[i];
    return s;
}

double square_distance(const float *a, const float *b, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return s;
}

float kind_normal(struct rng *r)
{
    return rng_normal(r);
}

float kind_heavy_tailed(struct rng *r)
{
    float x = rng_normal(r);

    return x * x * x * 1e-3f;
}

float kind_sparse(struct rng *r)
{
    return rng_uniform(r) < 0.05f ? rng_normal(r) : 0;
}

float kind_constant(struct rng *r)
{
    (void)r;
    return -0.37f;
}

float kind_zero(struct rng *r)
{
    (void)r;
    return 0;
}

float kind_huge(struct rng *r)
{
    return 1e30f * rng_normal(r);
}

float (*const finite_kinds[N_FINITE_KINDS])(struct rng *r) = {kind_normal, kind_heavy_tailed, kind_sparse,
                                                              kind_constant, kind_zero};

float *make_vector(size_t n, float (*kind)(struct rng *r), uint64_t seed)
{
    float *v = malloc((n + 1) * sizeof *v);
    struct rng r;

    assert_non_null(v);
    rng_init(&r, seed, 1, 1);
    for (size_t i = 0; i < n; i++)
        v[i] = kind(&r);
    return v;
}
