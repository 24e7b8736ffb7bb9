/* conv_onednn -- convolution by oneDNN. One sample per call: its images stay in the second-level cache,
 * channels last is then as fast as oneDNN's blocked layouts (a whole batch at a time is a third slower), and
 * a batch may have any size. Only the weights are converted, once per pass, to the layout that oneDNN chose
 * for this processor. */
#include "nn/layers/conv.h"

#ifdef PSGD_ONEDNN

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/kernels/onednn.h"
#include "nn/kernels/onednn_api.h"
#include "shared/base/compiler.h"

enum conv_task { FORWARD, D_INPUT, D_WEIGHT, TO_FORWARD, TO_D_INPUT, FROM_D_WEIGHT, N_TASKS };

enum memory {
    X,
    Y, /* or dy */
    DX,
    BIAS,
    WEIGHT,    /* in psgd's layout: rows, cols, c, filters; or its gradient */
    W_FORWARD, /* the same in oneDNN's layout */
    W_D_INPUT,
    DW,     /* of one sample */
    DW_SUM, /* of the samples so far */
    N_MEMORIES
};

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t tasks[N_TASKS];
    dnnl_memory_t memories[N_MEMORIES];
    size_t n_dw;     /* floats of DW */
    sigset_t before; /* signal mask before this pass */
    bool failed;     /* in this pass */
};

/* Descriptors, before memory is allocated. */
struct conv_plan {
    struct onednn_conv conv; /* oneDNN chooses the layout of its weights */
    onednn_layout weight;    /* in psgd's layout */
    dnnl_primitive_desc_t forward, d_input, d_weight;
};

static dnnl_status_t plan_shapes(struct conv_plan *p, const struct layer_spec *s)
{
    const struct window_spec *w = &s->window;
    const dnnl_dims_t x = {1, s->in.dim[2], s->in.dim[0], s->in.dim[1]};
    const dnnl_dims_t y = {1, s->out.dim[2], s->out.dim[0], s->out.dim[1]};
    const dnnl_dims_t weight = {s->out.dim[2], s->in.dim[2], w->rows, w->cols};
    const dnnl_dims_t bias = {s->out.dim[2]};
    struct onednn_conv *c = &p->conv;
    dnnl_status_t bad = onednn_layout_new(&c->x, 4, x, dnnl_nhwc);

    bad = bad ? bad : onednn_layout_new(&c->y, 4, y, dnnl_nhwc);
    bad = bad ? bad : onednn_layout_new(&c->weight, 4, weight, dnnl_format_tag_any);
    bad = bad ? bad : onednn_layout_new(&c->bias, 1, bias, dnnl_a);
    bad = bad ? bad : onednn_layout_new(&p->weight, 4, weight, dnnl_hwio);
    c->strides[0] = w->row_stride;
    c->strides[1] = w->col_stride;
    c->before[0] = w->top;
    c->before[1] = w->left;
    for (int i = 0; i < 2; i++) { /* the last window may also end before the image */
        dnnl_dim_t missing = (y[2 + i] - 1) * c->strides[i] + weight[2 + i] - x[2 + i] - c->before[i];

        c->after[i] = missing > 0 ? missing : 0;
    }
    return bad;
}

/* Excludes naive loops ("ref") and the method of conv_columns ("gemm"). For small images "brg" takes up to
 * 2.5 times as long as "jit", which follows it in oneDNN's list, and version 3.7.2 computes a wrong y with
 * it: for one column of one channel, with a column stride above 1. For 1 x 1 windows "brg" is correct and
 * up to a tenth faster. */
static bool wants(const char *name)
{
    bool is_brg = strstr(name, "brg") && strncmp(name, "brgconv_1x1", 11) != 0;

    return !is_brg && !strstr(name, "ref") && !strstr(name, "gemm");
}

/* For dW of 1 x 1 windows with a stride above 1, with fewer channels than a vector has floats, versions
 * 2.6.3 and 3.7.2 write beyond their memory (uxlfoundation/oneDNN#6035, open in 3.12). */
