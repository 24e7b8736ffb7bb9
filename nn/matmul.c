#include "nn/matmul.h"

#include <cblas.h>

void matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    cblas_sgemm(CblasRowMajor, a_t ? CblasTrans : CblasNoTrans, b_t ? CblasTrans : CblasNoTrans, m, n, k, 1,
                a, a_t ? m : k, b, b_t ? k : n, beta, c, n);
}
