/* optimizer -- params <- params - update(grads), one pass over flat vectors. t counts steps from 1, lr is
 * the learning rate of this step, mu the momentum.
 *
 *   kind            update                                            source
 *   sgd             w -= lr g                                         Robbins and Monro 1951, eq. 6
 *   gradient_decay  w -= lr / sqrt(t) g                               Zinkevich 2003, Theorem 1
 *   momentum        m = mu m + g;  w -= lr m                          Polyak 1964, eq. 9; PyTorch's form
 *   nesterov        m = mu m + g;  w -= lr (g + mu m)                 Sutskever et al. 2013, eq. 3-4
 *   adam            m = .9 m + .1 g, v = .999 v + .001 g^2;           Kingma and Ba 2015, Algorithm 1
 *                   w -= lr m / (1 - .9^t) / (sqrt(v / (1 - .999^t)) + 1e-8)
 *   adamw           w -= lr d w, then adam, with g without d          Loshchilov and Hutter 2019, Algorithm 2
 *   adagrad         v = v + g^2;  w -= lr g / (sqrt(v) + 1e-7)        Duchi et al. 2011, Figure 1
 *   rmsprop         v = .9 v + .1 g^2;  w -= lr g / (sqrt(v) + 1e-7)  Tieleman and Hinton 2012, slide 29
 *   adadelta        v = .95 v + .05 g^2,                              Zeiler 2012, Algorithm 1
 *                   s = sqrt((u + 1e-6) / (v + 1e-6)) g, u = .95 u + .05 s^2;  w -= lr s
 *
 * Before that, g = scale grads + d w (adamw: without d w), d the weight decay. The formulas and the place
 * of epsilon are PyTorch's (torch.optim), with which the tests compare iterates. Differences from the
 * papers:
 *   - momentum: Polyak's lr is inside the sum, here it is outside: a changed lr applies to all of m at once.
 *   - nesterov: formulated at the point where the gradient is computed, as in PyTorch.
 *   - adamw: the decay is multiplied by lr, in the paper by the schedule alone.
 *   - adagrad: the diagonal form, epsilon outside the root; the paper's delta is added to the matrix root.
 *   - rmsprop: the slide has no epsilon.  - adadelta: the paper has no lr (1).
 *   - a moment below the least normal float becomes 0: after gradients vanish it would otherwise stay
 *     denormal, and arithmetic on denormal numbers is slow. */
#ifndef PSGD_OPTIMIZER_H
#define PSGD_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"
#include "shared/optimizer_kind.h"
#include "shared/tensor_file.h"

enum { OPTIMIZER_TENSORS = 2 };

struct optimizer;

struct optimizer_config {
    enum optimizer_kind kind; /* of the table above */
    float momentum;           /* of momentum and nesterov only */
    float weight_decay;
};

/* ERR_NOMEM. */
int optimizer_new(struct optimizer **out, const struct optimizer_config *cfg, size_t n_params, struct err *e);
void optimizer_free(struct optimizer *o);

/* One step with `scale` times the gradient (n_params). Returns gradient_norm(grads, n_params), to the bit,
 * in less time than a separate pass; if it is not finite, the parameters may not be either. */
double optimizer_step(struct optimizer *o, float *params, const float *grads, float lr, float scale);

/* For checkpoints: the state is these vectors, (n_params) each with names like "adam.m", and the number of
 * steps taken. Returns the number of vectors. The views point to the optimizer's data; optimizer_vector()
 * returns the i-th one for writing. */
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

/* The step of n running statistics (net.h), which no optimizer updates: params -= grads. */
void statistics_step(float *params, const float *grads, size_t n);

#endif
