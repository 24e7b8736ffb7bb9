#include "nn/onednn.h"

#ifdef PSGD_ONEDNN

#include <dnnl.h>
#include <stdio.h>

bool onednn_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c)
{
    return dnnl_sgemm(a_t ? 'T' : 'N', b_t ? 'T' : 'N', m, n, k, 1, a, a_t ? m : k, b, b_t ? k : n, beta, c,
                      n) == dnnl_success;
}

const char *onednn_version(void)
{
    static char text[48];
    const dnnl_version_t *v = dnnl_version();

    snprintf(text, sizeof text, ", oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

#else

bool onednn_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c)
{
    (void)a_t, (void)b_t, (void)m, (void)n, (void)k, (void)a, (void)b, (void)beta, (void)c;
    return false;
}

const char *onednn_version(void)
{
    return "";
}

#endif
