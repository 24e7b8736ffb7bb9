/* A user's codec is compiled as the built-in ones are, less the warnings that are errors for ours. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "submit/compile.h"

extern char **environ;

enum { WORDS_MAX = 16 };

/* codec.h lies in include/ of a build, in ../../include/psgd of an installed tree, or in the source tree. */
static int find_header(char *out, size_t size, const char *exe_dir, struct err *e)
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

/* $CC may hold options: "ccache gcc". Returns how many words there are. */
static int split(char *text, char **words)
{
    char *rest = NULL;
    int n = 0;

    for (char *w = strtok_r(text, " \t", &rest); w && n < WORDS_MAX / 2; w = strtok_r(NULL, " \t", &rest))
        words[n++] = w;
    return n;
}

static int run(char **argv, struct err *e)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t pipe_only;
    int status;
    pid_t pid;
    int rc;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &pipe_only);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    rc = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (rc != 0) {
        errno = rc;
        err_errno(e, ERR_CODEC, "cannot run the compiler %s", argv[0]);
        return err_hint(e, "Install one (gcc or clang), or name it: CC=... job_submit");
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        return err_set(e, ERR_CODEC, "%s was killed by signal %d", argv[0], WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return err_set(e, ERR_CODEC, "%s does not compile it (status %d, its words stand above)", argv[0],
                       WEXITSTATUS(status));
    return 0;
}

int compile_codec(const char *source, const char *object, const char *exe_dir, struct err *e)
{
    const char *cc = getenv("CC");
    char compiler[512], header[PATH_MAX], include[PATH_MAX + 4], output[PATH_MAX];
    char file[PATH_MAX];
    char *argv[WORDS_MAX + 12];
    int n;

    snprintf(compiler, sizeof compiler, "%s", cc && cc[strspn(cc, " \t")] ? cc : "cc");
    if (find_header(header, sizeof header, exe_dir, e) < 0)
        return e->code;
    snprintf(include, sizeof include, "-I%s", header);
    snprintf(output, sizeof output, "%s", object);
    /* A name that begins with '-' is a file here, never an option. */
    snprintf(file, sizeof file, "%s%s", source[0] == '-' ? "./" : "", source);
    n = split(compiler, argv);
    argv[n++] = "-std=c11";
    argv[n++] = "-O3";
    argv[n++] = "-fPIC";
    argv[n++] = "-shared";
    argv[n++] = "-ffp-contract=off";
    argv[n++] = include;
    argv[n++] = "-o";
    argv[n++] = output;
    argv[n++] = file;
    argv[n++] = "-lm";
    argv[n] = NULL;
    if (run(argv, e) < 0)
        return err_at(e, "%s", source);
    return 0;
}
