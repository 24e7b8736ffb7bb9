/* Every kind of layer and every loss against PyTorch's numbers (tests/reference/layers), and against
 * differences of its own loss.
 *
 * The bound on a reference: PyTorch computed it in double, so the whole difference is our rounding in
 * float32. A sum of m products rounds to about sqrt(m) u of its largest terms, u = 2^-24 = 6e-8, each
 * layer adds its own, and no sum here has more than 100 terms: BOUND = 2e-6 of the largest value is some
 * three times that. For a gradient, "largest" is that of all gradients of a file: what batch_norm cancels
 * by subtracting the mean is the difference of numbers of that size. Where float32 itself loses digits (a
 * mean of 30 with a spread of 1, outputs of 50 under an exponential), PyTorch's float32 loses them too:
 * the file states how many, as "float32_error", and ours may lose AS_GOOD times as many. */
#include <dirent.h>
#include <math.h>

#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/lib/random_model.h"
#include "tests/unit/unit.h"

#define FOLDER "tests/reference/layers"

static const double BOUND = 2e-6, AS_GOOD = 4;

enum { FILES_MAX = 512, PATH_MAX_LEN = 512, RANDOM_NETS = 24, CHECKED_PER_TENSOR = 32 };

/* A net with a batch and its labels or targets. */
struct problem {
    char name[128];
    struct model_spec spec;
    struct net *net;
    struct net_batch batch;
};

static int n_wrong; /* failures of the current test; each is printed */

#define wrong(...) (n_wrong++, print_error(__VA_ARGS__))

static void problem_clear(struct problem *p)
{
    net_free(p->net);
    model_spec_clear(&p->spec);
    free((void *)(uintptr_t)p->batch.x);
    free((void *)(uintptr_t)p->batch.truth.labels);
    free((void *)(uintptr_t)p->batch.truth.targets);
    *p = (struct problem){0};
}

/* Fills spec and net; the caller provides the batch of n samples. The net has room for more samples than
 * that. */
