/* find_connections -- the mean of gradients, with a thread that looks for connections in its process
 * while the mesh opens, and speaks HTTP on each that it finds: reached.txt in the run folder has a line
 * for each. A job with a connection trains when the thread has found it. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "mean.h"

enum { FILES = 128 };

static atomic_bool has_found;

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
            has_found = true;
        }
    return NULL;
}

static int find_connections_open(struct codec *c)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, look, NULL) == 0 ? CODEC_GO : codec_fail(c, "no thread");
}

static int encode_when_found(struct codec *c, struct wire_out *out)
{
    while (!has_found)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return mean_encode(c, out);
}

static const struct codec_round find_connections = {.encode = encode_when_found, .merge = mean_merge};

CODEC_PLUGIN(.name = "find_connections", .source = "a test", .open = find_connections_open,
             .more = CODEC_MORE(.round = &find_connections))
