/* blas -- selects the libraries that compute, their kernels and their number of threads, for the whole
 * process. */
#ifndef PSGD_BLAS_H
#define PSGD_BLAS_H

#include <stdbool.h>
#include <stddef.h>

struct blas_processor { /* instruction sets that the processor has */
    bool amd_3dnow, fma4, avx, avx2, avx512;
};

/* Returns the OpenBLAS core type to use instead of `core`, or NULL if `core` is a good choice. When it is
 * loaded, OpenBLAS chooses its kernels from a list of known processors, and takes SSE kernels, four to five
 * times slower, for unknown ones (OpenMathLib/OpenBLAS#4267; Debian 12's 0.3.21 and Sapphire Rapids). It
 * does not check that a known processor has their instructions either: a virtual machine may report an
 * Opteron without 3DNow! (qemu64) or FMA4 (Opteron_G4), and a product would end in an illegal instruction. */
const char *blas_better_core(const char *core, const struct blas_processor *has);

/* Call first in main(), before anything is computed. If OpenBLAS chose poorly and the user has not set
 * OPENBLAS_CORETYPE, sets it and lets OpenBLAS choose again. Returns a warning for the user, or NULL. */
const char *blas_choose_core(void);

/* Sets the threads within one product, for OpenBLAS and oneDNN: at most the processors this process may
 * use, and at most an equal part of the machine's processors for each of `n_sharers` such processes.
 * Threads that wait for each other within a product, and for a processor, take many times as long as one.
 * Returns the number that is set. Another number splits sums differently: results repeat only for the same
 * number. */
int blas_set_threads(int n, int n_sharers);
/* blas_set_threads() in two parts, for a process that must have one thread in between, while it may make
 * networks. $OPENBLAS_NUM_THREADS must be 1. */
int blas_plan_threads(int n, int n_sharers);
void blas_start_threads(void);
int blas_threads(void);
/* Applies the number that was set, or one: the libraries themselves begin with all processors. */
void blas_keep_threads(void);

/* Whether oneDNN may compute products and convolutions; by default yes if it is built in. */
void blas_allow_onednn(bool yes);
bool blas_allows_onednn(void);

/* "OpenBLAS 0.3.21 (Haswell kernels), oneDNN 2.6.3, loops for AVX2, 1 thread" */
void blas_describe(char *out, size_t size);

#endif
