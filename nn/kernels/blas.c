#include "nn/kernels/blas.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/kernels/cpu.h"
#include "nn/kernels/onednn.h"

/* OpenBLAS' extensions to CBLAS. Weak, so that another BLAS links too. */
extern void openblas_set_num_threads(int n) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
/* By these OpenBLAS chooses its kernels, and takes the choice back. All versions with a choice export them;
 * no header has them. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));
/* OpenMP's, if oneDNN is linked with it. */
extern void omp_set_num_threads(int n) __attribute__((weak));

static int n_threads = 1;
static bool has_started = true; /* false: OpenBLAS stays at the one thread of its environment */
static bool allows_onednn = true;

/* The instruction sets that OpenBLAS' SkylakeX kernels need. */
static bool can_skylakex(void)
{
    return cpu_has_avx512() && CPU_HAS("avx512bw") && CPU_HAS("avx512dq") && CPU_HAS("avx512vl");
}

static bool is_one_of(const char *core, const char *const *names)
{
    for (; *names; names++)
        if (strncasecmp(core, *names, strlen(*names)) == 0)
            return true;
    return false;
}

const char *blas_better_core(const char *core, const struct blas_processor *has)
{
    /* Kernels for processors without AVX2. */
    static const char *const old[] = {"Prescott",  "Katmai",     "Coppermine",  "Northwood", "Banias",
                                      "Core2",     "Penryn",     "Dunnington",  "Nehalem",   "Atom",
                                      "Athlon",    "Opteron",    "Barcelona",   "Bobcat",    "Sandybridge",
                                      "Bulldozer", "Piledriver", "Steamroller", NULL};
    static const char *const of_3dnow[] = {"Opteron", NULL};
    static const char *const of_fma4[] = {"Bulldozer", "Piledriver", "Steamroller", "Excavator", NULL};

    if (has->avx2 && is_one_of(core, old))
        return has->avx512 ? "SkylakeX" : "Haswell";
    if (!has->amd_3dnow && is_one_of(core, of_3dnow))
        return "Prescott";
    if (!has->fma4 && is_one_of(core, of_fma4))
        return has->avx2 ? "Haswell" : has->avx ? "Sandybridge" : "Prescott";
    return NULL;
}

/* OpenBLAS reads the variable when it chooses, as while it is loaded. */
static void choose_again(const char *core)
{
    if (setenv("OPENBLAS_CORETYPE", core, 1) < 0 || !gotoblas_dynamic_quit || !gotoblas_dynamic_init)
        return;
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
}

/* Of the kernels that OpenBLAS uses now; NULL: they suit the processor. */
static const char *better_core(const char **core)
{
    const struct blas_processor has = {.amd_3dnow = cpu_has_3dnow(),
                                       .fma4 = CPU_HAS("fma4"),
                                       .avx = CPU_HAS("avx"),
                                       .avx2 = cpu_has_avx2(),
                                       .avx512 = can_skylakex()};

    *core = openblas_get_corename ? openblas_get_corename() : NULL;
    return *core ? blas_better_core(*core, &has) : NULL;
}

const char *blas_choose_core(void)
{
    static char warning[160];
    const char *core, *better = better_core(&core), *chosen = getenv("OPENBLAS_CORETYPE");

    if (better && !chosen) {
        choose_again(better);
        better = better_core(&core);
    }
    if (!better)
        return NULL;
    snprintf(warning, sizeof warning,
             "OpenBLAS computes with its %s kernels, a poor choice for this processor; %s %s", core,
             chosen ? "OPENBLAS_CORETYPE selects them, set it to" : "set OPENBLAS_CORETYPE to", better);
    return warning;
}

static int n_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* A signal handler may read what the main thread frees: threads that OpenBLAS and OpenMP start here run
 * none. */
void blas_keep_threads(void)
{
    sigset_t before;

    onednn_block_signals(&before);
    if (openblas_set_num_threads && has_started)
        openblas_set_num_threads(n_threads);
    if (omp_set_num_threads)
        omp_set_num_threads(n_threads);
    onednn_restore_signals(&before);
}

int blas_threads(void)
{
    return n_threads;
}

int blas_plan_threads(int n, int n_sharers)
{
    int share = n_sharers > 1 ? (int)sysconf(_SC_NPROCESSORS_ONLN) / n_sharers : n;
    int most = share < n_processors() ? share : n_processors();

    n_threads = n < most ? n : most > 1 ? most : 1;
    has_started = false;
    blas_keep_threads();
    return n_threads;
}

void blas_start_threads(void)
{
    has_started = true;
    blas_keep_threads();
}

int blas_set_threads(int n, int n_sharers)
{
    blas_plan_threads(n, n_sharers);
    blas_start_threads();
    return n_threads;
}

void blas_allow_onednn(bool yes)
{
    allows_onednn = yes;
}

bool blas_allows_onednn(void)
{
    return allows_onednn && *onednn_version();
}

void blas_describe(char *out, size_t size)
{
    const char *version = openblas_get_config ? openblas_get_config() : "BLAS";
    const char *core = openblas_get_corename ? openblas_get_corename() : "unknown";
    int len = (int)strcspn(version, " ");

    if (version[len] && strncmp(version, "OpenBLAS ", 9) == 0)
        len += 1 + (int)strcspn(version + len + 1, " ");
    snprintf(out, size, "%.*s (%s kernels)%s, loops for %s, %d thread%s", len, version, core,
             allows_onednn ? onednn_version() : "",
             cpu_has_avx512() ? "AVX-512"
             : cpu_has_avx2() ? "AVX2"
             : cpu_fuses()    ? "NEON"
                              : "any processor",
             n_threads, n_threads == 1 ? "" : "s");
}
