/* loop -- one epoll, one list of timers. Everything in the agent happens in a callback from here. */
#ifndef PSGD_LOOP_H
#define PSGD_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "shared/base/err.h"

/* A watched descriptor; the caller owns the struct, which must live until loop_unwatch. */
struct watch {
    int fd;
    bool on;
    void (*ready)(void *arg, uint32_t events);
    void *arg;
};

/* {0} is a timer that is not set. The callback may set it again. */
struct timer {
    double at; /* clock_now() time */
    bool on;
    void (*due)(void *arg);
    void *arg;
    struct timer *next, *prev;
};

enum { LOOP_BATCH = 64 };

struct loop {
    int epoll_fd;
    struct timer *timers;
    struct epoll_event batch[LOOP_BATCH]; /* of this turn; loop_unwatch removes its entry */
    int n_batch;
};

int loop_open(struct loop *l, struct err *e);
void loop_close(struct loop *l);

/* Watches the descriptor for these events; if it is watched already, for these instead. */
int loop_watch(struct loop *l, struct watch *w, uint32_t events, struct err *e);
void loop_unwatch(struct loop *l, struct watch *w); /* no effect if it is not watched */

void timer_set(struct loop *l, struct timer *t, double at);
void timer_cancel(struct loop *l, struct timer *t);

/* Waits at most `wait_s` for an event and runs the callbacks of all that occurred. */
void loop_turn(struct loop *l, double wait_s);

#endif