static bool is_unsafe(const struct layer_spec *s)
{
    const struct window_spec *w = &s->window;

    return w->rows == 1 && w->cols == 1 && (w->row_stride > 1 || w->col_stride > 1) && s->in.dim[2] < 16;
}

static dnnl_status_t plan_tasks(struct conv_plan *p, dnnl_engine_t engine)
{
    dnnl_status_t bad = onednn_plan_forward(&p->forward, engine, &p->conv);

    bad = bad ? bad : onednn_plan_d_input(&p->d_input, engine, &p->conv, p->forward);
    return bad ? bad : onednn_plan_d_weight(&p->d_weight, engine, &p->conv, p->forward);
}

static void plan_clear(struct conv_plan *p)
{
    dnnl_primitive_desc_destroy(p->forward);
    dnnl_primitive_desc_destroy(p->d_input);
    dnnl_primitive_desc_destroy(p->d_weight);
    onednn_layout_free(p->conv.x);
    onednn_layout_free(p->conv.y);
    onednn_layout_free(p->conv.weight);
    onednn_layout_free(p->conv.bias);
    onednn_layout_free(p->weight);
}

/* The layout of the weights, or of their gradient, for a task. */
static const_onednn_layout layout(const struct conv_plan *p, enum conv_task task)
{
    if (task == D_WEIGHT)
        return dnnl_primitive_desc_query_md(p->d_weight, dnnl_query_diff_weights_md, 0);
    return dnnl_primitive_desc_query_md(task == FORWARD ? p->forward : p->d_input, dnnl_query_weights_md, 0);
}

static dnnl_status_t make_memories(struct onednn *o, const struct conv_plan *p)
{
    const struct {
        enum memory which;
        const_onednn_layout layout;
        void *at; /* allocated by oneDNN, or the caller's, set before each use */
    } list[] = {
        {X, p->conv.x, DNNL_MEMORY_NONE},
        {Y, p->conv.y, DNNL_MEMORY_NONE},
        {DX, p->conv.x, DNNL_MEMORY_NONE},
        {BIAS, p->conv.bias, DNNL_MEMORY_NONE},
        {WEIGHT, p->weight, DNNL_MEMORY_NONE},
        {W_FORWARD, layout(p, FORWARD), DNNL_MEMORY_ALLOCATE},
        {W_D_INPUT, layout(p, D_INPUT), DNNL_MEMORY_ALLOCATE},
        {DW, layout(p, D_WEIGHT), DNNL_MEMORY_ALLOCATE},
        {DW_SUM, layout(p, D_WEIGHT), DNNL_MEMORY_ALLOCATE},
    };
    dnnl_status_t bad = dnnl_success;
    sigset_t before;

    onednn_block_signals(&before); /* oneDNN 2.0 starts its threads here, to clear the memory it allocates */
    for (size_t i = 0; i < N_MEMORIES && !bad; i++)
        bad = dnnl_memory_create(&o->memories[list[i].which], list[i].layout, o->engine, list[i].at);
    onednn_restore_signals(&before);
    o->n_dw = dnnl_memory_desc_get_size(layout(p, D_WEIGHT)) / sizeof(float);
    return bad;
}

static dnnl_status_t make_reorder(struct onednn *o, enum conv_task task, const_onednn_layout from,
                                  const_onednn_layout to)
{
    dnnl_primitive_desc_t d;
    dnnl_status_t bad = dnnl_reorder_primitive_desc_create(&d, from, o->engine, to, o->engine, NULL);

    if (bad)
        return bad;
    bad = dnnl_primitive_create(&o->tasks[task], d);
    dnnl_primitive_desc_destroy(d);
    return bad;
}

