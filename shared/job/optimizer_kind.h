/* optimizer_kind -- the optimizers that a job can choose: each is a line here, and its formula in
 * nn/optimizer.c. Learning rates are those of Parallel-SGD (adadelta: of its paper; lion, muon: of their
 * authors' programs), the weight decay of adamw is PyTorch's.
 *
 * params <- params - update(grads). t counts steps from 1, lr is the learning rate of this step, mu the
 * momentum, b1, b2 and eps are --beta1, --beta2 and --epsilon.
 *
 *   kind            update                                            source
 *   sgd             w -= lr g                                         Robbins and Monro 1951, eq. 6
 *   gradient_decay  w -= lr / sqrt(t) g                               Zinkevich 2003, Theorem 1
 *   momentum        m = mu m + g;  w -= lr m                          Polyak 1964, eq. 9; PyTorch's form
 *   nesterov        m = mu m + g;  w -= lr (g + mu m)                 Sutskever et al. 2013, eq. 3-4
 *   adam            m = b1 m + (1 - b1) g,                            Kingma and Ba 2015, Algorithm 1
 *                   v = b2 v + (1 - b2) g^2;
 *                   w -= lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
 *   adamw           w -= lr d w, then adam, with g without d          Loshchilov and Hutter 2019, Algorithm 2
 *   lion            w -= lr d w, then                                 Chen et al. 2023, Algorithm 2
 *                   w -= lr sign(b1 m + (1 - b1) g), m = b2 m + (1 - b2) g, with g without d
 *   adagrad         v = v + g^2;  w -= lr g / (sqrt(v) + 1e-7)        Duchi et al. 2011, Figure 1
 *   rmsprop         v = .9 v + .1 g^2;  w -= lr g / (sqrt(v) + 1e-7)  Tieleman and Hinton 2012, slide 29
 *   rmsprop_graves  a = .95 a + .05 g, v = .95 v + .05 g^2,           Graves 2013, eq. 38-45; platoon's
 *                   m = mu m + g / sqrt(v - a^2 + 1e-4);  w -= lr m
 *   adadelta        v = .95 v + .05 g^2,                              Zeiler 2012, Algorithm 1
 *                   s = sqrt((u + 1e-6) / (v + 1e-6)) g, u = .95 u + .05 s^2;  w -= lr s
 *
 *   muon            of a hidden matrix: m = mu m + g,                 Jordan et al. 2024
 *                   w -= lr d w, with g without d,
 *                   w -= lr sqrt(max(1, outputs / inputs)) orthogonal(g + mu m);
 *                   of all other tensors: adamw with the rate lr adamw-rate / learn_rate
 *
 * Hidden matrices are the tensors of two and more dimensions except those of the layers embedding and
 * position_embedding, and of the last layer that has such a tensor, unless it is in a residual block: with a
 * tied head all of those are hidden. orthogonal(): nn/kernels/orthogonal.h. A kernel of a convolution is a
 * matrix of its filters; the gates of lstm and gru, which are one tensor, are one matrix.
 *
 * Before that, g = scale grads + d w (adamw, lion, muon: without d w), d the weight decay, which is 0 for
 * vectors, such as biases and gains, with --decay-of matrices. The formulas and the place
 * of epsilon are PyTorch's (torch.optim), with which the tests compare iterates. Differences from the
 * papers:
 *   - momentum: Polyak's lr is inside the sum, here it is outside: a changed lr applies to all of m at once.
 *   - nesterov: formulated at the point where the gradient is computed, as in PyTorch.
 *   - adamw: the decay is multiplied by lr, in the paper by the schedule alone.
 *   - lion: the decay shrinks w before the step, as in its authors' program; in the paper it is in the same
 *     subtraction, which differs by rounding. PyTorch has no Lion: the tests compare with these formulas.
 *   - adagrad: the diagonal form, epsilon outside the root; the paper's delta is added to the matrix root.
 *   - rmsprop: the slide has no epsilon.  - adadelta: the paper has no lr (1).
 *   - rmsprop_graves: lr is outside m, as in momentum. PyTorch's RMSprop with centered=True adds epsilon to
 *     the root, so that the tests compare with these formulas in torch. v - a^2 is at least 0: rounding
 *     makes it negative by more than 1e-4 where gradients above 12 do not change.
 *   - muon: orthogonal() computes in float32, its authors' program in bfloat16.
 *   - a moment below the least normal float becomes 0: after gradients vanish it would otherwise stay
 *     denormal, and arithmetic on denormal numbers is slow. */
#ifndef PSGD_OPTIMIZER_KIND_H
#define PSGD_OPTIMIZER_KIND_H

/* Constant, name; defaults of --learn_rate, --weight-decay, --momentum, --beta1, --beta2, --epsilon and
 * --adamw-rate; from --momentum on 0 means that the kind has no such parameter. */
#define OPTIMIZERS(O)                                                                                        \
    O(OPTIMIZER_SGD, "sgd", 0.05, 0, 0, 0, 0, 0, 0)                                                          \
    O(OPTIMIZER_MOMENTUM, "momentum", 0.01, 0, 0.9, 0, 0, 0, 0)                                              \
    O(OPTIMIZER_NESTEROV, "nesterov", 0.01, 0, 0.9, 0, 0, 0, 0)                                              \
    O(OPTIMIZER_ADAM, "adam", 0.001, 0, 0, 0.9, 0.999, 1e-8, 0)                                              \
    O(OPTIMIZER_ADAMW, "adamw", 0.001, 0.01, 0, 0.9, 0.999, 1e-8, 0)                                         \
    O(OPTIMIZER_ADAGRAD, "adagrad", 0.01, 0, 0, 0, 0, 0, 0)                                                  \
    O(OPTIMIZER_ADADELTA, "adadelta", 1, 0, 0, 0, 0, 0, 0)                                                   \
    O(OPTIMIZER_RMSPROP, "rmsprop", 0.01, 0, 0, 0, 0, 0, 0)                                                  \
    O(OPTIMIZER_RMSPROP_GRAVES, "rmsprop_graves", 1e-4, 0, 0.9, 0, 0, 0, 0)                                  \
    O(OPTIMIZER_GRADIENT_DECAY, "gradient_decay", 0.03, 0, 0, 0, 0, 0, 0)                                    \
    O(OPTIMIZER_LION, "lion", 1e-4, 0, 0, 0.9, 0.99, 0, 0)                                                   \
    O(OPTIMIZER_MUON, "muon", 0.02, 0, 0.95, 0.9, 0.95, 1e-10, 3e-4)

#define OPTIMIZER_CONSTANT(constant, ...)     constant,
#define OPTIMIZER_CHOICE(constant, name, ...) "|" name

enum optimizer_kind { OPTIMIZERS(OPTIMIZER_CONSTANT) N_OPTIMIZERS };

/* The names, in the order of the enum, as in shared/base/choice.h; and followed by others: "|auto". */
#define OPTIMIZER_CHOICES           OPTIMIZER_CHOICES_AND("")
#define OPTIMIZER_CHOICES_AND(more) (&(OPTIMIZERS(OPTIMIZER_CHOICE) more)[1])

/* Which parameters have a weight decay. */
#define DECAY_OF_CHOICES "all|matrices"
enum decay_of { DECAY_OF_ALL, DECAY_OF_MATRICES /* tensors of two and more dimensions */ };

extern const struct optimizer_defaults {
    const char *name;
    double learn_rate, weight_decay, momentum, beta1, beta2, epsilon, adamw_rate;
} optimizer_kinds[N_OPTIMIZERS];

#endif
