#include "submit/sweep/sweep_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/child.h"
#include "shared/file.h"
#include "shared/json.h"
#include "shared/utf8.h"
#include "submit/interrupt.h"
#include "submit/options_table.h"
#include "submit/results/run_find.h"

enum { ARGUMENTS = 4 * ARGS_MAX, SWEEP_JSON_MAX = 64 << 20, LOG_END = 4096 };
static const double grace_s = 30; /* for the end of a run after a signal: it releases reservations */

static int lock(struct sweep *s, struct err *e)
{
    s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->lock < 0)
        return err_errno(e, ERR_IO, "%s", s->folder);
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(e, ERR_CONFLICT, "%s: another sweep is at work there", s->folder);
    return 0;
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct err ignored;

    return file_join(path, sizeof path, folder, name, &ignored) == 0 && access(path, F_OK) == 0;
}

/* The options of the sweep in the folder must be those of this command: its runs are not run again. */
static int check_base(const struct sweep *s, const char *path, struct err *e)
{
    json_t *doc, *wanted = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
    const json_t *then;
    int rc;

    if (json_read(&doc, path, SWEEP_JSON_MAX, e) < 0) {
        json_decref(wanted);
        return e->code;
    }
    then = json_object_get(doc, "options");
    rc = json_equal(doc, wanted) ? 0
                                 : err_set(e, ERR_CONFLICT, "%s has a sweep with other options", s->folder);
    if (rc < 0) {
        char *text = json_is_array(then) ? json_dump(then, JSON_COMPACT) : NULL;

        err_hint(e, "Its options are %.200s%s; name another folder for others: -o DIR",
                 text ? text : "unknown",
                 json_is_true(json_object_get(doc, "simulated")) ? ", with --simulate" : "");
        free(text);
    }
    json_decref(wanted);
    json_decref(doc);
    return rc;
}

static int begin(struct sweep *s, const char *path, struct err *e)
{
    json_t *doc = json_pack("{s:b, s:O}", "simulated", s->opt->simulate, "options", s->base);
    char *text = doc ? json_dump_line(doc, JSON_INDENT(1)) : NULL;
    int rc = text ? file_write(path, text, strlen(text), 0644, e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    json_decref(doc);
    return rc;
}

/* The options given, except those of the sweep itself. */
static json_t *base_options(const struct options *o, struct err *e)
{
    json_t *list = json_array();

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        bool is_config = t->offset == offsetof(struct options, config);
        char name[ARGS_NAME], value[PATH_MAX];

        if (!o->args.given[i] || (t->verbs & FOR_SWEEP) || t->group == OUTPUT ||
            t->offset == offsetof(struct options, output) || t->offset == offsetof(struct options, sets))
            continue;
        args_name(name, t);
        if (!(t->verbs & (o->simulate ? FOR_SIMULATE : FOR_SUBMIT))) {
            err_set(e, ERR_USAGE,
                    o->simulate ? "--%s is for jobs on agents"
                                : "--%s is for simulations: give --simulate too",
                    name);
            json_decref(list);
            return NULL;
        }
        for (const char *const *item = (const char *const *)((const char *)o + t->offset);
             t->kind == ARGS_LIST && *item; item++)
            json_array_append_new(list, json_sprintf("--%s=%s", name, *item));
        if (t->kind == ARGS_LIST)
            continue;
        args_text(value, sizeof value, t, o);
        if (is_config || t->kind != ARGS_FLAG)
            json_array_append_new(list, json_sprintf("--%s=%s", name, value));
        else if (strcmp(value, "yes") == 0)
            json_array_append_new(list, json_sprintf("--%s", name));
    }
    return list;
}

int sweep_open(struct sweep *s, struct err *e)
{
    char path[PATH_MAX], sub[PATH_MAX];

    s->lock = -1;
    s->base = base_options(s->opt, e);
    if (!s->base || file_exe_dir(sub, sizeof sub, e) < 0 ||
        file_join(s->program, sizeof s->program, sub, "job_submit", e) < 0 ||
        file_absolute(s->folder, sizeof s->folder, s->opt->output, e) < 0 ||
        file_mkdirs(s->folder, 0777, e) < 0 || lock(s, e) < 0 ||
        file_join(path, sizeof path, s->folder, "sweep.json", e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 ? check_base(s, path, e) < 0
        : has_file(s->folder, "run.json")
            ? err_set(e, ERR_CONFLICT, "%s has the results of a job", s->folder) < 0
            : begin(s, path, e) < 0)
        return e->code;
    if (file_join(sub, sizeof sub, s->folder, "logs", e) < 0 || file_mkdirs(sub, 0777, e) < 0 ||
        file_join(sub, sizeof sub, s->folder, "runs", e) < 0)
        return e->code;
    return file_mkdirs(sub, 0777, e);
}

void sweep_close(struct sweep *s)
{
    sweep_plan_clear(&s->plan);
    json_decref(s->base);
    if (s->lock >= 0)
        close(s->lock);
    s->base = NULL;
    s->lock = -1;
}

static int path_of(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
                   size_t combination, size_t repeat, struct err *e)
{
    char name[SWEEP_NAME], below[SWEEP_NAME + 16];

    sweep_name(name, &s->plan, combination, repeat);
    snprintf(below, sizeof below, "%s/%s%s", sub, name, ending);
    return file_join(out, PATH_MAX, s->folder, below, e);
}

int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, size_t combination, size_t repeat,
                     struct err *e)
{
    return path_of(out, s, "runs", "", combination, repeat, e);
}

