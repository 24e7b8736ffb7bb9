#include "submit/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Open for the wrong direction, after gnulib's stdopen: what is done there fails, as it does where nothing is
 * open. */
void output_init(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            break; /* not even that: whatever is opened later fails as well, and says so */
    signal(SIGPIPE, SIG_IGN);
}

bool output_has_failed(void)
{
    return ferror(stdout);
}

/* Which write failed, and with which errno, is long gone; but a pipe says that nobody is at its other end. */
static bool has_no_reader(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};

    return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

int output_finish(struct err *e)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (has_no_reader())
        return 128 + SIGPIPE;
    err_set(e, ERR_IO, "standard output could not be written");
    return err_hint(e, "It is closed, or its disk is full.");
}