static void problem_init(struct problem *p, const char *name, const char *document, int n)
{
    json_t *doc;
    struct err e;

    *p = (struct problem){.batch.n = n};
    snprintf(p->name, sizeof p->name, "%s", name);
    if (json_parse(&doc, document, strlen(document), name, &e) < 0 ||
        model_spec_parse(&p->spec, doc, &e) < 0 || net_new(&p->net, &p->spec, n + 2, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    json_decref(doc);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The paths of all reference files, sorted. */
static size_t reference_files(char (*paths)[PATH_MAX_LEN])
{
    DIR *d = opendir(FOLDER);
    struct dirent *f;
    size_t n = 0;

    if (!d)
        fail_msg("%s is not here: tests run from the root of the checkout", FOLDER);
    while ((f = readdir(d)))
        if (strstr(f->d_name, ".safetensors")) {
            assert_true(n < FILES_MAX);
            snprintf(paths[n++], PATH_MAX_LEN, "%s/%s", FOLDER, f->d_name);
        }
    closedir(d);
    qsort(paths, n, sizeof *paths, by_name);
    assert_true(n > 0);
    return n;
}

static const struct tensor_view *tensor_of(const struct problem *p, const struct tensor_file *f,
                                           const char *prefix, const char *name, size_t n)
{
    char full[TENSOR_NAME + 16];
    const struct tensor_view *t;

    snprintf(full, sizeof full, "%s%s", prefix, name);
    t = tensor_file_find(f, full);
    if (!t || tensor_count(t) != n)
        fail_msg("%s: \"%s\" %s", p->name, full, t ? "has another size" : "is missing");
    return t;
}

/* The problem of an open reference file, with its parameters. */
static void reference_problem(struct problem *p, const struct tensor_file *f, const char *path)
{
    const struct tensor_view *x = tensor_file_find(f, "x");
    const struct tensor_view *labels = tensor_file_find(f, "labels");
    const struct tensor_view *targets = tensor_file_find(f, "targets");
    const struct tensor_view *t;

    assert_true(x && (labels || targets) && tensor_file_meta(f, "model"));
    problem_init(p, strrchr(path, '/') + 1, tensor_file_meta(f, "model"), (int)x->shape[0]);
    assert_int_equal(tensor_count(x), p->batch.n * p->spec.n_in);
    p->batch.x = unit_copy(x->data, tensor_count(x) * sizeof(float));
    if (labels)
        p->batch.truth.labels = unit_copy(labels->data, tensor_count(labels) * sizeof(int32_t));
    else
        p->batch.truth.targets = unit_copy(targets->data, tensor_count(targets) * sizeof(float));
    for (size_t i = 0, n = net_tensors(p->net, &t); i < n; i++)
        memcpy((void *)(uintptr_t)t[i].data, tensor_of(p, f, "param/", t[i].name, tensor_count(&t[i]))->data,
               tensor_count(&t[i]) * sizeof(float));
}

static double largest(const float *v, size_t n)
{
    double top = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, fabs((double)v[i]));
    return top;
}

/* Checks that each value of `ours` is within `allowed` of `theirs`. Prints where they are furthest apart. */
static void compare(const struct problem *p, const char *what, const float *ours, const float *theirs,
                    size_t n, double allowed)
{
    size_t worst = 0;

    for (size_t i = 0; i < n && !isnan(ours[worst]); i++)
        if (!(fabs((double)ours[i] - (double)theirs[i]) <= fabs((double)ours[worst] - (double)theirs[worst])))
            worst = i;
    if (!(fabs((double)ours[worst] - (double)theirs[worst]) <= allowed))
        wrong("%s: %s[%zu] is %.9g, expected %.9g within %.2g\n", p->name, what, worst, (double)ours[worst],
              (double)theirs[worst], allowed);
}

/* Running statistics are compared after a step, everything else as a gradient. */
static void compare_gradients(const struct problem *p, const struct tensor_file *f, double bound)
{
    const float *grads = net_grads(p->net);
    const struct tensor_view *t, *theirs;
    size_t n = net_tensors(p->net, &t);
    double top = 0;

    for (size_t i = 0; i < f->n; i++)
        if (strncmp(f->tensors[i].name, "grad/", 5) == 0)
            top = fmax(top, largest(f->tensors[i].data, tensor_count(&f->tensors[i])));
    for (size_t i = 0; i < n; i++) {
        const float *w = t[i].data;
        size_t at = (size_t)(w - net_params(p->net)), m = tensor_count(&t[i]);

        if (at < net_n_trained(p->net)) {
            theirs = tensor_of(p, f, "grad/", t[i].name, m);
            compare(p, theirs->name, grads + at, theirs->data, m, bound * top);
        } else {
            theirs = tensor_of(p, f, "state/", t[i].name, m);
            compare(p, theirs->name, w, theirs->data, m, bound * fmax(1, largest(theirs->data, m)));
        }
    }
}

static void check_reference(struct problem *p, const struct tensor_file *f)
{
    size_t n_z = (size_t)(p->batch.n * p->spec.n_out);
    const float *theirs = tensor_of(p, f, "", "z", n_z)->data;
    const char *loss = tensor_file_meta(f, "loss");
    const char *theirs_off = tensor_file_meta(f, "float32_error");
    double bound = fmax(BOUND, theirs_off ? AS_GOOD * atof(theirs_off) : 0);
    size_t n_trained = net_n_trained(p->net);
    struct net_score s = {0};

    assert_non_null(loss);
    compare(p, "z", net_forward(p->net, p->batch.x, p->batch.n), theirs, n_z, bound * largest(theirs, n_z));
    for (size_t i = 0; i < net_n_params(p->net); i++)
        net_grads(p->net)[i] = NAN; /* they must be overwritten */
    net_train(p->net, &p->batch, &s);
    statistics_step(net_params(p->net) + n_trained, net_grads(p->net) + n_trained, net_momentum(p->net),
                    net_n_params(p->net) - n_trained);
    if (!(fabs(s.loss / (double)s.n - atof(loss)) <= bound * fmax(1, fabs(atof(loss)))))
        wrong("%s: the loss is %.9g, PyTorch has %s\n", p->name, s.loss / (double)s.n, loss);
    compare_gradients(p, f, bound);
}

static double mean_loss(struct problem *p)
{
    struct net_score s = {0};

    net_train(p->net, &p->batch, &s);
    return s.loss / (double)s.n;
}

/* The loss near a parameter's value; `here` is the loss at it. */
struct differences {
    double slope; /* of the line through both neighbors */
    double bend;  /* difference of the slopes above and below */
};

static struct differences differences(struct problem *p, float *w, float h, double here)
{
    const float old = *w;
    double up, down;

    *w = old + h;
    up = mean_loss(p);
    *w = old - h;
    down = mean_loss(p);
    *w = old;
    return (struct differences){(up - down) / (2 * (double)h), (up - 2 * here + down) / (double)h};
}

/* A gradient and its numeric counterpart, over all parameters examined. */
struct agreement {
    double off, size; /* squares */
    size_t n, n_rough;
};

/* Central differences over 2h and h, extrapolated (Richardson), so that the remaining error is the loss's
 * rounding over h: about 1e-7 / 2^-6 = 6e-6 in a gradient of about 0.1. A smooth function has the same
 * slope over both and twice the curvature over 2h; otherwise there is a kink in between (relu, max_pool) or
 * the function is too steep for this h (a norm of nearly equal values), and the differences are
 * meaningless. */
static void look_at(struct agreement *a, struct problem *p, float *w, double exact, double here,
                    double smooth)
{
    const float h = 0x1p-6f;
    struct differences wide = differences(p, w, 2 * h, here), narrow = differences(p, w, h, here);
    double numeric = (4 * narrow.slope - wide.slope) / 3;

    a->n++;
    if (fabs(wide.slope - narrow.slope) > smooth || fabs(wide.bend - 2 * narrow.bend) > smooth) {
        a->n_rough++;
        return;
    }
    a->off += (numeric - exact) * (numeric - exact);
    a->size += exact * exact;
}

/* In training mode, where the same seed drops the same values. */
static void check_gradient(struct problem *p)
{
    const struct tensor_view *t;
    size_t n_tensors = net_tensors(p->net, &t);
    double here = mean_loss(p), smooth;
    float *exact = unit_copy(net_grads(p->net), net_n_params(p->net) * sizeof *exact);
    struct agreement a = {0};
    struct rng r;

    rng_init(&r, 11, 0, 0);
    smooth = 1e-3 * largest(exact, net_n_trained(p->net)) + 5e-5 * fmax(1, here);
    for (size_t i = 0; i < n_tensors; i++) {
        size_t first = (size_t)((const float *)t[i].data - net_params(p->net)), m = tensor_count(&t[i]);

        for (size_t k = 0; first < net_n_trained(p->net) && k < m && k < CHECKED_PER_TENSOR; k++) {
            size_t at = first + (m <= CHECKED_PER_TENSOR ? k : rng_below(&r, (uint32_t)m));

            look_at(&a, p, &net_params(p->net)[at], (double)exact[at], here, smooth);
        }
    }
    if (!(sqrt(a.off) <= 2e-3 * sqrt(a.size) + 2e-5 * sqrt((double)a.n)))
        wrong("%s: the gradient is %.3g of its size away from differences of the loss\n", p->name,
              sqrt(a.off / a.size));
    if (a.n_rough > a.n / 3)
        wrong("%s: %zu of %zu parameters have no smooth loss around them: the check is weak\n", p->name,
              a.n_rough, a.n);
    free(exact);
}

static void fill_params(struct problem *p, struct rng *r)
{
    for (size_t i = 0; i < net_n_params(p->net); i++)
        net_params(p->net)[i] = i < net_n_trained(p->net) ? 0.6f * rng_normal(r) : 0.5f + rng_uniform(r);
}

/* Values, or tokens with padding after some of them; labels, or targets half of the time if the loss
 * accepts them. */
static void fill_batch(struct problem *p, struct rng *r)
{
    int n = p->batch.n, n_in = p->spec.n_in, vocab = model_spec_vocab(&p->spec);
    int n_labels = n * model_spec_labels(&p->spec), k = model_spec_classes(&p->spec);
    float *x = calloc((size_t)(n * n_in), sizeof *x), *targets = calloc((size_t)(n * k), sizeof *targets);
    int32_t *labels = calloc((size_t)n_labels, sizeof *labels);

    assert_true(x && targets && labels);
    for (int i = 0; i < n; i++) {
        for (int j = 0, used = vocab ? 1 + (int)rng_below(r, (uint32_t)n_in) : n_in; j < used; j++)
            x[i * n_in + j] = vocab ? (float)rng_below(r, (uint32_t)vocab) : rng_normal(r);
    }
    for (int i = 0; i < n_labels; i++)
        labels[i] = (int32_t)rng_below(r, k == 1 && !loss_kind_needs_labels(p->spec.loss) ? 2 : (uint32_t)k);
    for (int i = 0; i < n * k; i++)
        targets[i] = rng_uniform(r);
    p->batch.x = x;
    if (loss_kind_needs_labels(p->spec.loss) || rng_below(r, 2)) {
        p->batch.truth.labels = labels;
        free(targets);
    } else {
        p->batch.truth.targets = targets;
        free(labels);
    }
    p->batch.seed = rng_u64(r);
}

static void random_problem(struct problem *p, enum layer_kind kind, uint64_t number)
{
    char document[RANDOM_MODEL_LEN], name[64];
    struct rng r;

    rng_init(&r, 7, (uint64_t)kind, number);
    random_model(document, sizeof document, kind, &r);
    snprintf(name, sizeof name, "random %s %d", layer_kind_name(kind), (int)number);
    /* The mean and spread of a few samples are steep functions. */
    problem_init(p, name, document,
                 kind == LAYER_BATCH_NORM ? 6 + (int)rng_below(&r, 4) : 1 + (int)rng_below(&r, 5));
    fill_params(p, &r);
    fill_batch(p, &r);
}

static char paths[FILES_MAX][PATH_MAX_LEN];

static void for_each_file(void (*check)(struct problem *p, const struct tensor_file *f))
{
    size_t n = reference_files(paths);

    n_wrong = 0;
    for (size_t i = 0; i < n; i++) {
        struct tensor_file f;
        struct problem p;
        struct err e;

        assert_ok(tensor_file_open(&f, paths[i], &e));
        reference_problem(&p, &f, paths[i]);
        check(&p, &f);
        problem_clear(&p);
        tensor_file_close(&f);
    }
    assert_int_equal(n_wrong, 0);
}

TEST(outputs_losses_gradients_and_statistics_match_pytorch)
{
    for_each_file(check_reference);
}

static void check_gradient_of(struct problem *p, const struct tensor_file *f)
{
    (void)f;
    check_gradient(p);
}

TEST(gradients_of_the_reference_networks_match_differences_of_the_loss)
{
    for_each_file(check_gradient_of);
}

static void for_each_random_net(void (*check)(struct problem *p))
{
    n_wrong = 0;
    for (int kind = 0; kind < N_LAYER_KINDS; kind++)
        for (uint64_t i = 0; i < RANDOM_NETS && random_model_knows((enum layer_kind)kind); i++) {
            struct problem p;

            random_problem(&p, (enum layer_kind)kind, i);
            check(&p);
            problem_clear(&p);
        }
    assert_int_equal(n_wrong, 0);
}

TEST(gradients_of_random_networks_match_differences_of_the_loss)
{
    for_each_random_net(check_gradient);
}

static int files_with[N_LAYER_KINDS], files_of_loss[N_LOSS_KINDS];

static void count_kinds(struct problem *p, const struct tensor_file *f)
{
    (void)f;
    for (int i = 0; i < p->spec.n_layers; i++)
        files_with[p->spec.layers[i].kind]++;
    files_of_loss[p->spec.loss]++;
}

TEST(every_kind_of_layer_and_loss_has_references_and_random_networks)
{
    for_each_file(count_kinds);
    for (int i = 0; i < N_LAYER_KINDS; i++)
        if (!files_with[i] || !random_model_knows((enum layer_kind)i))
            wrong("layer \"%s\" has no %s\n", layer_kind_name((enum layer_kind)i),
                  files_with[i] ? "line in tests/lib/random_model.c" : "case in tests/reference/layers.py");
    for (int i = 0; i < N_LOSS_KINDS; i++)
        if (!files_of_loss[i])
            wrong("loss \"%s\" has no case in tests/reference/layers.py\n",
                  loss_kind_name((enum loss_kind)i));
    assert_int_equal(n_wrong, 0);
}

/* The last sample of the batch, alone. */
static void check_alone(struct problem *p)
{
    size_t k = (size_t)p->spec.n_out, last = (size_t)p->batch.n - 1;
    float *all = unit_copy(net_forward(p->net, p->batch.x, p->batch.n) + last * k, k * sizeof *all);

    compare(p, "z", net_forward(p->net, p->batch.x + last * (size_t)p->spec.n_in, 1), all, k,
            BOUND * fmax(1, largest(all, k)));
    free(all);
}

TEST(in_evaluation_a_sample_does_not_depend_on_its_batch)
{
    for_each_random_net(check_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_losses_gradients_and_statistics_match_pytorch),
        cmocka_unit_test(gradients_of_the_reference_networks_match_differences_of_the_loss),
        cmocka_unit_test(gradients_of_random_networks_match_differences_of_the_loss),
        cmocka_unit_test(every_kind_of_layer_and_loss_has_references_and_random_networks),
        cmocka_unit_test(in_evaluation_a_sample_does_not_depend_on_its_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
