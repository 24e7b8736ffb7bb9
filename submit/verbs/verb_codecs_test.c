/* codecs test: runs the checks of shared/plugin/codec_checks.h, each in a process of its own, the program
 * codec_check: a codec that crashes or hangs fails that check only. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/choice.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_checks.h"
#include "submit/codecs/codec_look.h"
#include "submit/compat/presets.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { LOOK_MS = 100 };

static const double CALL_MAX_S = 10, CHECK_MAX_S = 120, MUTATIONS_PER_S = 10000;

struct test {
    const struct options *o;
    const char *text;
    struct codec_look look;
    struct temp folder; /* working directory of the checks; holds codec.so */
    char program[PATH_MAX];
    int fd;
    struct codec_check_page *page;
    json_t *results;
    bool has_failed;
};

struct ending { /* how the process of a check ended */
    int status;
    double silent_s; /* > 0: killed, after a callback ran for so long; 0: it ended by itself */
    bool is_late;    /* killed, because the check took too long */
};

/* With -v the codec's own output is shown. */
static int start_test(struct child *c, struct test *t, const char *check, struct err *e)
{
    char name[16], every[16], seed[24], mutations[24];
    char *argv[] = {t->program, name, t->look.facts.options, every, seed, mutations, NULL};
    const struct child_how how = {.argv = argv,
                                  .folder = t->folder.path,
                                  .out = -1,
                                  .err = t->o->verbose > 0 ? STDERR_FILENO : -1,
                                  .extra = t->fd,
                                  .is_foreign = true};

    snprintf(name, sizeof name, "%s", check);
    snprintf(every, sizeof every, "%d", t->look.facts.every);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->o->part);
    snprintf(mutations, sizeof mutations, "%llu", (unsigned long long)t->o->mutations);
    return child_start(c, &how, e);
}

/* Waits until the process has ended, or has to be killed: a callback, or the whole check, takes too long. */
static int watch_output(struct ending *out, const struct test *t, int fd, struct err *e)
{
    double began = clock_now(), since = began;
    double late = CHECK_MAX_S + (double)t->o->mutations / MUTATIONS_PER_S;
    uint64_t n_turns = 0;

    for (;;) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};
        uint64_t turns;
        double now;

        poll(p, 2, LOOK_MS);
        now = clock_now();
        if (p[0].revents & POLLIN)
            return 0;
        if (interrupt_check(e) < 0)
            return e->code;
        turns = atomic_load_explicit(&t->page->n_turns, memory_order_relaxed);
        if (turns != n_turns || turns % 2 == 0)
            since = now;
        n_turns = turns;
        out->silent_s = now - since > CALL_MAX_S ? now - since : 0;
        out->is_late = now - began > late;
        if (out->silent_s > 0 || out->is_late)
            return 0;
    }
}

static int await_test(struct ending *out, const struct test *t, struct child *c, struct err *e)
{
    int rc = watch_output(out, t, c->fd, e);

    out->status = rc < 0 || out->silent_s > 0 || out->is_late ? child_end(c, 0) : child_wait(c);
    return rc;
}

/* "3 workers: merge of node 1, reading a message of node 2, in step 5" */
static void describe_place(char *out, size_t size, const struct codec_check_page *p)
{
    char reading[64] = "";

    if (!p->callback[0]) {
        snprintf(out, size, "%s: between two calls of the codec", p->what);
        return;
    }
    if (strcmp(p->callback, "load") == 0 || strcmp(p->callback, "unload") == 0) {
        snprintf(out, size, "%sing it, when its %s run,", p->callback,
                 p->callback[0] == 'l' ? "constructors" : "destructors");
        return;
    }
    if (p->from != p->node)
        snprintf(reading, sizeof reading, ", reading a message of node %d,", p->from);
    snprintf(out, size, "%s: %s of node %d%s in step %llu", p->what, p->callback, p->node, reading,
             (unsigned long long)p->step);
}