/* *id: of a job whose end is not known; NULL: there is none. */
static bool has_ended(const char *folder, char *id, size_t size)
{
    const char *state, *its_id;
    struct err ignored;
    struct run r;
    bool is_done;

    if (id)
        id[0] = '\0';
    if (access(folder, F_OK) < 0 || run_find(&r, folder, &ignored) < 0)
        return false;
    state = json_string_value(json_object_get(r.doc, "state"));
    its_id = json_string_value(json_object_get(r.doc, "id"));
    is_done = state && strcmp(state, "succeeded") == 0 && json_is_true(json_object_get(r.doc, "is_complete"));
    if (id && its_id && !(state && (strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0)))
        snprintf(id, size, "%s", its_id);
    run_clear(&r);
    return is_done;
}

bool sweep_has_run(const struct sweep *s, size_t combination, size_t repeat)
{
    char folder[PATH_MAX];
    struct err ignored;

    return sweep_run_folder(folder, s, combination, repeat, &ignored) == 0 && has_ended(folder, NULL, 0);
}

/* Its status; the child has ended in any case. It has its own process group: of Ctrl-C it hears once, from
 * here, as a second signal would end it before it releases its reservations. */
static int run_child(int *status, char *const *argv, const char *log, struct err *e)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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

/* The last line "error: ..." of a log. */
static void find_error(char why[256], const char *log)
{
    char text[LOG_END + 1];
    int fd = open(log, O_RDONLY | O_CLOEXEC);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, LOG_END, end > LOG_END ? end - LOG_END : 0);
    const char *found = NULL;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, "error: ")) != NULL; at++)
        found = at + 7;
    snprintf(why, 256, "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
    utf8_clean(why, strlen(why), false);
}

/* submit or simulate, the options of all runs, the values of this one. */
static int put_arguments(char **argv, const struct sweep *s, const char *folder, size_t combination,
                         size_t repeat, struct err *e)
{
    size_t n = 0, i;
    const json_t *v;

    argv[n++] = strdup(s->program);
    argv[n++] = strdup(s->opt->simulate ? "simulate" : "submit");
    json_array_foreach(s->base, i, v) argv[n++] = strdup(json_string_value(v));
    for (i = 0; i < s->plan.n_axes; i++)
        if (asprintf(&argv[n++], "--set=%s=%s", s->plan.axes[i].key, sweep_value(&s->plan, combination, i)) <
            0)
            argv[n - 1] = NULL;
    if (s->plan.has_seeds &&
        asprintf(&argv[n++], "--set=seed=%llu", (unsigned long long)(s->plan.first_seed + repeat)) < 0)
        argv[n - 1] = NULL;
    if (asprintf(&argv[n++], "--output=%s", folder) < 0)
        argv[n - 1] = NULL;
    for (i = 0; i < n; i++)
        if (!argv[i])
            return err_set(e, ERR_NOMEM, "no memory for the arguments of a run");
    return 0;
}

/* A job that was left running on agents is watched to its end. */
static int wait_for_left(int *status, const struct sweep *s, char *id, char *folder, const char *log,
                         struct err *e)
{
    char program[PATH_MAX], verb[] = "wait", output[] = "-o";
    char *argv[] = {program, verb, id, output, folder, NULL};

    memcpy(program, s->program, sizeof program);
    return run_child(status, argv, log, e);
}

int sweep_run(enum sweep_state *state, char why[256], const struct sweep *s, size_t combination,
              size_t repeat, struct err *e)
{
    char folder[PATH_MAX], log[PATH_MAX], id[64];
    char **argv;
    int status = 0, rc = 0;

    *state = SWEEP_SUCCEEDED;
    why[0] = '\0';
    if (sweep_run_folder(folder, s, combination, repeat, e) < 0 ||
        path_of(log, s, "logs", ".log", combination, repeat, e) < 0)
        return e->code;
    if (!has_ended(folder, id, sizeof id) && id[0] && !s->opt->simulate &&
        wait_for_left(&status, s, id, folder, log, e) < 0)
        return e->code;
    if (has_ended(folder, NULL, 0))
        return 0;
    argv = calloc(ARGUMENTS, sizeof *argv);
    if (!argv)
        return err_set(e, ERR_NOMEM, "no memory for a run");
    if (file_remove_tree(folder, e) < 0 || put_arguments(argv, s, folder, combination, repeat, e) < 0 ||
        run_child(&status, argv, log, e) < 0)
        rc = e->code;
    for (size_t i = 0; i < ARGUMENTS; i++)
        free(argv[i]);
    free(argv);
    if (rc == 0 && !has_ended(folder, NULL, 0)) {
        *state = SWEEP_FAILED;
        find_error(why, log);
        if (!why[0] && WIFSIGNALED(status))
            snprintf(why, 256, "killed by signal %d", WTERMSIG(status));
        else if (!why[0])
            snprintf(why, 256, "it ended with status %d", WEXITSTATUS(status));
    }
    return rc;
}
