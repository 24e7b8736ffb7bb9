/* compress_case -- a chain of compressors on vectors of one length, for tests: opened from its text, with a
 * message buffer of exactly the maximal size, so that AddressSanitizer detects writes beyond it. */
#ifndef PSGD_TEST_COMPRESS_CASE_H
#define PSGD_TEST_COMPRESS_CASE_H

#include "codecs/compress/chain.h"
#include "shared/base/rng.h"

struct compress_case {
    struct chain chain;
    size_t n, room;
    unsigned char *message;
    size_t len; /* of the last message */
    float *out; /* (n) */
};

/* Fails the test on any error. */
void compress_case_open(struct compress_case *k, const char *text, size_t n);
void compress_case_close(struct compress_case *k);

/* Encodes one message with random numbers from `seed`, which must fit; the decoded vector is in k->out. */
void compress_case_send(struct compress_case *k, const float *v, float *residual, uint64_t seed);

/* The same message, cut to `len` bytes, in memory of its own. */
bool compress_case_reads(struct compress_case *k, const unsigned char *message, size_t len);

/* A number of a vector of each kind, drawn from r. Sums of squares of the first ones are finite. */
float kind_normal(struct rng *r);
float kind_heavy_tailed(struct rng *r); /* most are near zero */
float kind_sparse(struct rng *r);       /* one in twenty is not zero */
float kind_constant(struct rng *r);
float kind_zero(struct rng *r);
float kind_huge(struct rng *r);
enum { N_FINITE_KINDS = 5 };
extern float (*const finite_kinds[N_FINITE_KINDS])(struct rng *r);

/* A vector of n numbers of a kind; the caller frees it. */
float *make_vector(size_t n, float (*kind)(struct rng *r), uint64_t seed);

double square_sum(const float *v, size_t n);
double square_distance(const float *a, const float *b, size_t n);

#endif
