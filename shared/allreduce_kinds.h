/* allreduce_kinds -- the all-reduce algorithms that a job can choose: each is a line here, and a function of
 * that name in agent/runner/collective/collective_plan.c; which one `auto` is, that file's table says. */
#ifndef PSGD_ALLREDUCE_KINDS_H
#define PSGD_ALLREDUCE_KINDS_H

/* Constant, name, function. */
#define ALLREDUCE_ALGORITHMS(A)                                                                              \
    A(COLLECTIVE_RING, "ring", ring)                                                                         \
    A(COLLECTIVE_HALVING_DOUBLING, "halving-doubling", halving_doubling)                                     \
    A(COLLECTIVE_TREE, "tree", tree)                                                                         \
    A(COLLECTIVE_DIRECT, "direct", direct)

#define ALLREDUCE_CONSTANT(constant, name, function) constant,
#define ALLREDUCE_CHOICE(constant, name, function)   "|" name
#define ALLREDUCE_FUNCTION(constant, name, function) [constant] = function,

enum collective_algorithm { COLLECTIVE_AUTO, ALLREDUCE_ALGORITHMS(ALLREDUCE_CONSTANT) COLLECTIVE_ALGORITHMS };

/* The names, in the order of the enum, as in shared/choice.h. */
#define ALLREDUCE_CHOICES "auto" ALLREDUCE_ALGORITHMS(ALLREDUCE_CHOICE)

#endif
