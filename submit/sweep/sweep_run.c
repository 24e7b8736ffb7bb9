#include "submit/sweep/sweep_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "shared/job/job_state.h"
#include "submit/files/job_id.h"
#include "submit/results/job_index.h"
#include "submit/results/run_find.h"
#include "submit/terminal/interrupt.h"

enum { LOG_END = 4096 };
static const double grace_s = 30; /* for the end of a run after a signal: it releases reservations */

/* What an earlier attempt left of a run. */
struct left {
    bool is_done;        /* it has succeeded, and all its results are there */
    bool has_ended;      /* anyhow, as far as its run.json knows */
    char id[JOB_ID_MAX]; /* of a job on agents that may have more; "": there is none */
};

static void find_left(struct left *l, const struct sweep *s, const char *folder)
{
    enum job_state state;
    struct err ignored;
    const char *id, *name;
    struct run r;

    *l = (struct left){0};
    if (access(folder, F_OK) < 0)
        return;
    if (run_find(&r, folder, &ignored) < 0) { /* it may have been killed just after its job had started */
        if (!s->opt->simulate)
            job_index_in_folder(l->id, folder, &ignored);
        return;
    }
    id = json_string_value(json_object_get(r.doc, "id"));
    name = json_string_value(json_object_get(r.doc, "state"));
    l->has_ended = name && job_state_parse(&state, name) && job_state_is_terminal(state);
    l->is_done = l->has_ended && state == JOB_SUCCEEDED &&
                 json_is_true(json_object_get(r.doc, "is_complete"));
    if (!s->opt->simulate && id && (!l->has_ended || state == JOB_SUCCEEDED))
        snprintf(l->id, sizeof l->id, "%s", id);
    run_clear(&r);
}

bool sweep_has_run(const struct sweep *s, size_t combination, size_t repeat)
{
    char folder[PATH_MAX];
    struct err ignored;
    struct left l;

    if (sweep_run_folder(folder, s, combination, repeat, &ignored) < 0)
        return false;
    find_left(&l, s, folder);
    return l.is_done;
}

/* Its status; the child has ended in any case. It has its own process group: of Ctrl-C it hears once, from
 * here, as a second signal would end it before it releases its reservations. */
static int run_child(int *status, char *const *argv, const char *log, struct err *e)
{
    /* O_NONBLOCK: a pipe in its place is refused, and not waited for. */
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    struct child_how how = {.argv = argv, .out = fd, .err = fd, .is_foreign = true};
    struct child c;
    int rc;

    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", log);
    rc = child_start(&c, &how, e);
    close(fd);
    if (rc < 0)
        return rc;
    for (;;) {
        struct pollfd p[] = {{.fd = c.fd, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};

        if (poll(p, 2, -1) < 0 && errno != EINTR)
            break;
        if (p[0].revents || interrupt_signal())
            break;
    }
    *status = interrupt_signal() ? child_end(&c, grace_s) : child_wait(&c);
    return interrupt_check(e);
}

/* The rest of the last line of a log that has `key`: "error: ", "code: "; "": there is none. */
static void find_in_log(char out[SWEEP_WHY], const char *log, const char *key)
{
    char text[LOG_END + 1];
    int fd = open(log, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, LOG_END, end > LOG_END ? end - LOG_END : 0);
    const char *found = NULL;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        found = at;
    }
    snprintf(out, SWEEP_WHY, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
    utf8_clean(out, strlen(out), false);
}

static void read_why(char why[SWEEP_WHY], int status, const char *log)
{
    find_in_log(why, log, "error: ");
    if (!why[0]) { /* "ERROR User Submit@10:50:19 : ..." */
        find_in_log(why, log, "ERROR User Submit@");
        memmove(why, why + strspn(why, "0123456789: "), strlen(why + strspn(why, "0123456789: ")) + 1);
    }
    if (!why[0] && WIFSIGNALED(status))
        snprintf(why, SWEEP_WHY, "killed by signal %d", WTERMSIG(status));
    else if (!why[0])
        snprintf(why, SWEEP_WHY, "it ended with status %d", WEXITSTATUS(status));
}

static void add_word(struct sweep_words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add_word(struct sweep_words *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (w->n + 1 == SWEEP_ARGUMENTS || vasprintf(&w->of[w->n], fmt, ap) < 0) {
        w->has_failed = true;
        w->of[w->n] = NULL;
    } else {
        w->n++;
    }
    va_end(ap);
}

/* Takes ownership of the list. */
static void add_words(struct sweep_words *w, json_t *list)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v) add_word(w, "%s", json_string_value(v));
    json_decref(list);
}

