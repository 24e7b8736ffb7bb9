/* limit SECONDS COMMAND [ARGUMENT...]: runs the command, which SIGALRM ends when the time is over. An alarm
 * survives exec, so process id, signals and exit status are the command's own. What the command starts has no
 * alarm: tests/tool/reap ends that. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int seconds = argc > 2 ? atoi(argv[1]) : 0;

    if (seconds <= 0) {
        fprintf(stderr, "usage: limit SECONDS COMMAND [ARGUMENT...]\n");
        return 2;
    }
    alarm((unsigned)seconds);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
