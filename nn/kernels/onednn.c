#include "nn/kernels/onednn.h"

#include <stddef.h>

void onednn_block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t blocked;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void onednn_restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#ifdef PSGD_ONEDNN

#include <dnnl.h>
#include <stdio.h>
#include <string.h>

#include "nn/kernels/transpose.h"

static bool sgemm(bool a_t, bool b_t, int m, int n, int k, const float *a, int lda, const float *b, int ldb,
                  float beta, float *c)
{
    dnnl_status_t bad;
    sigset_t before;

    onednn_block_signals(&before);
    bad = dnnl_sgemm(a_t ? 'T' : 'N', b_t ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, beta, c, n);
    onednn_restore_signals(&before);
    return bad == dnnl_success;
}

bool onednn_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c)
{
    return sgemm(a_t, b_t, m, n, k, a, a_t ? m : k, b, b_t ? k : n, beta, c);
}

enum { APART = 16, COPIES = 128 * (512 + 512 + 2 * APART), TRANSPOSED = 512 * 512 };
_Static_assert((int)COPIES <= (int)TRANSPOSED, "one space serves both");

static float copies[TRANSPOSED] __attribute__((aligned(64))); /* too long for the stack */

static void copy_rows(float *to, const float *from, size_t rows, size_t width)
{
    for (size_t i = 0; i < rows; i++)
        memcpy(to + i * (width + APART), from + i * width, width * sizeof *to);
}

bool onednn_matmul_copied(int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    size_t rows = (size_t)k, width_a = (size_t)m, width_b = (size_t)n;
    float *copy_b;

    if (rows > COPIES / (width_a + width_b + 2 * APART))
        return false;
    copy_b = copies + rows * (width_a + APART);
    copy_rows(copies, a, rows, width_a);
    copy_rows(copy_b, b, rows, width_b);
    return sgemm(true, false, m, n, k, copies, m + APART, copy_b, n + APART, beta, c);
}

bool onednn_matmul_transposed(int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    if (k > TRANSPOSED / n || n % TRANSPOSE_ROWS != 0 || k % TRANSPOSE_COLS != 0)
        return false;
    transpose(copies, (size_t)n, b, (size_t)k, (size_t)n, (size_t)k);
    return sgemm(false, false, m, n, k, a, k, copies, n, beta, c);
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

bool onednn_matmul_copied(int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)beta, (void)c;
    return false;
}

bool onednn_matmul_transposed(int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)beta, (void)c;
    return false;
}

const char *onednn_version(void)
{
    return "";
}

#endif
