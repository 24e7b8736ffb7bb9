/* limit SECONDS COMMAND [ARGUMENT...]: runs the command, which SIGALRM ends after this time. An alarm
 * survives exec, so process id, signals and exit status are the command's own. Child processes of the
 * command have no alarm: tests/tool/reap ends them. */
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
