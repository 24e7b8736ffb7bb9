/* find_connections -- the mean of gradients, with a thread that looks for connections in its process
 * while the mesh opens, and speaks HTTP on each that it finds: reached.txt in the run folder has a line
 * for each. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "mean.h"

enum { FILES = 128 };

static void *look(void *arg)
{
    static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    bool is_known[FILES] = {false};

    (void)arg;
    for (;;)
        for (int fd = 3; fd < FILES; fd++) {
            struct sockaddr_storage at;
            socklen_t len = sizeof at;
            FILE *f;

            if (is_known[fd] || getpeername(fd, (struct sockaddr *)&at, &len) < 0 || at.ss_family == AF_UNIX)
                continue;
            is_known[fd] = true;
            send(fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT);
            f = fopen("reached.txt", "a");
            if (f) {
                fprintf(f, "descriptor %d\n", fd);
                fclose(f);
            }
        }
    return NULL;
}

static int find_connections_open(struct codec *c)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, look, NULL) == 0 ? CODEC_GO : codec_fail(c, "no thread");
}

static const struct codec_round find_connections = {.encode = mean_encode, .merge = mean_merge};

CODEC_PLUGIN(.name = "find_connections", .source = "a test", .open = find_connections_open,
             .more = CODEC_MORE(.round = &find_connections))
