/* codec_check -- runs one check of one codec (shared/plugin/codec_checks.h). job_submit codecs test starts it
 * in a folder that contains codec.so, with the page for the outcome as descriptor 3. It is a separate process
 * for each check because it runs the codec's code, which may crash, loop, exit, or use up memory. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "conform/check.h"
#include "nn/kernels/blas.h"
#include "shared/base/compiler.h"
#include "shared/base/helper.h"

enum { MEMORY_MAX = 2000000000, N_LOCAL = 6 };

/* The names of the C library's own functions. A sanitizer replaces them. */
#if !IS_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    watch_allocation(__builtin_return_address(0));
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    watch_allocation(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    watch_allocation(__builtin_return_address(0));
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    watch_allocation(__builtin_return_address(0));
    return __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    watch_allocation(__builtin_return_address(0));
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}
#endif

static check_body *const bodies[N_CODEC_CHECKS] = {
    [CODEC_CHECK_ENDS] = check_ends,           [CODEC_CHECK_TIMING] = check_timing,
    [CODEC_CHECK_EQUAL] = check_equal,         [CODEC_CHECK_RESULT] = check_result,
    [CODEC_CHECK_COST] = check_cost,           [CODEC_CHECK_CONVERGES] = check_converges,
    [CODEC_CHECK_MALFORMED] = check_malformed, [CODEC_CHECK_MEMORY] = check_memory,
    [CODEC_CHECK_RESTORE] = check_restore,     [CODEC_CHECK_LOSS] = check_loss,
};

/* After the return the instruction is executed again, and ends the program as if there were no handler. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    watch_fault(info->si_addr);
}

static void guard(void)
{
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)};
    const struct rlimit none = {0, 0}, memory = {MEMORY_MAX, MEMORY_MAX};

    sigaction(SIGSEGV, &fault, NULL);
    setrlimit(RLIMIT_CORE, &none);
    if (!IS_SANITIZED)
        setrlimit(RLIMIT_AS, &memory);
}

static int find_check(check_body **out, const char *name, struct err *e)
{
    for (int i = 0; i < N_CODEC_CHECKS; i++)
        if (strcmp(codec_checks[i].name, name) == 0) {
            *out = bodies[i];
            return 0;
        }
    return err_set(e, ERR_USAGE, "unknown check \"%s\"", name);
}

static int run_check(struct conform_check *k, const char *name, struct err *e)
{
    struct codec_library lib;
    check_body *body = NULL;
    int rc;

    if (find_check(&body, name, e) < 0)
        return e->code;
    watch_outside(k->page, "load");
    rc = codec_library_open(&lib, "codec.so", e);
    watch_outside(k->page, "");
    if (rc < 0)
        return rc;
    k->plugin = lib.plugin;
    rc = watch_open(lib.plugin, k->page, e);
    if (rc == 0)
        rc = body(k, e);
    watch_outside(k->page, "unload");
    codec_library_close(&lib);
    watch_outside(k->page, "");
    return rc;
}

int main(int argc, char **argv)
{
    static struct conform_check k;
    struct err e = {0};
    int rc;

    if (argc != N_LOCAL)
        return helper_main(argc, argv, "codec_check", "job_submit codecs test");
    blas_choose_core();
    k = (struct conform_check){.folder = ".",
                               .options = argv[2],
                               .every = atoi(argv[3]),
                               .seed = strtoull(argv[4], NULL, 10),
                               .n_mutations = strtoull(argv[5], NULL, 10)};
    k.page = mmap(NULL, sizeof *k.page, PROT_READ | PROT_WRITE, MAP_SHARED, CODEC_CHECK_FD, 0);
    if (k.page == MAP_FAILED) {
        perror("codec_check: descriptor 3");
        return 1;
    }
    guard();
    rc = run_check(&k, argv[1], &e);
    if (rc == ERR_NOMEM)
        rc = err_set(&e, ERR_CODEC, "%s: the codec takes more than %d MB of memory", k.page->what,
                     MEMORY_MAX / 1000000);
    if (rc != 0)
        snprintf(k.page->text, sizeof k.page->text, "%s%s%s", e.text, e.hint[0] ? ". " : "", e.hint);
    k.page->outcome = rc == 0                     ? CHECK_HOLDS
                      : rc == CHECK_IS_NOT_FOR_IT ? CHECK_NOT_FOR_IT
                      : rc == ERR_CODEC           ? CHECK_FAILED
                                                  : CHECK_ERROR;
    return 0;
}
