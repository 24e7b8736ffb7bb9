#include "shared/base/loop.h"

#include <math.h>
#include <stddef.h>
#include <unistd.h>

#include "shared/base/clock.h"

int loop_open(struct loop *l, struct err *e)
{
    *l = (struct loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    return l->epoll_fd < 0 ? err_errno(e, ERR_IO, "epoll_create1") : 0;
}

void loop_close(struct loop *l)
{
    if (l->epoll_fd > 0)
        close(l->epoll_fd);
    *l = (struct loop){0};
}

int loop_watch(struct loop *l, struct watch *w, uint32_t events, struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (epoll_ctl(l->epoll_fd, w->on ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &ev) < 0)
        return err_call(e, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl");
    w->on = true;
    return 0;
}

void loop_unwatch(struct loop *l, struct watch *w)
{
    if (!w->on)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    w->on = false;
    for (int i = 0; i < l->n_batch; i++)
        if (l->batch[i].data.ptr == w)
            l->batch[i].data.ptr = NULL;
}

void timer_set(struct loop *l, struct timer *t, double at)
{
    t->at = at;
    if (t->on)
        return;
    t->on = true;
    t->prev = NULL;
    t->next = l->timers;
    if (t->next)
        t->next->prev = t;
    l->timers = t;
}

void timer_cancel(struct loop *l, struct timer *t)
{
    if (!t->on)
        return;
    if (t->prev)
        t->prev->next = t->next;
    else
        l->timers = t->next;
    if (t->next)
        t->next->prev = t->prev;
    t->on = false;
}

/* There are few timers: a linear search is faster than keeping them sorted. */
static struct timer *earliest(const struct loop *l)
{
    struct timer *first = l->timers;

    for (struct timer *t = first; t; t = t->next)
        if (t->at < first->at)
            first = t;
    return first;
}

static int wait_ms(const struct loop *l, double wait_s)
{
    const struct timer *t = earliest(l);

    if (t)
        wait_s = fmin(wait_s, t->at - clock_now());
    return wait_s <= 0 ? 0 : (int)ceil(fmin(wait_s, 3600) * 1e3);
}

void loop_turn(struct loop *l, double wait_s)
{
    struct timer *t;
    double now;

    l->n_batch = epoll_wait(l->epoll_fd, l->batch, LOOP_BATCH, wait_ms(l, wait_s));
    for (int i = 0; i < l->n_batch; i++) {
        struct watch *w = l->batch[i].data.ptr;

        if (w)
            w->ready(w->arg, l->batch[i].events);
    }
    l->n_batch = 0;
    now = clock_now();
    while ((t = earliest(l)) != NULL && t->at <= now) {
        timer_cancel(l, t);
        t->due(t->arg);
    }
}
