#include "agent/base/notify.h"

#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

/* After an overflow it is unknown which files were written to. */
static void mark_due(struct notify *n, const struct inotify_event *ev)
{
    for (struct notify_file *f = n->files; f; f = f->next)
        f->is_due = f->is_due || f->wd == ev->wd || (ev->mask & IN_Q_OVERFLOW);
}

static struct notify_file *next_due(const struct notify *n)
{
    struct notify_file *f = n->files;

    while (f && !f->is_due)
        f = f->next;
    return f;
}

/* Events that one read leaves make the instance readable again in the next turn. Every event is applied to
 * the list before the first callback, as a callback may free a file's owner, or close the instance and open
 * another one, whose watch descriptors begin at 1 again. */
static void on_events(void *arg, uint32_t events)
{
    struct notify *n = arg;
    _Alignas(struct inotify_event) char buf[4096];
    ssize_t len = read(n->watch.fd, buf, sizeof buf);
    struct notify_file *f;

    (void)events;
    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *ev = (const void *)(buf + at);

        mark_due(n, ev);
        at += (ssize_t)(sizeof *ev + ev->len);
    }
    while ((f = next_due(n)) != NULL) {
        f->is_due = false;
        f->written(f->arg);
    }
}

static int open_instance(struct notify *n, struct err *e)
{
    n->watch = (struct watch){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .ready = on_events, .arg = n};
    if (n->watch.fd < 0)
        return err_call(e, ERR_IO, CALL_INOTIFY, "no inotify instance is free");
    if (loop_watch(n->loop, &n->watch, EPOLLIN, e) < 0) {
        close(n->watch.fd);
        return e->code;
    }
    return 0;
}

static void close_if_unused(struct notify *n)
{
    if (n->files)
        return;
    loop_unwatch(n->loop, &n->watch);
    close(n->watch.fd);
}

int notify_add(struct notify *n, struct notify_file *f, int fd, struct err *e)
{
    char path[64];

    if (!n->watch.on && open_instance(n, e) < 0)
        return e->code;
    /* By descriptor, which is of the file that was opened and checked, whatever has its name now. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    f->wd = inotify_add_watch(n->watch.fd, path, IN_MODIFY);
    if (f->wd < 0) {
        err_call(e, ERR_IO, CALL_INOTIFY_WATCH, "no inotify watch is free");
        close_if_unused(n);
        return e->code;
    }
    f->on = true;
    f->is_due = false;
    f->next = n->files;
    n->files = f;
    return 0;
}

void notify_remove(struct notify *n, struct notify_file *f)
{
    struct notify_file **at = &n->files;

    if (!f->on)
        return;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->on = false;
    inotify_rm_watch(n->watch.fd, f->wd);
    close_if_unused(n);
}
