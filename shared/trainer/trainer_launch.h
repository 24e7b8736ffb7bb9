/* trainer_launch -- a part of psgd_trainer.c, static so that a program is compiled with one file of psgd's:
 * a program that mpirun, torchrun or srun has started starts the process that runs its node, job_submit
 * run-ranks, as python/psgd/trainer_launch.py does. Which process of the launcher this is, and in which
 * folder the job lies, is found there (submit/verbs/verb_run_ranks.c). */
#ifndef PSGD_TRAINER_LAUNCH_H
#define PSGD_TRAINER_LAUNCH_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCH_OPTIONS "PSGD_OPTIONS"
#define LAUNCH_JOB     "PSGD_JOB"

enum { LAUNCH_WORDS = 7, LAUNCH_TEXT = 512 };

/* Of launchers, in each process that they start (shared/job/launch_rank.c). */
static const struct {
    const char *rank, *size; /* size NULL: the launcher sets no number of processes */
    bool needs_size;         /* a batch script of Slurm's has the rank, too, but not this number */
} launch_variables[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"PMI_RANK", "PMI_SIZE", false},
    {"PMIX_RANK", NULL, false},
    {"RANK", "WORLD_SIZE", false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", true},
    {"JOB_COMPLETION_INDEX", NULL, false},
};

/* For the handler of SIGTERM: psgd's process, 0: none, and this one. */
static struct {
    volatile sig_atomic_t pid, owner;
} launch_signal;

/* The variable of the launcher that has started this process; NULL: none has, or it is the only process. */
static const char *launch_rank_variable(void)
{
    for (size_t i = 0; i < sizeof launch_variables / sizeof *launch_variables; i++) {
        const char *size = launch_variables[i].size ? getenv(launch_variables[i].size) : NULL;
        bool is_alone = size && size[0] ? strcmp(size, "1") == 0 : launch_variables[i].needs_size;

        if (getenv(launch_variables[i].rank) && !is_alone)
            return launch_variables[i].rank;
    }
    return NULL;
}

/* Is the program to take part in a job, rather than be alone? */
static bool launch_is_wanted(void)
{
    return getenv(LAUNCH_OPTIONS) || (getenv(LAUNCH_JOB) && launch_rank_variable());
}

/* A launcher that ends its job tells each program: the node ends after the present step, with its records,
 * and the program by what psgd_next returns. Where no process of psgd's runs, and in a forked child, the
 * signal has its usual effect. */
static void launch_pass_on(int number)
{
    const int error = errno;
    siginfo_t ended = {0};

    if (launch_signal.pid == 0 || getpid() != launch_signal.owner ||
        waitid(P_PID, (id_t)launch_signal.pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        ended.si_pid != 0 || kill(launch_signal.pid, number) < 0) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = error;
}

/* Unless the program handles the signal itself. */
static void launch_handle_signal(void)
{
    const struct sigaction own = {.sa_handler = launch_pass_on, .sa_flags = SA_RESTART};
    struct sigaction now;

    if (sigaction(SIGTERM, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
        sigaction(SIGTERM, &own, NULL);
}

/* The words of this process's command line, each with its zero, for which the caller calls free(). NULL: it
 * cannot be read. */
static char *launch_read_words(size_t *n_bytes)
{
    FILE *f = fopen("/proc/self/cmdline", "re");
    char *text = NULL;
    size_t room = 0, n = 0;

    while (f && n == room) {
        char *more = room <= SIZE_MAX / 4 ? realloc(text, 2 * room + PATH_MAX) : NULL;

        if (!more)
            break;
        text = more;
        room = 2 * room + PATH_MAX;
        n += fread(text + n, 1, room - n, f);
    }
    if (f)
        fclose(f);
    if (n == 0 || n == room || text[n - 1] != '\0') {
        free(text);
        return NULL;
    }
    *n_bytes = n;
    return text;
}

/* run-ranks, with this program and its arguments; NULL: no memory. The words are the caller's. */
static char **launch_make_command(char *submit, char *number, char *program, char *words, size_t n_bytes)
{
    static char verb[] = "run-ranks", fd[] = "--program-fd", trainer[] = "--trainer", rest[] = "--";
    char *const first[LAUNCH_WORDS] = {submit, verb, fd, number, trainer, program, rest};
    char **command = calloc(LAUNCH_WORDS + n_bytes + 1, sizeof *command); /* a word has a byte or more */
    char *word = words + strlen(words) + 1;

    if (!command)
        return NULL;
    memcpy(command, first, sizeof first);
    for (size_t n = LAUNCH_WORDS; word < words + n_bytes; word += strlen(word) + 1)
        command[n++] = word;
    return command;
}

/* Its output goes to this program's stderr. The socket is inherited under the number that this program's end
 * has here: the number is of no use there, and no other process that this one starts inherits the socket. */
static int launch_spawn(pid_t *pid, char *const *command, int theirs, int own)
{
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    rc = posix_spawn_file_actions_adddup2(&actions, theirs, own);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawnp(pid, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Two ends, neither of which has a number of standard input, output or error. */
static int launch_make_sockets(int ends[2])
{
    int low[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, low) < 0)
        return errno;
    for (int i = 0; i < 2; i++)
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low[0]);
    close(low[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return 0;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    return EMFILE;
}

/* Starts psgd's process beside this program, by `command`, with the socket *out. */
static pid_t launch_start_command(int *out, char *const *command, char *number, size_t size, char *why)
{
    int ends[2] = {-1, -1}, rc = launch_make_sockets(ends);
    pid_t pid = -1;

    if (rc != 0) {
        snprintf(why, LAUNCH_TEXT, "no socket for psgd's process beside this program: %s", strerror(rc));
        return -1;
    }
    snprintf(number, size, "%d", ends[0]);
    launch_handle_signal();
    rc = launch_spawn(&pid, command, ends[1], ends[0]);
    close(ends[1]);
    if (rc == 0) {
        launch_signal.owner = (sig_atomic_t)getpid();
        launch_signal.pid = (sig_atomic_t)pid;
        *out = ends[0];
        return pid;
    }
    close(ends[0]);
    snprintf(
        why, LAUNCH_TEXT,
        "%.200s, which runs this program's node, cannot be started (%s): have job_submit in PATH, or name it "
        "by PSGD_JOB_SUBMIT",
        command[0], strerror(rc));
    return -1;
}

/* Returns psgd's process, and in *out the socket; -1: `why`, of LAUNCH_TEXT bytes, has a sentence. */
static pid_t launch_start(int *out, char *why)
{
    static char default_name[] = "job_submit";
    char program[PATH_MAX], number[12], *named = getenv("PSGD_JOB_SUBMIT"), *words = NULL, **command = NULL;
    size_t n_bytes = 0;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    pid_t pid = -1;

    if (n > 0)
        words = launch_read_words(&n_bytes);
    if (words) {
        program[n] = '\0';
        command = launch_make_command(named && named[0] ? named : default_name, number, program, words,
                                      n_bytes);
    }
    if (command)
        pid = launch_start_command(out, command, number, sizeof number, why);
    else
        snprintf(why, LAUNCH_TEXT,
                 "this program's file and arguments, of which psgd keeps a copy with the job, cannot be read "
                 "from /proc/self, or there is no memory for them");
    free(command);
    free(words);
    return pid;
}

/* Waits until psgd's process has ended: the node's records are written, and in process 0 all nodes have ended
 * and the results are collected. Returns its exit status, as a shell does. */
static int launch_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    launch_signal.pid = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
