#include "submit/sweep/sweep_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "submit/sweep/sweep_agents.h"
#include "submit/sweep/sweep_command.h"

enum { LOG_END = 4096 };

static const double GRACE_S = 30; /* for the end of a run after a signal: it releases reservations */

/* The text behind the last `key` ("error: ", "code: ") in the end of a log, up to its line's end; "":
 * none. */
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

/* True if the log says that no agent has the job, or that it is not in the list of jobs. */
static bool is_unknown(const char *log)
{
    char code[SWEEP_WHY];

    find_in_log(code, log, "code: ");
    return strcmp(code, "NOT_FOUND") == 0;
}

/* Starts the command, and clears it. The child has its own process group, so that Ctrl-C reaches it once,
 * from sweep_processes_stop(): a second signal would end it before it has released its reservations. */
static int start_command(struct sweep_process *p, struct sweep_command *command, struct err *e)
{
    /* O_NONBLOCK: with a pipe at this path, open() fails at once instead of waiting for a reader. */
    int fd = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    struct child_how how = {.argv = command->words, .out = fd, .err = fd, .is_foreign = true};
    int rc;

    if (fd < 0)
        rc = err_errno(e, ERR_IO, "%s", p->log);
    else if (command->has_failed)
        rc = err_set(e, ERR_NOMEM, "no memory for the arguments of a run");
    else
        rc = child_start(&p->child, &how, e);
    if (rc < 0)
        p->child = (struct child){0};
    if (fd >= 0)
        close(fd);
    sweep_command_clear(command);
    return rc;
}

bool sweep_can_resume(char earlier[PATH_MAX], const struct sweep *s, const struct sweep_run *run)
{
    const struct sweep_run before = {run->combination, run->repeat, run->rung - 1};
    char path[PATH_MAX];
    struct err ignored;

    return run->rung > 0 && sweep_run_folder(earlier, s, &before, &ignored) == 0 &&
           sweep_has_succeeded(s, &before) &&
           file_join(path, sizeof path, earlier, "checkpoints", &ignored) == 0 && access(path, F_OK) == 0;
}

static int start_run(struct sweep_process *p, struct err *e)
{
    struct sweep_command command;
    char earlier[PATH_MAX];

    if (file_remove_tree(p->folder, e) < 0)
        return e->code;
    if (sweep_can_resume(earlier, p->s, &p->run))
        sweep_command_resume(&command, p->s, &p->run, p->folder, p->agents, earlier);
    else
        sweep_command_anew(&command, p->s, &p->run, p->folder, p->agents,
                           p->run.rung == 0 && !p->s->begins_anew[p->run.combination]);
    return start_command(p, &command, e);
}

bool sweep_has_job(const struct sweep *s, const struct sweep_run *run)
{
    char folder[PATH_MAX];
    struct sweep_earlier earlier;
    struct err ignored;

    if (sweep_run_folder(folder, s, run, &ignored) < 0)
        return false;
    sweep_find_earlier(&earlier, s, folder);
    return earlier.id[0] && !earlier.is_done;
}

int sweep_process_start(struct sweep_process *p, const struct sweep *s, const struct sweep_run *run,
                        size_t lane, struct err *e)
{
    struct sweep_command command;
    struct sweep_earlier earlier;

    *p = (struct sweep_process){.s = s, .run = *run};
    if (sweep_run_folder(p->folder, s, run, e) < 0 || sweep_run_path(p->log, s, "logs", ".log", run, e) < 0 ||
        sweep_lane_list(p->agents, s, lane, e) < 0)
        return e->code;
    sweep_find_earlier(&earlier, s, p->folder);
    p->is_waiting = earlier.id[0];
    if (!p->is_waiting)
        return start_run(p, e);
    sweep_command_wait(&command, s, earlier.id, p->folder);
    return start_command(p, &command, e);
}

int sweep_process_ended(struct sweep_process *p, enum sweep_state *state, char why[SWEEP_WHY], struct err *e)
{
    int status = child_wait(&p->child);
    bool was_waiting = p->is_waiting;
    struct sweep_earlier earlier;

    p->is_waiting = false;
    why[0] = '\0';
    sweep_find_earlier(&earlier, p->s, p->folder);
    *state = earlier.is_done ? SWEEP_SUCCEEDED : SWEEP_FAILED;
    if (earlier.is_done)
        return 0;
    if (was_waiting && (!earlier.id[0] || earlier.has_ended || is_unknown(p->log))) {
        *state = SWEEP_RUNNING;
        return start_run(p, e);
    }
    read_why(why, status, p->log);
    return 0;
}

void sweep_processes_stop(struct sweep_process *p, size_t n)
{
    double until = clock_now() + GRACE_S;

    for (size_t i = 0; i < n; i++)
        if (p[i].child.pid > 0)
            kill(-p[i].child.pid, SIGTERM);
    for (size_t i = 0; i < n; i++) {
        struct pollfd ended = {.fd = p[i].child.fd, .events = POLLIN};

        if (p[i].child.pid == 0)
            continue;
        for (double left = GRACE_S; left > 0 && poll(&ended, 1, (int)(left * 1e3) + 1) <= 0;)
            left = until - clock_now();
        child_end(&p[i].child, 0);
    }
}