static dnnl_status_t make_tasks(struct onednn *o, const struct conv_plan *p)
{
    dnnl_status_t bad = dnnl_primitive_create(&o->tasks[FORWARD], p->forward);

    bad = bad ? bad : dnnl_primitive_create(&o->tasks[D_INPUT], p->d_input);
    bad = bad ? bad : dnnl_primitive_create(&o->tasks[D_WEIGHT], p->d_weight);
    bad = bad ? bad : make_reorder(o, TO_FORWARD, p->weight, layout(p, FORWARD));
    bad = bad ? bad : make_reorder(o, TO_D_INPUT, p->weight, layout(p, D_INPUT));
    bad = bad ? bad : make_reorder(o, FROM_D_WEIGHT, layout(p, D_WEIGHT), p->weight);
    return bad ? bad : make_memories(o, p);
}

int conv_onednn_open(struct layer *l, struct err *e)
{
    struct onednn *o;
    struct conv_plan p = {.conv.wants = wants};
    dnnl_status_t bad;

    if (is_unsafe(l->spec))
        return 0;
    o = calloc(1, sizeof *o);
    if (!o)
        return err_set(e, ERR_NOMEM, "no memory for a convolution");
    l->own = o;
    bad = dnnl_engine_create(&o->engine, dnnl_cpu, 0);
    bad = bad ? bad : dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags);
    bad = bad ? bad : plan_shapes(&p, l->spec);
    bad = bad ? bad : plan_tasks(&p, o->engine);
    bad = bad ? bad : make_tasks(o, &p);
    plan_clear(&p);
    if (bad)
        conv_onednn_close(l);
    if (bad == dnnl_out_of_memory)
        return err_set(e, ERR_NOMEM, "no memory for oneDNN's convolution");
    return 0; /* shapes that oneDNN does not support go to conv_columns */
}

void conv_onednn_close(struct layer *l)
{
    struct onednn *o = l->own;

    if (!o)
        return;
    for (int i = 0; i < N_TASKS; i++)
        dnnl_primitive_destroy(o->tasks[i]);
    for (int i = 0; i < N_MEMORIES; i++)
        dnnl_memory_destroy(o->memories[i]);
    dnnl_stream_destroy(o->stream);
    dnnl_engine_destroy(o->engine);
    free(o);
    l->own = NULL;
}

/* oneDNN's handles are not const; it does not write to its inputs. */
static void place_memory(struct onednn *o, enum memory which, const float *at)
{
    if (dnnl_memory_set_data_handle(o->memories[which], (void *)at) != dnnl_success)
        o->failed = true;
}

static void run_primitive(struct onednn *o, enum conv_task task, int n_args, const dnnl_exec_arg_t *args)
{
    if (dnnl_primitive_execute(o->tasks[task], o->stream, n_args, args) != dnnl_success)
        o->failed = true;
}

static void reorder(struct onednn *o, enum conv_task task, enum memory from, enum memory to)
{
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, o->memories[from]}, {DNNL_ARG_TO, o->memories[to]}};

    run_primitive(o, task, 2, args);
}

/* Ends a pass and releases the signals blocked at its beginning. A pass returns no error: after a failure
 * its results are NaN, at which a job ends. */
static void finish_conv(struct onednn *o, float *result, size_t n)
{
    if (dnnl_stream_wait(o->stream) != dnnl_success)
        o->failed = true;
    for (size_t i = 0; o->failed && i < n; i++)
        result[i] = NAN;
    o->failed = false;
    onednn_restore_signals(&o->before);
}

/* Prefetches a sample's images: oneDNN's strides in them are too wide for the processor's prefetcher. */
static void fetch_cache_lines(const float *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64 / sizeof *p)
        __builtin_prefetch(p + i, 0, 2);
}

