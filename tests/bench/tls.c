/* tls -- GB/s from one process to another over loopback, one processor each, in messages of a header and a
 * payload: plain TCP and TLS compared, and the time of a TLS handshake. The best of ROUNDS. Beside each, GB
 * per second of processor time of the end that needs more of it, which also holds on a busy machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/tcp/tls.h"
#include "shared/base/clock.h"

enum { ROUNDS = 7, HEADER = 64, TOTAL = 200000000 };

static const size_t sizes[] = {4096, 65536, 262144, 4000000};
static const uint8_t key[TLS_KEY_BYTES] = {7};
static uint8_t bytes[4000000];

static void pin(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    poll(&p, 1, -1);
}

static struct tls *shake_hands(int fd, bool is_server)
{
    struct tls *t;
    struct err e;
    int rc;

    if (tls_new(&t, fd, is_server, "bench", key, &e) < 0)
        exit(1);
    while ((rc = tls_handshake(t, &e)) > 0)
        wait_for(fd, rc == TLS_WANTS_READ ? POLLIN : POLLOUT);
    if (rc < 0)
        exit(1);
    return t;
}

static void send_message(int fd, struct tls *t, size_t len)
{
    for (size_t sent = 0; sent < HEADER + len;) {
        size_t head = sent < HEADER ? HEADER - sent : 0, at = sent < HEADER ? 0 : sent - HEADER;
        struct iovec v[2] = {{bytes, head}, {bytes + at, len - at}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = t ? tls_send(t, v, 2) : sendmsg(fd, &m, MSG_DONTWAIT);

        must(n >= 0 || errno == EAGAIN, "send");
        if (n < 0)
            wait_for(fd, POLLOUT);
        else
            sent += (size_t)n;
    }
}

static void receive(int fd, struct tls *t, size_t len)
{
    for (size_t got = 0; got < len;) {
        size_t want = len - got < sizeof bytes ? len - got : sizeof bytes;
        ssize_t n = t ? tls_recv(t, bytes, want) : recv(fd, bytes, want, MSG_DONTWAIT);

        must(n > 0 || (n < 0 && errno == EAGAIN), "receive");
        if (n < 0)
            wait_for(fd, POLLIN);
        else
            got += (size_t)n;
    }
}

/* Processor time until now, of this process or of the children that have ended. */
static double cpu_time(int of_whom)
{
    struct rusage u;

    getrusage(of_whom, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void keep_best(double *best, double rate)
{
    *best = rate > *best ? rate : *best;
}

static int connected(int listening, const struct sockaddr_in *a)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    must(listening < 0 || connect(fd, (const struct sockaddr *)a, sizeof *a) == 0, "connect");
    return fd;
}

int main(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listening = connected(-1, NULL);

    must(bind(listening, (struct sockaddr *)&a, len) == 0 && listen(listening, 1) == 0 &&
             getsockname(listening, (struct sockaddr *)&a, &len) == 0,
         "listen");
    printf("%10s %12s %12s %12s %12s %14s\n", "message", "plain GB/s", "by cpu time", "TLS GB/s",
           "by cpu time", "handshake us");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double best[2] = {0}, best_cpu[2] = {0}, handshake = 1;
        int n = (int)(TOTAL / sizes[s]);

        for (int round = 0; round < 2 * ROUNDS; round++) {
            bool with_tls = round % 2;
            struct tls *t = NULL;
            double start, sender, receiver = cpu_time(RUSAGE_CHILDREN),
                                  gb = (double)n * (double)sizes[s] / 1e9;
            pid_t child = fork();
            int fd;

            if (child == 0) {
                pin(1);
                fd = accept(listening, NULL, NULL);
                t = with_tls ? shake_hands(fd, true) : NULL;
                receive(fd, t, (size_t)n * (HEADER + sizes[s]));
                must(write(fd, "", 1) == 1, "write");
                _exit(0);
            }
            pin(0);
            fd = connected(listening, &a);
            start = clock_now();
            t = with_tls ? shake_hands(fd, false) : NULL;
            if (with_tls && clock_now() - start < handshake)
                handshake = clock_now() - start;
            start = clock_now();
            sender = cpu_time(RUSAGE_SELF);
            for (int i = 0; i < n; i++)
                send_message(fd, t, sizes[s]);
            wait_for(fd, POLLIN); /* all of it has arrived */
            keep_best(&best[with_tls], gb / (clock_now() - start));
            sender = cpu_time(RUSAGE_SELF) - sender;
            tls_close(t);
            close(fd);
            waitpid(child, NULL, 0);
            receiver = cpu_time(RUSAGE_CHILDREN) - receiver;
            keep_best(&best_cpu[with_tls], gb / (sender > receiver ? sender : receiver));
        }
        printf("%10zu %12.2f %12.2f %12.2f %12.2f %14.0f\n", sizes[s], best[0], best_cpu[0], best[1],
               best_cpu[1], handshake * 1e6);
    }
    return 0;
}
