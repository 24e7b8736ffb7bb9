/* unit -- included by every unit test: cmocka, tests chosen by ONLY, the time limit of a test, helpers. */
#ifndef PSGD_UNIT_H
#define PSGD_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "shared/base/compiler.h" /* tests too slow under a sanitizer ask it */
#include "shared/base/err.h"
#include "shared/base/file.h"
#include "shared/base/rng.h"

/* A test; its time limit is set by unit_begin. */
#define TEST(name)                                                                                           \
    static void name##_body(void);                                                                           \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        unit_begin(#name);                                                                                   \
        name##_body();                                                                                       \
    }                                                                                                        \
    static void name##_body(void)
#define N_OF(array)            (sizeof(array) / sizeof((array)[0]))
#define assert_ok(call)        assert_true((call) >= 0 || (print_error("%s\n", e.text), false))
#define assert_error_has(args) assert_true(strstr(e.text, args) || (print_error("\"%s\"\n", e.text), false))

static struct {
    char line[256]; /* the message if it does not end */
    pid_t pid;
} unit_standing;

/* A forked child has no alarm unless it sets one, and then ends without a message. */
static inline void unit_on_alarm(int sig)
{
    bool is_test = getpid() == unit_standing.pid;
    ssize_t n = is_test ? write(STDOUT_FILENO, unit_standing.line, strlen(unit_standing.line)) : 0;

    _exit(n < 0 ? EXIT_FAILURE : 128 + sig);
}

/* Sets the test's time limit: two thirds of that of the whole program in tests/run, TEST_TIMEOUT seconds. A
 * test that exceeds it ends the program, with its name. */
static inline void unit_begin(const char *name)
{
    const struct sigaction act = {.sa_handler = unit_on_alarm};
    const char *whole = getenv("TEST_TIMEOUT");
    int limit_s = (whole ? atoi(whole) : 1800) * 2 / 3;

    snprintf(unit_standing.line, sizeof unit_standing.line, "\nnot ok - %s has not ended within %d s\n", name,
             limit_s);
    unit_standing.pid = getpid();
    sigaction(SIGALRM, &act, NULL);
    alarm((unsigned)limit_s);
}

/* ONLY=WORDS in the environment: the program runs only the tests whose name contains them, with _ for each
 * blank. */
__attribute__((constructor)) static inline void unit_choose_tests(void)
{
    static char pattern[256];
    const char *words = getenv("ONLY");

    if (!words || !words[0])
        return;
    snprintf(pattern, sizeof pattern, "*%s*", words);
    for (char *at = strchr(pattern, ' '); at; at = strchr(at, ' '))
        *at = '_';
    cmocka_set_test_filter(pattern);
}

/* Seconds for an event that only has to occur: on a machine that does ten other things, too. */
enum { UNIT_WAIT_S = 600 };

/* `LONG=1 make test`: tests that search many cases search all of them, instead of a part. */
static inline bool unit_is_long(void)
{
    const char *is_set = getenv("PSGD_TEST_LONG"); /* empty: make test without LONG=1 */

    return is_set && is_set[0];
}

enum { UNIT_FOLDER = 64 }; /* bytes of a folder's path; in /tmp where $TMPDIR is too long for that */

static inline void unit_make_folder(char path[UNIT_FOLDER])
{
    static const char name[] = "psgd-unit-XXXXXX";
    const char *parent = getenv("TMPDIR");

    if (!parent || strlen(parent) + sizeof "/" + sizeof name > UNIT_FOLDER)
        parent = "/tmp";
    snprintf(path, UNIT_FOLDER, "%s/%s", parent, name);
    assert_non_null(mkdtemp(path));
}

/* An empty folder for one test, valid until the next call; unit_remove() removes it. */
static inline const char *unit_folder(void)
{
    static char path[UNIT_FOLDER];

    unit_make_folder(path);
    return path;
}

static inline void unit_remove(const char *folder)
{
    struct err e;

    assert_ok(file_remove_tree(folder, &e));
}

/* A copy of exactly `len` bytes, so that AddressSanitizer detects reads beyond it. */
static inline void *unit_copy(const void *bytes, size_t len)
{
    void *p = malloc(len ? len : 1);

    assert_non_null(p);
    memcpy(p, bytes, len);
    return p;
}

/* A writable command line, as main()'s is. */
struct unit_argv {
    char args[24][512];
    char *of[25];
    int n;
};

static inline void unit_argv(struct unit_argv *a, const char *program, const char *const *args)
{
    *a = (struct unit_argv){.n = 0};
    for (const char *w = program; w; w = *args++) {
        assert_true(a->n < (int)N_OF(a->args) && strlen(w) < sizeof a->args[0]);
        a->of[a->n] = strcpy(a->args[a->n], w);
        a->n++;
    }
}

/* n numbers N(0, 1); the caller frees. */
static inline float *unit_normals(size_t n, struct rng *r)
{
    float *p = malloc(n * sizeof *p);

    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = rng_normal(r);
    return p;
}

#endif