static void conv_onednn_forward(const struct layer *l, const float *x, int n)
{
    struct onednn *o = l->own;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, o->memories[X]},
                                    {DNNL_ARG_WEIGHTS, o->memories[W_FORWARD]},
                                    {DNNL_ARG_BIAS, o->memories[BIAS]},
                                    {DNNL_ARG_DST, o->memories[Y]}};

    onednn_block_signals(&o->before);
    place_memory(o, WEIGHT, l->params[CONV_WEIGHT]);
    place_memory(o, BIAS, l->params[CONV_BIAS]);
    reorder(o, TO_FORWARD, WEIGHT, W_FORWARD);
    for (int i = 0; i < n; i++) {
        place_memory(o, X, x + (size_t)i * (size_t)l->spec->n_in);
        place_memory(o, Y, l->y + (size_t)i * (size_t)l->spec->n_out);
        fetch_cache_lines(x + (size_t)i * (size_t)l->spec->n_in, (size_t)l->spec->n_in);
        run_primitive(o, FORWARD, 4, args);
    }
    finish_conv(o, l->y, (size_t)n * (size_t)l->spec->n_out);
}

static float *values(const struct onednn *o, enum memory which)
{
    void *at = NULL;

    dnnl_memory_get_data_handle(o->memories[which], &at);
    return at;
}

FAST static void add(float *restrict sum, const float *restrict v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += v[i];
}

/* oneDNN overwrites gradients, so the first sample's is the initial sum. The bias is summed here, because
 * oneDNN's code for it is slow. */
static void weight_gradient(const struct layer *l, const float *x, const float *dy, int n)
{
    struct onednn *o = l->own;
    size_t filters = (size_t)l->spec->out.dim[2];
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, o->memories[X]},
                              {DNNL_ARG_DIFF_DST, o->memories[Y]},
                              {DNNL_ARG_DIFF_WEIGHTS, o->memories[DW_SUM]}};

    onednn_block_signals(&o->before);
    memset(l->grads[CONV_BIAS], 0, filters * sizeof(float));
    for (int i = 0; i < n; i++) {
        const float *d = dy + (size_t)i * (size_t)l->spec->n_out;

        place_memory(o, X, x + (size_t)i * (size_t)l->spec->n_in);
        place_memory(o, Y, d);
        run_primitive(o, D_WEIGHT, 3, args);
        if (i > 0)
            add(values(o, DW_SUM), values(o, DW), o->n_dw);
        matmul_add_rows(l->grads[CONV_BIAS], d, (size_t)l->spec->n_out / filters, filters);
        args[2].memory = o->memories[DW];
    }
    place_memory(o, WEIGHT, l->grads[CONV_WEIGHT]);
    reorder(o, FROM_D_WEIGHT, DW_SUM, WEIGHT);
    finish_conv(o, l->grads[CONV_WEIGHT], tensor_spec_count(&l->spec->tensors[CONV_WEIGHT]));
}

static void input_gradient(const struct layer *l, const float *dy, float *dx, int n)
{
    struct onednn *o = l->own;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_DIFF_DST, o->memories[Y]},
                                    {DNNL_ARG_WEIGHTS, o->memories[W_D_INPUT]},
                                    {DNNL_ARG_DIFF_SRC, o->memories[DX]}};

    onednn_block_signals(&o->before);
    place_memory(o, WEIGHT, l->params[CONV_WEIGHT]);
    reorder(o, TO_D_INPUT, WEIGHT, W_D_INPUT);
    for (int i = 0; i < n; i++) {
        place_memory(o, Y, dy + (size_t)i * (size_t)l->spec->n_out);
        place_memory(o, DX, dx + (size_t)i * (size_t)l->spec->n_in);
        fetch_cache_lines(dx + (size_t)i * (size_t)l->spec->n_in, (size_t)l->spec->n_in);
        fetch_cache_lines(dy + (size_t)i * (size_t)l->spec->n_out, (size_t)l->spec->n_out);
        run_primitive(o, D_INPUT, 3, args);
    }
    finish_conv(o, dx, (size_t)n * (size_t)l->spec->n_in);
}

const struct conv_path conv_onednn = {
    .forward = conv_onednn_forward, .weight_gradient = weight_gradient, .input_gradient = input_gradient};

#else

const struct conv_path conv_onednn = {0};

int conv_onednn_open(struct layer *l, struct err *e)
{
    (void)l, (void)e;
    return 0;
}

void conv_onednn_close(struct layer *l)
{
    (void)l;
}

#endif
