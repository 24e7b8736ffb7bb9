/* optimizer_kind -- the optimizers that a job can choose: each is a line here, and its formula in
 * nn/optimizer.c. Learning rates are those of Parallel-SGD (adadelta: of its paper), the weight decay of
 * adamw is PyTorch's. */
#ifndef PSGD_OPTIMIZER_KIND_H
#define PSGD_OPTIMIZER_KIND_H

#include <stdbool.h>

/* Constant, name; where the options give none: learning rate, weight decay; whether it has a momentum. */
#define OPTIMIZERS(O)                                                                                        \
    O(OPTIMIZER_SGD, "sgd", 0.05, 0, false)                                                                  \
    O(OPTIMIZER_MOMENTUM, "momentum", 0.01, 0, true)                                                         \
    O(OPTIMIZER_NESTEROV, "nesterov", 0.01, 0, true)                                                         \
    O(OPTIMIZER_ADAM, "adam", 0.001, 0, false)                                                               \
    O(OPTIMIZER_ADAMW, "adamw", 0.001, 0.01, false)                                                          \
    O(OPTIMIZER_ADAGRAD, "adagrad", 0.01, 0, false)                                                          \
    O(OPTIMIZER_ADADELTA, "adadelta", 1, 0, false)                                                           \
    O(OPTIMIZER_RMSPROP, "rmsprop", 0.01, 0, false)                                                          \
    O(OPTIMIZER_GRADIENT_DECAY, "gradient_decay", 0.03, 0, false)

#define OPTIMIZER_CONSTANT(constant, ...)     constant,
#define OPTIMIZER_CHOICE(constant, name, ...) "|" name

enum optimizer_kind { OPTIMIZERS(OPTIMIZER_CONSTANT) N_OPTIMIZERS };

/* The names, in the order of the enum, as in shared/choice.h; and followed by others: "|auto". */
#define OPTIMIZER_CHOICES           OPTIMIZER_CHOICES_AND("")
#define OPTIMIZER_CHOICES_AND(more) (&(OPTIMIZERS(OPTIMIZER_CHOICE) more)[1])

extern const struct optimizer_defaults {
    const char *name;
    double learn_rate, weight_decay;
    bool has_momentum;
} optimizer_kinds[N_OPTIMIZERS];

#endif
