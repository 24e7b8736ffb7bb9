/* onednn_api -- one interface for the parts that differ between oneDNN 2 and oneDNN 3. No other file
 * depends on the version; the other oneDNN functions that psgd uses have the same names in both.
 *
 * A layout is oneDNN's memory descriptor: where in memory each value of an array is. It is a struct in
 * version 2 and an object allocated by oneDNN in version 3. Here it is a pointer, NULL before
 * onednn_layout_new(), freed by the caller; a const_onednn_layout is not owned. */
#ifndef PSGD_ONEDNN_API_H
#define PSGD_ONEDNN_API_H

#include <dnnl.h>
#include <stdbool.h>

#if DNNL_VERSION_MAJOR == 2

#include <stdlib.h>

typedef dnnl_memory_desc_t *onednn_layout;
typedef const dnnl_memory_desc_t *const_onednn_layout;

#elif DNNL_VERSION_MAJOR == 3

typedef dnnl_memory_desc_t onednn_layout;
typedef const_dnnl_memory_desc_t const_onednn_layout;

#else
#error "psgd supports oneDNN 2 and oneDNN 3; make ONEDNN= builds without oneDNN"
#endif

/* A convolution of float32 arrays. */
struct onednn_conv {
    onednn_layout x, y;                 /* dx and dy have the same layouts */
    onednn_layout weight;               /* and its gradient; dnnl_format_tag_any: oneDNN chooses */
    onednn_layout bias;                 /* of the forward pass */
    dnnl_dims_t strides, before, after; /* strides of the window; padding of the image */
    bool (*wants)(const char *name);    /* whether to use this implementation of oneDNN's */
};

/* *out: the layout of an array of float32; NULL on failure. */
static inline dnnl_status_t onednn_layout_new(onednn_layout *out, int n_dims, const dnnl_dims_t dims,
                                              dnnl_format_tag_t tag);
static inline void onednn_layout_free(onednn_layout l);

/* *out: one pass, by oneDNN's first implementation for which c->wants() is true. An error other than
 * dnnl_out_of_memory: there is none. The caller destroys *out, also after an error. `forward` is the
 * forward pass, of any implementation. */
static inline dnnl_status_t onednn_plan_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c);
static inline dnnl_status_t onednn_plan_d_input(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c, dnnl_primitive_desc_t forward);
static inline dnnl_status_t onednn_plan_d_weight(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                 const struct onednn_conv *c, dnnl_primitive_desc_t forward);

static inline bool onednn_is_wanted(const struct onednn_conv *c, dnnl_primitive_desc_t d)
{
    const char *name = NULL;

    return dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, &name) == dnnl_success && c->wants(name);
}

#if DNNL_VERSION_MAJOR == 2

static inline dnnl_status_t onednn_layout_new(onednn_layout *out, int n_dims, const dnnl_dims_t dims,
                                              dnnl_format_tag_t tag)
{
    dnnl_status_t bad;

    *out = calloc(1, sizeof **out);
    if (!*out)
        return dnnl_out_of_memory;
    bad = dnnl_memory_desc_init_by_tag(*out, n_dims, dims, dnnl_f32, tag);
    if (bad) {
        free(*out);
        *out = NULL;
    }
    return bad;
}

static inline void onednn_layout_free(onednn_layout l)
{
    free(l);
}

static inline dnnl_status_t onednn_first_wanted(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c, const_dnnl_op_desc_t operation,
                                                dnnl_primitive_desc_t forward)
{
    dnnl_primitive_desc_iterator_t each;
    dnnl_status_t bad = dnnl_primitive_desc_iterator_create(&each, operation, NULL, engine, forward);

    if (bad)
        return bad;
    for (; !bad; bad = dnnl_primitive_desc_iterator_next(each)) {
        *out = dnnl_primitive_desc_iterator_fetch(each);
        if (!*out || onednn_is_wanted(c, *out))
            break;
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    dnnl_primitive_desc_iterator_destroy(each);
    return bad ? bad : *out ? dnnl_success : dnnl_out_of_memory;
}

static inline dnnl_status_t onednn_plan_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t bad = dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct,
                                                           c->x, c->weight, c->bias, c->y, c->strides,
                                                           c->before, c->after);

    return bad ? bad : onednn_first_wanted(out, engine, c, &d, NULL);
}

static inline dnnl_status_t onednn_plan_d_input(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c, dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t bad = dnnl_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, c->x, c->weight,
                                                                 c->y, c->strides, c->before, c->after);

    return bad ? bad : onednn_first_wanted(out, engine, c, &d, forward);
}

static inline dnnl_status_t onednn_plan_d_weight(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                 const struct onednn_conv *c, dnnl_primitive_desc_t forward)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t bad = dnnl_convolution_backward_weights_desc_init(
        &d, dnnl_convolution_direct, c->x, c->weight, NULL, c->y, c->strides, c->before, c->after);

    return bad ? bad : onednn_first_wanted(out, engine, c, &d, forward);
}

#else

static inline dnnl_status_t onednn_layout_new(onednn_layout *out, int n_dims, const dnnl_dims_t dims,
                                              dnnl_format_tag_t tag)
{
    *out = NULL;
    return dnnl_memory_desc_create_with_tag(out, n_dims, dims, dnnl_f32, tag);
}

static inline void onednn_layout_free(onednn_layout l)
{
    if (l)
        dnnl_memory_desc_destroy(l);
}

static inline dnnl_status_t onednn_first_wanted(dnnl_primitive_desc_t d, dnnl_status_t bad,
                                                const struct onednn_conv *c)
{
    while (!bad && !onednn_is_wanted(c, d))
        bad = dnnl_primitive_desc_next_impl(d);
    return bad;
}

static inline dnnl_status_t onednn_plan_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c)
{
    dnnl_status_t bad = dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_training, dnnl_convolution_direct, c->x, c->weight, c->bias, c->y,
        c->strides, NULL, c->before, c->after, NULL);

    return onednn_first_wanted(*out, bad, c);
}

static inline dnnl_status_t onednn_plan_d_input(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const struct onednn_conv *c, dnnl_primitive_desc_t forward)
{
    dnnl_status_t bad = dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, dnnl_convolution_direct, c->x, c->weight, c->y, c->strides, NULL, c->before, c->after,
        forward, NULL);

    return onednn_first_wanted(*out, bad, c);
}

static inline dnnl_status_t onednn_plan_d_weight(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                 const struct onednn_conv *c, dnnl_primitive_desc_t forward)
{
    dnnl_status_t bad = dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, dnnl_convolution_direct, c->x, c->weight, NULL, c->y, c->strides, NULL, c->before,
        c->after, forward, NULL);

    return onednn_first_wanted(*out, bad, c);
}

#endif

#endif
