#include "shared/plugin/compile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codecs/codec_events.h"
#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/plugin/codec_load.h"

enum { WORDS_MAX = 16, CPU_MAX_S = 120, SOURCE_MAX = 1 << 20 /* bytes */ };

/* Reached by a source that includes itself, or has a macro that expands without end. */
static const uint64_t memory_max = (uint64_t)4 << 30;

/* Flags of the built-in codecs: those on which results depend, and -O3; of the hardening
 * (hardening_probe.sh) those that every supported compiler accepts for every processor without a warning.
 * The compiler stops at the 20th error: gcc would go on after the error that includes are nested too deeply,
 * and a source that includes itself twice has 2^200 nested files. clang has the same option. */
const char compile_flags[] =
    "-std=c11 -O3 -fPIC -shared -ffp-contract=off -fstack-protector-strong -U_FORTIFY_SOURCE "
    "-D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now -fmax-errors=20";

/* codec.h is in include/ of a build, in ../../include/psgd of an installed tree, or in the source tree. */
int compile_find_header(char *out, size_t size, const char *exe_dir, struct err *e)
{
    static const char *const places[] = {"%s/include", "%s/../../include/psgd", "%s/../codecs", "./codecs"};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char file[PATH_MAX + 16];
        int n = strchr(places[i], '%') ? snprintf(out, size, "%s%s", exe_dir, places[i] + 2)
                                       : snprintf(out, size, "%s", places[i]);

        if (n >= (int)size)
            continue;
        snprintf(file, sizeof file, "%s/codec.h", out);
        if (access(file, R_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_CODEC,
                   "codec.h is neither in %s/include nor in ../../include/psgd, ../codecs or ./codecs",
                   exe_dir);
}

/* Splits `text` in place into at most WORDS_MAX words. Returns their number. */
static int split(char **words, char *text)
{
    char *rest = NULL;
    int n = 0;

    for (char *w = strtok_r(text, " \t", &rest); w && n < WORDS_MAX; w = strtok_r(NULL, " \t", &rest))
        words[n++] = w;
    return n;
}

/* Starts the compiler with stdout and stderr connected to `out`. */
static int start_compiler(struct child *c, char **argv, int out, int (*confine)(void *), void *arg,
                          struct err *e)
{
    const struct child_how how = {.argv = argv,
                                  .out = out,
                                  .err = out,
                                  .cpu_s = CPU_MAX_S,
                                  .memory_size = memory_max,
                                  .confine = confine,
                                  .confine_arg = arg};

    if (child_start(c, &how, e) == 0)
        return 0;
    e->code = ERR_CODEC;
    err_at(e, "the compiler");
    return err_hint(e, "Install one (gcc or clang), or set $CC for job_submit.");
}

static double processor_time_of_children(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* As child_start limits it. */
static double processor_time_limit(void)
{
    struct rlimit own;

    return getrlimit(RLIMIT_CPU, &own) == 0 && own.rlim_max < CPU_MAX_S ? (double)own.rlim_max : CPU_MAX_S;
}

/* A compiler that has used up its time is killed, or exits with a status, as gcc does when the program that
 * it has started is killed. So the used time is measured. */
static int finish_compiler(struct child *c, const char *name, struct err *e)
{
    double before = processor_time_of_children(), limit = processor_time_limit(), used;
    int status = child_wait(c);

    used = processor_time_of_children() - before;
    if (status != 0 && used > 0.7 * limit) /* the kernel ends it by another, coarser clock */
        return err_set(
            e, ERR_CODEC,
            "%s has failed after %.0f s of processor time, of which it may use %g: does the source "
            "include itself, or expand a macro without end?",
            name, used, limit);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_CODEC, "%s was killed by signal %d (%s)", name, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return err_set(e, ERR_CODEC, "%s does not compile it (status %d, its output is above)", name,
                       WEXITSTATUS(status));
    return 0;
}

/* Explains errors of a codec that was written for an older codec.h. */
static void hint_changes(const char *source, struct err *e)
{
    static const char *const moved[] = {"->host->",         "->node",
                                        "->step",           "->round",
                                        "->block",          "->layers",
                                        "->loss",           "->lr_factor",
                                        "->wants_",         "->server",
                                        ".round =",         ".events =",
                                        ".result =",        ".cost =",
                                        ".sends =",         ".compression =",
                                        ".overlaps =",      ".model =",
                                        "CODEC_WAIT",       ".message_bytes =",
                                        ".on_evaluation =", ".updates_on_server ="};
    struct err ignored;
    char *text;
    bool may_be_older; /* neither of this ABI nor an executor, which has a host and a node, too */
    size_t len;

    if (file_read(&text, &len, source, SOURCE_MAX, &ignored) < 0)
        return;
    may_be_older = !strstr(text, "CODEC_MORE") && !strstr(text, "executor.h");
    for (size_t i = 0; may_be_older && i < sizeof moved / sizeof *moved; i++)
        if (strstr(text, moved[i])) {
            err_hint(e, "%s.", CODEC_ABI_CHANGES);
            break;
        }
    free(text);
}

int compile_codec(const char *cc, const char *source, const char *object, const char *exe_dir, struct err *e)
{
    return compile_confined(cc, source, object, exe_dir, NULL, NULL, e);
}

int compile_confined(const char *cc, const char *source, const char *object, const char *exe_dir,
                     int (*confine)(void *), void *arg, struct err *e)
{
    char compiler[512], flags[sizeof compile_flags], header[PATH_MAX], include[PATH_MAX + 4];
    char output[PATH_MAX], file[PATH_MAX], libm[] = "-lm", o[] = "-o";
    char *argv[2 * WORDS_MAX + 6];
    struct child c;
    int n;

    snprintf(compiler, sizeof compiler, "%s", cc);
    memcpy(flags, compile_flags, sizeof flags);
    if (compile_find_header(header, sizeof header, exe_dir, e) < 0)
        return e->code;
    snprintf(include, sizeof include, "-I%s", header);
    snprintf(output, sizeof output, "%s", object);
    /* A name that begins with '-' is a file here, never an option. */
    snprintf(file, sizeof file, "%s%s", source[0] == '-' ? "./" : "", source);
    n = split(argv, compiler);
    n += split(argv + n, flags);
    argv[n++] = include;
    argv[n++] = o;
    argv[n++] = output;
    argv[n++] = file;
    argv[n++] = libm;
    argv[n] = NULL;
    if (start_compiler(&c, argv, STDERR_FILENO, confine, arg, e) < 0)
        return err_at(e, "%s", source);
    if (finish_compiler(&c, cc + strspn(cc, " \t"), e) < 0) {
        hint_changes(file, e);
        return err_at(e, "%s", source);
    }
    return 0;
}

void compile_version(char *out, size_t size, const char *cc)
{
    char compiler[512], text[4096], option[] = "--version";
    char *argv[WORDS_MAX + 2];
    struct err ignored;
    size_t len = 0;
    ssize_t n;
    struct child c;
    int fds[2];
    int n_words, rc;

    out[0] = '\0';
    snprintf(compiler, sizeof compiler, "%s", cc);
    n_words = split(argv, compiler);
    argv[n_words++] = option;
    argv[n_words] = NULL;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    rc = start_compiler(&c, argv, fds[1], NULL, NULL, &ignored);
    close(fds[1]);
    while (rc == 0 && len < sizeof text - 1 &&
           ((n = read(fds[0], text + len, sizeof text - 1 - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    close(fds[0]);
    text[len] = '\0';
    if (rc == 0 && finish_compiler(&c, argv[0], &ignored) == 0)
        snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
}

bool compile_is_there(const char *cc)
{
    char file[PATH_MAX];

    return file_find_program(file, sizeof file, cc);
}
