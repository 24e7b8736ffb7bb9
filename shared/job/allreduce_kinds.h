/* allreduce_kinds -- the all-reduce algorithms that a job can choose: each of those with a plan is a line
 * here, and a function of that name in runner/collective/collective_plan.c; collective_choose() there selects
 * one for `auto`.
 *
 *   ring                 reduce-scatter, then all-gather, always to the next node: 2 (N-1) chunks deep, the
 *                        fewest bytes: 2 (N-1)/N n each way. Patarasuk and Yuan, "Bandwidth optimal
 *                        all-reduce algorithms for clusters of workstations", JPDC 2009.
 *   halving-doubling     the same bytes in 2 log2 N exchanges with partners at halving, then doubling
 *                        distance: Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 *                        operations in MPICH", IJHPCA 2005, section 4.5. If N is no power of two, and P is
 *                        the largest power of two below N, each node from P on first sends its whole vector
 *                        to a node below P and gets the result from it in the end: 2 n more bytes on that
 *                        link, two more sequential messages.
 *   circulant            the same bytes in 2 log2 (2 N / 3) exchanges, rounded up, for any N: Traeff,
 *                        "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", 2024, on the
 *                        circulant graphs of Bruck et al., IEEE TPDS 1997.
 *   tree                 sums up a binomial tree to node 0 and sends the result down: 2 log2 N deep, log2 N
 *                        times n through node 0.
 *   direct               every node sends its vector to every other and sums in the order of the nodes: one
 *                        chunk deep, (N-1) n each way.
 *   mpi                  no plan: the transport sums (transport_traits.reduces), by MPI_Iallreduce. */
#ifndef PSGD_ALLREDUCE_KINDS_H
#define PSGD_ALLREDUCE_KINDS_H

/* Constant, name, function. */
#define ALLREDUCE_ALGORITHMS(A)                                                                              \
    A(COLLECTIVE_RING, "ring", ring)                                                                         \
    A(COLLECTIVE_HALVING_DOUBLING, "halving-doubling", halving_doubling)                                     \
    A(COLLECTIVE_CIRCULANT, "circulant", circulant)                                                          \
    A(COLLECTIVE_TREE, "tree", tree)                                                                         \
    A(COLLECTIVE_DIRECT, "direct", direct)

#define ALLREDUCE_CONSTANT(constant, name, function) constant,
#define ALLREDUCE_CHOICE(constant, name, function)   "|" name
#define ALLREDUCE_FUNCTION(constant, name, function) [constant] = function,

/* COLLECTIVE_ALGORITHMS: the end of those with a plan. */
enum collective_algorithm {
    COLLECTIVE_AUTO,
    ALLREDUCE_ALGORITHMS(ALLREDUCE_CONSTANT) COLLECTIVE_ALGORITHMS,
    COLLECTIVE_MPI = COLLECTIVE_ALGORITHMS
};

/* The names, in the order of the enum, as in shared/base/choice.h. */
#define ALLREDUCE_CHOICES "auto" ALLREDUCE_ALGORITHMS(ALLREDUCE_CHOICE) "|mpi"

#endif
