/* signals -- no handler of a signal runs while oneDNN computes.
 *
 * The kernels of dnnl_sgemm (jit_avx_gemm_f32, jit_avx512_common_gemm_f32) point the stack pointer at a block
 * from malloc while they work: "cmp rdx, 0xfc; jg", then "mov rsp, [rsp + 0x68]", where a part of a product
 * sums more than 252 values. A handler's frame overwrites some 1,500 bytes in front of that block, whatever
 * they are, and the process ends in a later malloc() or free(). oneDNN 3.11.2 mended it
 * (uxlfoundation/oneDNN#4845); earlier versions have it.
 *
 * SA_ONSTACK would not do: such a stack is one thread's, and the threads that oneDNN starts have none. They
 * inherit what their maker holds, and so never take a signal. */
#ifndef PSGD_SIGNALS_H
#define PSGD_SIGNALS_H

#include <signal.h>

/* This thread's signals wait until signals_release(before), and threads started meanwhile never take one; but
 * for those that say that the thread itself has failed. Both calls together take half a microsecond. */
void signals_hold(sigset_t *before);
void signals_release(const sigset_t *before);

#endif
