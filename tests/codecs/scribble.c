/* scribble -- a hostile codec in a job with a training program. With act 0 it fills all memory that the
 * program and its node share, in each step; with act 1 it sends bytes of its own on the program's socket, as
 * its node does not, in step 5. */
#include <string.h>
#include <sys/socket.h>

#include "codec_events.h"

enum { PAGE = 4096, FILES = 128, AT_STEP = 5 };

struct scribble {
    int act;
};

/* The vectors of a small program: params, grads and what is combined, a page each, in this order
 * (trainer_wire.h). 0x3e3e3e3e is a number, 0.186. */
static void fill_memory(const struct codec *c)
{
    memset(c->params, 0x3e, 3 * PAGE);
}

/* Also on that of the monitor. */
static void send_garbage(void)
{
    char garbage[256];

    memset(garbage, 0x3e, sizeof garbage);
    for (int fd = 3; fd < FILES; fd++) {
        struct sockaddr_storage at;
        socklen_t len = sizeof at;

        if (getpeername(fd, (struct sockaddr *)&at, &len) == 0 && at.ss_family == AF_UNIX)
            send(fd, garbage, sizeof garbage, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static int scribble_on_step(struct codec *c)
{
    const struct scribble *s = c->state;

    if (s->act == 0)
        fill_memory(c);
    else if (c->run->step == AT_STEP)
        send_garbage();
    return CODEC_GO;
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct scribble, act, 0, 0, 1, "0: memory, 1: the socket"), {0}};
static const struct codec_events scribble = {.on_step = scribble_on_step};

CODEC_PLUGIN(.name = "scribble", .source = "a test", .state_size = sizeof(struct scribble),
             .options = options, .more = CODEC_MORE(.events = &scribble, .compression = CODEC_UNCOMPRESSED))