/* Sets the outcome of a process that ended without reporting one. */
static void explain_end(struct codec_check_page *p, const struct ending *end)
{
    char where[384];

    if (p->outcome != CHECK_RUNS)
        return;
    p->outcome = CHECK_FAILED;
    describe_place(where, sizeof where, p);
    if (end->silent_s > 0)
        snprintf(p->text, sizeof p->text, "%s has not returned for %.0f s: does it loop?", where,
                 end->silent_s);
    else if (end->is_late)
        snprintf(p->text, sizeof p->text, "%s: the check takes too long", where);
    else if (WIFSIGNALED(end->status) && p->beyond_what == CHECK_BEYOND_MESSAGE)
        snprintf(p->text, sizeof p->text,
                 "%s reads beyond the end of the message, %llu bytes past it: check wire_ok() before using a "
                 "vector",
                 where, (unsigned long long)p->beyond);
    else if (WIFSIGNALED(end->status) && p->beyond_what == CHECK_BEYOND_VECTOR)
        snprintf(p->text, sizeof p->text,
                 "%s reads beyond the end of a vector, %llu bytes past it: get_vector returns only as many "
                 "numbers as requested",
                 where, (unsigned long long)p->beyond);
    else if (WIFSIGNALED(end->status) && p->beyond_what == CHECK_NULL_VECTOR)
        snprintf(
            p->text, sizeof p->text,
            "%s uses a pointer that is NULL. Of the vectors, c->global needs .keeps_global, those of the "
            "state .vectors or zeros(), v[1] and further ones .n_vectors, and get_vector() a look at "
            "wire_ok()",
            where);
    else if (WIFSIGNALED(end->status))
        snprintf(p->text, sizeof p->text, "%s has crashed (signal %d, %s)", where, WTERMSIG(end->status),
                 strsignal(WTERMSIG(end->status)));
    else
        snprintf(p->text, sizeof p->text, "%s has ended the process (status %d): a codec must not call exit",
                 where, WEXITSTATUS(end->status));
}

/* Writes the command that repeats the check. */
static void name_replay(char *out, size_t size, const struct test *t, const char *check,
                        const struct codec_check_page *p)
{
    char text[PATH_MAX], seed[32] = "", mutations[40] = "";

    if (p->seed > 0)
        snprintf(seed, sizeof seed, " --seed %llu", (unsigned long long)p->seed);
    if (t->o->has_mutations)
        snprintf(mutations, sizeof mutations, " --mutations %llu", (unsigned long long)t->o->mutations);
    snprintf(out, size, "job_submit codecs test %s --check %s%s%s",
             text_shell_quote(text, sizeof text, t->text), check, seed, mutations);
}

static int keep_result(struct test *t, const struct codec_check *check, const struct codec_check_page *p,
                       struct err *e)
{
    static const struct {
        const char *shown, *json;
    } outcomes[] = {[CHECK_HOLDS] = {"ok", "ok"},
                    [CHECK_FAILED] = {"FAILED", "failed"},
                    [CHECK_NOT_FOR_IT] = {"-", "skipped"}};
    bool failed = p->outcome == CHECK_FAILED;
    char replay[PATH_MAX + 128];

    name_replay(replay, sizeof replay, t, check->name, p);
    t->has_failed = t->has_failed || failed;
    if (!t->o->json) {
        text_print("%-6s  %-9s  %s\n", outcomes[p->outcome].shown, check->name,
                   p->outcome == CHECK_HOLDS ? check->requirement : p->text);
        if (failed)
            text_print("%19s%s\n", "", replay);
        fflush(stdout);
    }
    if (json_array_append_new(t->results,
                              json_pack("{s:s, s:s, s:o, s:o?}", "check", check->name, "outcome",
                                        outcomes[p->outcome].json, "text", json_text(p->text, SIZE_MAX),
                                        "replay", failed ? json_text(replay, SIZE_MAX) : NULL)) < 0)
        return err_set(e, ERR_NOMEM, "no memory for the outcome of check %s", check->name);
    return 0;
}

