/* blas -- which libraries compute, with which kernels and how many threads.
 * One choice for the whole process. */
#ifndef PSGD_BLAS_H
#define PSGD_BLAS_H

#include <stdbool.h>
#include <stddef.h>

struct blas_processor { /* has these instructions */
    bool amd_3dnow, fma4, avx, avx2, avx512;
};

/* OpenBLAS picks its kernels by a list of processors it knows when it is loaded, and takes SSE kernels, four
 * to five times slower, for those it does not know (OpenMathLib/OpenBLAS#4267; Debian 12's 0.3.21 and
 * Sapphire Rapids). Nor does it ask whether a known processor has their instructions: a virtual machine may
 * call its own an Opteron that has no 3DNow! (qemu64) or FMA4 (Opteron_G4), and a product would end in an
 * illegal instruction. The core type it should be told instead of `core`; NULL: it is no poor choice. */
const char *blas_better_core(const char *core, const struct blas_processor *has);

/* Call first in main(). Where OpenBLAS chose poorly and OPENBLAS_CORETYPE does not say that the user did,
 * starts this program anew with a better choice, which OpenBLAS reads only while it is loaded. Returns what
 * is to be said about it, or NULL. */
const char *blas_choose_core(char **argv);

/* Threads inside a product, for OpenBLAS and oneDNN; not more than the processors this process may use, nor
 * than each of `n_sharers` such processes has of the machine's: threads that wait for each other within a
 * product, and for a processor, take many times as long as one. Returns how many there will be. Other numbers
 * split sums otherwise: results repeat for the same number only. */
int blas_set_threads(int n, int n_sharers);
int blas_threads(void);
/* As many as were set; one where nobody has, though the libraries begin with all processors. */
void blas_keep_threads(void);

/* Whether oneDNN may take products and convolutions. Where it is built in, yes, unless told otherwise. */
void blas_allow_onednn(bool yes);
bool blas_allows_onednn(void);

/* "OpenBLAS 0.3.21 (Haswell kernels), oneDNN 2.6.3, loops for AVX2, 1 thread" */
void blas_describe(char *out, size_t size);

#endif
