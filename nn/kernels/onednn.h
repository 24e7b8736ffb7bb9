/* onednn -- oneDNN's matrix product, where psgd was built with it. */
#ifndef PSGD_ONEDNN_H
#define PSGD_ONEDNN_H

#include <stdbool.h>

/* As matmul(). Returns false, having done nothing, if oneDNN is not built in. */
bool onednn_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c);
/* The same for a transposed a and plain b, from copies of both with rows one cache line longer. Also
 * returns false if the copies do not fit the second-level cache. Not thread-safe. */
bool onednn_matmul_copied(int m, int n, int k, const float *a, const float *b, float beta, float *c);
/* The same for plain a and transposed b, from a transposed copy of b. Also returns false if transpose()
 * does not support n or k, or the copy is too large. Not thread-safe. */
bool onednn_matmul_transposed(int m, int n, int k, const float *a, const float *b, float beta, float *c);
/* ", oneDNN 2.6.3", or "" without it. */
const char *onednn_version(void);

#endif
