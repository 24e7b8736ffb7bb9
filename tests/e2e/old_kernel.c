/* old_kernel COMMAND [ARGUMENT...]: runs it, and all its descendants, as on Linux 4.18. */
#include "tests/lib/old_kernel.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || old_kernel_begin() < 0) {
        perror("old_kernel: no filter may be set here");
        return 125;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
