/* optimizer -- params <- params - update(grads), one pass over flat vectors. shared/job/optimizer_kind.h has
 * the formula and the source of each kind. */
#ifndef PSGD_OPTIMIZER_H
#define PSGD_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/optimizer_kind.h"
#include "shared/records/tensor_file.h"

enum { OPTIMIZER_TENSORS = 3 };

struct optimizer;

struct optimizer_part { /* a tensor or several, or what a server has of one */
    size_t n;           /* values */
    bool decays;        /* has the weight decay */
    size_t rows, cols;  /* muon: the part is one matrix, which it updates; 0: adamw does */
};

struct optimizer_config {
    enum optimizer_kind kind;
    float momentum; /* of the kinds that have one */
    float weight_decay;
    bool has_parameters; /* the next four are given; else they are the kind's own */
    double beta1, beta2, epsilon;
    double adamw_share; /* muon: the rate of adamw, divided by lr */
    /* (n_parts): all parameters in the order of their vector. 0: one part, which decays. */
    const struct optimizer_part *parts;
    size_t n_parts;
};

/* Copies the parts. ERR_NOMEM. */
int optimizer_new(struct optimizer **out, const struct optimizer_config *cfg, size_t n_params, struct err *e);
void optimizer_free(struct optimizer *o);

/* One step with `scale` times the gradient (n_params). Returns gradient_norm(grads, n_params), to the bit,
 * in less time than a separate pass; if it is not finite, the parameters may not be either. */
double optimizer_step(struct optimizer *o, float *params, const float *grads, float lr, float scale);

/* Returns the bytes of its vectors, and of muon's products. */
double optimizer_bytes(const struct optimizer *o);

/* For checkpoints: the state is these vectors, with names like "adam.m", and the number of steps taken. They
 * have n_params values, "muon.v" those of the parts that adamw updates. Returns the number of vectors. The
 * views point to the optimizer's data; optimizer_vector() returns the i-th one for writing. */
size_t optimizer_tensors(const struct optimizer *o, struct tensor_view out[OPTIMIZER_TENSORS]);
float *optimizer_vector(struct optimizer *o, size_t i);
uint64_t optimizer_steps(const struct optimizer *o);
void optimizer_set_steps(struct optimizer *o, uint64_t steps);

/* The Euclidean norm of a gradient or of any vector, with a relative error below 1e-5; not finite if a
 * value is not. */
double gradient_norm(const float *grads, size_t n);
/* The scale that clips a gradient of that norm to at most `limit`, as torch.nn.utils.clip_grad_norm_: limit
 * / (norm + 1e-6), never above 1. limit 0: 1. (Pascanu et al. 2013, Algorithm 1) */
float gradient_clip(double norm, double limit);
bool gradient_is_finite(const float *grads, size_t n);

/* The step of n running statistics (net.h), which no optimizer updates, towards those of a batch, or the mean
 * of several: params -= momentum (params - batch). */
void statistics_step(float *params, const float *batch, const float *momentum, size_t n);

#endif
