/* one_step -- the function `step` of most kinds of layer. */
#include "nn/layers/layer.h"

void layer_one_step(const struct layer *l, const float *x, int t)
{
    const int time = l->spec->in.dim[0];
    struct layer_spec spec = *l->spec;
    struct layer one = *l;

    spec.in.dim[0] = spec.out.dim[0] = 1;
    spec.n_in /= time;
    spec.n_out /= time;
    one.spec = &spec;
    one.y += (size_t)t * (size_t)spec.n_out;
    l->ops->forward(&one, x, &(struct pass){.n = 1});
}