/* Runs it, and frees the arguments. */
static int run_words(int *status, struct sweep_words *w, const char *log, struct err *e)
{
    int rc = w->has_failed ? err_set(e, ERR_NOMEM, "no memory for the arguments of a run")
                           : run_child(status, w->of, log, e);

    sweep_words_clear(w);
    return rc;
}

void sweep_words_clear(struct sweep_words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->of[i]);
    *w = (struct sweep_words){.n = 0};
}

/* A --name among the options of all runs comes later, and counts. */
void sweep_words_of_run(struct sweep_words *w, const struct sweep *s, size_t combination, size_t repeat,
                        const char *folder)
{
    char name[sizeof s->opt->settings.name];

    sweep_job_name(name, sizeof name, &s->plan, combination, repeat);
    *w = (struct sweep_words){.n = 0};
    add_word(w, "%s", s->program);
    add_word(w, s->opt->simulate ? "simulate" : "submit");
    add_word(w, "--name=%s", name);
    if (s->opt->simulate &&
        !s->opt->measured[0]) /* what differs between runs should not be what was measured */
        add_word(w, "--measured=%s/measured.json", s->folder);
    add_words(w, json_incref(s->base));
    for (size_t i = 0; i < s->plan.n_axes; i++)
        add_word(w, "--set=%s=%s", s->plan.axes[i].key, sweep_value(&s->plan, combination, i));
    if (s->plan.has_seeds)
        add_word(w, "--set=seed=%llu", (unsigned long long)(s->plan.first_seed + repeat));
    add_word(w, "--output=%s", folder);
}

/* A new run: submit or simulate, the options of all runs, the values of this one. */
static int run_new(int *status, const struct sweep *s, size_t combination, size_t repeat, const char *folder,
                   const char *log, struct err *e)
{
    struct sweep_words w;

    if (file_remove_tree(folder, e) < 0)
        return e->code;
    sweep_words_of_run(&w, s, combination, repeat, folder);
    return run_words(status, &w, log, e);
}

/* Watches a job that was left running on agents to its end. */
static int run_left(int *status, const struct sweep *s, const char *id, const char *folder, const char *log,
                    struct err *e)
{
    struct sweep_words w = {.n = 0};

    add_word(&w, "%s", s->program);
    add_word(&w, "wait");
    add_word(&w, "%s", id);
    add_words(&w, sweep_options(s->opt, FOR_WAIT));
    add_word(&w, "--output=%s", folder);
    return run_words(status, &w, log, e);
}

/* No agent knows the job, or the index does not. */
static bool is_unknown(const char *log)
{
    char code[SWEEP_WHY];

    find_in_log(code, log, "code: ");
    return strcmp(code, "NOT_FOUND") == 0;
}

int sweep_run(enum sweep_state *state, char why[SWEEP_WHY], const struct sweep *s, size_t combination,
              size_t repeat, struct err *e)
{
    char folder[PATH_MAX], log[PATH_MAX];
    struct left left;
    int status = 0;

    *state = SWEEP_SUCCEEDED;
    why[0] = '\0';
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 ||
        sweep_path(log, s, "logs", ".log", combination, repeat, e) < 0)
        return e->code;
    find_left(&left, s, folder);
    if (left.id[0] && !left.is_done) {
        if (run_left(&status, s, left.id, folder, log, e) < 0)
            return e->code;
        find_left(&left, s, folder);
        if (left.has_ended || is_unknown(log))
            left.id[0] = '\0';
    }
    if (!left.is_done && !left.id[0]) {
        if (run_new(&status, s, combination, repeat, folder, log, e) < 0)
            return e->code;
        find_left(&left, s, folder);
    }
    if (!left.is_done) {
        *state = SWEEP_FAILED;
        read_why(why, status, log);
    }
    return 0;
}
