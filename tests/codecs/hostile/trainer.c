/* Acts on the training program of a job: its files, its process, and the memory that it shares with its node.
 * In a job without one, there is only that of another job. */
#include <signal.h>
#include <sys/mman.h>

#include "acts.h"

static int read_program(void)
{
    return opens("../trainer/program/train", O_RDONLY);
}
static int read_other_program(void)
{
    return opens("../../j-other000/trainer/program/train", O_RDONLY);
}
static int write_program(void)
{
    return opens("../trainer/program/train", O_WRONLY);
}
static int write_beside_program(void)
{
    return opens("../trainer/program/hostile", O_WRONLY | O_CREAT);
}
static int write_program_tmp(void)
{
    return opens("../trainer/tmp/hostile", O_WRONLY | O_CREAT);
}
static int list_program(void)
{
    return lists("../trainer/program");
}
/* The number of the program is not known here: it is one of those behind that of this process. */
enum { N_NEIGHBORS = 200 };

/* Tries on each of them, and on another process of the user. */
static int on_process(int (*act)(pid_t pid, const void *how), const void *how)
{
    int why = act(hostile_now->pid, how);

    for (int i = 1; i <= N_NEIGHBORS && why != 0; i++)
        if (act(getpid() + i, how) == 0)
            why = 0;
    return why;
}

struct way {
    const char *name;
    int flags;
};

static int opens_of(pid_t pid, const void *how)
{
    const struct way *w = how;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, w->name);
    return opens(path, w->flags);
}
static int opens_of_process(const char *name, int flags)
{
    return on_process(opens_of, &(struct way){name, flags});
}
static int signals(pid_t pid, const void *how)
{
    (void)how;
    return result(kill(pid, SIGURG));
}
static int signal_program(void)
{
    return on_process(signals, NULL);
}
static int read_program_mem(void)
{
    return opens_of_process("mem", O_RDWR);
}
static int read_program_environ(void)
{
    return opens_of_process("environ", O_RDONLY);
}
static int read_program_socket(void)
{
    return opens_of_process("fd/3", O_RDWR);
}
static int read_program_folder(void)
{
    return opens_of_process("cwd/train", O_RDONLY);
}

/* Tries on each memory file that has the seals of the memory shared with the program, which this process has
 * open, too. */
static int on_memory(int (*act)(int fd))
{
    int why = ENOENT;

    for (int fd = 0; fd < 1024 && why != 0; fd++)
        if (fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
            why = act(fd);
    return why;
}
/* The program could map it no longer for writing. */
static int seal_fd(int fd)
{
    return result(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
}
static int seal_memory(void)
{
    return on_memory(seal_fd);
}
/* The program would get SIGBUS. */
static int shrink_fd(int fd)
{
    return result(ftruncate(fd, 0));
}
static int shrink_memory(void)
{
    return on_memory(shrink_fd);
}

const struct act hostile_trainer[] = {
    ACT(read_program),        ACT(read_other_program),
    ACT(write_program),       ACT(write_beside_program),
    ACT(write_program_tmp),   ACT(list_program),
    ACT(read_program_mem),    ACT(read_program_environ),
    ACT(read_program_socket), ACT(read_program_folder),
    ACT(signal_program),      ACT(seal_memory),
    ACT(shrink_memory),       {0},
};
