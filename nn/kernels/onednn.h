/* onednn -- oneDNN's matrix product, where psgd was built with it, and the block on signals while oneDNN
 * computes.
 *
 * The kernels of dnnl_sgemm (jit_avx_gemm_f32, jit_avx512_common_gemm_f32) point the stack pointer at a
 * block from malloc while they work: "cmp rdx, 0xfc; jg", then "mov rsp, [rsp + 0x68]", if a part of a
 * product sums more than 252 values. The frame of a signal handler overwrites some 1,500 bytes before that
 * block, and the process ends in a later malloc() or free(). oneDNN 3.11.2 fixed it
 * (uxlfoundation/oneDNN#4845); earlier versions have the fault.
 *
 * SA_ONSTACK does not help: an alternate stack belongs to one thread, and oneDNN's own threads have none.
 * They inherit the signal mask of the thread that starts them, and so never handle a signal. */
#ifndef PSGD_ONEDNN_H
#define PSGD_ONEDNN_H

#include <signal.h>
#include <stdbool.h>

/* Blocks this thread's signals until onednn_restore_signals(before), except those for its own faults
 * (SIGSEGV, ...); threads that start meanwhile keep them blocked. Both calls together take half a
 * microsecond. They also work where psgd was built without oneDNN: other libraries' threads need them, too
 * (blas.c). */
void onednn_block_signals(sigset_t *before);
void onednn_restore_signals(const sigset_t *before);

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
