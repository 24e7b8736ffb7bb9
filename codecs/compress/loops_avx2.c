/* The loops compiled for AVX2 and F16C, and the choice between both forms. */
#include "codecs/compress/loops.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
#define LOOPS loops_avx2
#define LOOPS_F16C
#include "codecs/compress/loops.c"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool has_f16c(void) /* clang's __builtin_cpu_supports does not accept "f16c" */
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

const struct loops *loops_best(void)
{
    return __builtin_cpu_supports("avx2") && has_f16c() ? &loops_avx2 : &loops_portable;
}
#else
const struct loops *loops_best(void)
{
    return &loops_portable;
}
#endif