/* The page is copied before it is checked, because the codec may write to it at any time. */
static int run_check(struct test *t, const struct codec_check *check, struct err *e)
{
    struct codec_check_page page;
    struct ending end = {0};
    struct child c;

    memset(t->page, 0, sizeof *t->page);
    if (start_test(&c, t, check->name, e) < 0 || await_test(&end, t, &c, e) < 0)
        return e->code;
    page = *t->page;
    page.callback[sizeof page.callback - 1] = '\0';
    page.what[sizeof page.what - 1] = '\0';
    page.text[sizeof page.text - 1] = '\0';
    explain_end(&page, &end);
    if (page.outcome < CHECK_HOLDS || page.outcome > CHECK_NOT_FOR_IT)
        return err_set(e, ERR_INTERNAL, "check %s: %s", check->name, page.text);
    return keep_result(t, check, &page, e);
}

static int run_checks(struct test *t, struct err *e)
{
    for (int i = 0; i < N_CODEC_CHECKS; i++)
        if ((!t->o->check[0] || strcmp(t->o->check, codec_checks[i].name) == 0) &&
            run_check(t, &codec_checks[i], e) < 0)
            return e->code;
    if (t->o->json)
        stdout_json(!t->has_failed,
                    json_pack("{s:s, s:o, s:O}", "codec", t->look.facts.name, "file",
                              json_text(t->look.file.path, SIZE_MAX), "checks", t->results),
                    NULL, NULL);
    else if (!t->o->check[0])
        text_print("\n%s: %s\n", t->look.facts.name,
                   t->has_failed ? "some checks failed" : "all checks passed");
    return t->has_failed ? EXIT_JOB_FAILED : 0;
}

/* Creates the folder with a link to the object, and the shared page. */
static int prepare_test(struct test *t, struct err *e)
{
    char dir[PATH_MAX], object[PATH_MAX], so[PATH_MAX];

    if (file_exe_dir(dir, sizeof dir, e) < 0 ||
        file_join(t->program, sizeof t->program, dir, "codec_check", e) < 0 ||
        file_join(so, sizeof so, t->folder.path, "codec.so", e) < 0 ||
        file_absolute(object, sizeof object, t->look.object, e) < 0)
        return e->code;
    if (symlink(object, so) < 0)
        return err_errno(e, ERR_IO, "%s", so);
    t->fd = memfd_create("codec_check", MFD_CLOEXEC);
    if (t->fd < 0 || ftruncate(t->fd, sizeof *t->page) < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    t->page = mmap(NULL, sizeof *t->page, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
    if (t->page == MAP_FAILED)
        return err_call(e, ERR_NOMEM, CALL_MAP, "mmap");
    t->results = json_array();
    return t->results ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int test_found(struct test *t, struct err *e)
{
    int rc;

    if (temp_open(&t->folder, e) < 0)
        return e->code;
    rc = prepare_test(t, e) < 0 ? e->code : run_checks(t, e);
    json_decref(t->results);
    if (t->page && t->page != MAP_FAILED)
        munmap(t->page, sizeof *t->page);
    if (t->fd >= 0)
        close(t->fd);
    temp_close(&t->folder);
    return rc;
}

static int check_name(const char *name, struct err *e)
{
    const char *names[N_CODEC_CHECKS + 1] = {NULL};
    const char *near;

    for (int i = 0; i < N_CODEC_CHECKS; i++) {
        names[i] = codec_checks[i].name;
        if (strcmp(names[i], name) == 0)
            return 0;
    }
    near = choice_near(name, names);
    err_set(e, ERR_USAGE, "--check: there is no check \"%s\"", name);
    return near ? err_hint(e, "Did you mean %s?", near) : err_hint(e, "Without --check all of them are run.");
}

int verb_codecs_test(const struct options *o, const char *text, struct err *e)
{
    struct test t = {.o = o, .text = text, .fd = -1};
    int rc;

    if (o->check[0] && check_name(o->check, e) < 0)
        return e->code;
    if (o->part > 0 && !o->check[0])
        return err_set(e, ERR_USAGE, "--seed repeats a part of one check: name the check with --check NAME");
    if (codec_look_open(&t.look, text, preset_names(), e) < 0)
        return e->code;
    rc = test_found(&t, e);
    codec_look_close(&t.look);
    return rc;
}
