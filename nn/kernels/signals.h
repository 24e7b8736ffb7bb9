/* signals -- blocks signals while oneDNN computes.
 *
 * The kernels of dnnl_sgemm (jit_avx_gemm_f32, jit_avx512_common_gemm_f32) point the stack pointer at a
 * block from malloc while they work: "cmp rdx, 0xfc; jg", then "mov rsp, [rsp + 0x68]", if a part of a
 * product sums more than 252 values. The frame of a signal handler overwrites some 1,500 bytes before that
 * block, and the process ends in a later malloc() or free(). oneDNN 3.11.2 fixed it
 * (uxlfoundation/oneDNN#4845); earlier versions have it.
 *
 * SA_ONSTACK does not help: an alternate stack belongs to one thread, and oneDNN's own threads have none.
 * They inherit the signal mask of the thread that starts them, and so never handle a signal. */
#ifndef PSGD_SIGNALS_H
#define PSGD_SIGNALS_H

#include <signal.h>

/* Blocks this thread's signals until signals_release(before), except those for its own faults (SIGSEGV,
 * ...); threads started meanwhile keep them blocked. Both calls together take half a microsecond. */
void signals_hold(sigset_t *before);
void signals_release(const sigset_t *before);

#endif
