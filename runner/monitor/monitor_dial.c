/* monitor_dial -- connections to peers, up to the peer's HELLO. A submitter can write any address into the
 * table of nodes, and a socket that is connected to that address would let the codec speak any protocol
 * there. So the job process gets the socket only after the peer has sent the HELLO of its node in the table;
 * any other program receives only the monitor's HELLO, of which the job process chooses one bit (TLS). The
 * socket of a probe (tcp_open.c) is never passed on. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"
#include "shared/base/fd_pass.h"

/* A node of the job may be silent while it computes. A program that has never sent that node's HELLO has only
 * the time of a handshake (tcp_link.c). */
static const double SILENT_MOST_S = 60;

/* The tag of an event is twice the peer's index, plus one for the socket to the job process. */
static bool is_watched(const struct monitor_state *m, const struct monitor_peer *p, int op, int fd,
                       uint32_t events, bool is_of_report)
{
    struct epoll_event ev = {.events = events, .data.u64 = 2 * (uint64_t)p->index + (is_of_report ? 1 : 0)};

    return epoll_ctl(m->answer_poll, op, fd, &ev) == 0;
}

/* A socket that the job process has received stays open, so closing it here does not remove it from the
 * epoll. */
static void end_dial(const struct monitor_state *m, struct monitor_peer *p)
{
    if (!p->dial)
        return;
    epoll_ctl(m->answer_poll, EPOLL_CTL_DEL, p->dial->link.fd, NULL);
    tcp_link_hang_up(&p->dial->link);
    close(p->dial->report_fd);
    free(p->dial);
    p->dial = NULL;
}

static int fail_dial(const struct monitor_state *m, struct monitor_peer *p, int fd, int why)
{
    end_dial(m, p);
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

int monitor_dial(struct monitor_state *m, struct monitor_peer *p, uint32_t place, const struct tcp_aim *aim)
{
    static const uint32_t nothing = 0; /* the HELLO states the receipt of no message */
    enum link_state state = aim->is_probe ? LINK_PROBING : LINK_CONNECTING;
    struct tcp_link *l;
    struct err e = {0};
    int ends[2];

    end_dial(m, p);
    p->dial = calloc(1, sizeof *p->dial);
    if (!p->dial || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        free(p->dial);
        p->dial = NULL;
        return -1;
    }
    p->dial->report_fd = ends[0];
    p->dial->cfg = (struct tcp_config){.spec.node = m->job_order.node,
                                       .address = {.job = m->job_order.job,
                                                   .attempt = m->attempt,
                                                   .peers = &p->at,
                                                   .n_peers = 1,
                                                   .tls = aim->tls},
                                       .only_greets = true};
    l = &p->dial->link;
    *l = (struct tcp_link){
        .fd = -1, .node = p->at.node, .places = p->places, .place = place, .received = &nothing};
    if (tcp_link_connect(l, &p->dial->cfg, state, &e) < 0)
        return fail_dial(m, p, ends[1], l->connect_error);
    if (!is_watched(m, p, EPOLL_CTL_ADD, l->fd, tcp_link_events(l), false) ||
        !is_watched(m, p, EPOLL_CTL_ADD, ends[0], EPOLLIN, true))
        return fail_dial(m, p, ends[1], errno);
    return ends[1];
}

void monitor_end_dials(struct monitor_state *m)
{
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->list.n; i++)
        if (m->peers[i])
            end_dial(m, m->peers[i]);
    pthread_mutex_unlock(&m->lock);
}

/* Does not block: a job process that does not read its reports loses them. */
static void report_dial(const struct monitor_peer *p, const struct err *why)
{
    const struct monitor_dial *d = p->dial;
    struct tcp_link_report report;

    tcp_link_report(&report, &d->link, why);
    fd_pass_send(d->report_fd, &report, sizeof report, report.state == TCP_GREETED ? d->link.fd : -1,
                 MSG_DONTWAIT);
}

/* Connections are limited in time, because a job process could keep them open forever. The kernel limits an
 * attempt to connect. */
static bool has_limit(const struct monitor_peer *p)
{
    return p->dial && (p->dial->link.state == LINK_HELLO || p->dial->link.state == LINK_LISTENS);
}

static void advance_dial(struct monitor_state *m, struct monitor_peer *p)
{
    struct tcp_link *l = &p->dial->link;
    const struct tcp_link before = *l;
    struct err why = {0};

    if (tcp_link_advance(l, &p->dial->cfg, &why) == 0 && tcp_link_events(l) != tcp_link_events(&before) &&
        !is_watched(m, p, EPOLL_CTL_MOD, l->fd, tcp_link_events(l), false))
        err_call(&why, ERR_IO, CALL_EPOLL_CTL, "epoll_ctl");
    p->has_answered |= l->state == LINK_GREETED;
    if (l->state != before.state && (l->state == LINK_LISTENS || p->has_answered))
        l->deadline = clock_now() + SILENT_MOST_S;
    if (has_limit(p))
        m->silent_at = fmin(m->silent_at, l->deadline);
    if (why.code || l->state != before.state || l->was_seen != before.was_seen)
        report_dial(p, &why);
    if (why.code || l->state == LINK_GREETED)
        end_dial(m, p);
}

/* The job process has asked for the present state, or has closed its socket. */
static void receive_question(const struct monitor_state *m, struct monitor_peer *p)
{
    char byte;
    ssize_t n = recv(p->dial->report_fd, &byte, sizeof byte, MSG_DONTWAIT);

    if (n > 0)
        report_dial(p, &(struct err){0});
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end_dial(m, p);
}

void monitor_continue_dial(struct monitor_state *m, uint64_t tag)
{
    pthread_mutex_lock(&m->lock);
    if (tag / 2 < m->list.n && m->peers[tag / 2] && m->peers[tag / 2]->dial) {
        struct monitor_peer *p = m->peers[tag / 2];

        if (tag % 2)
            receive_question(m, p);
        else
            advance_dial(m, p);
    }
    pthread_mutex_unlock(&m->lock);
}

/* For epoll_wait. */
static int ms_until(double next, double now)
{
    return isinf(next) ? -1 : (int)((next - now) * 1e3) + 1;
}

int monitor_end_silent_dials(struct monitor_state *m)
{
    double now = clock_now(), next = INFINITY;

    pthread_mutex_lock(&m->lock);
    if (now < m->silent_at) { /* mostly: it is called before each event, and may have a thousand peers */
        next = m->silent_at;
        pthread_mutex_unlock(&m->lock);
        return ms_until(next, now);
    }
    for (size_t i = 0; i < m->list.n; i++) {
        struct monitor_peer *p = m->peers[i];
        struct err why = {0};

        if (!p)
            continue;
        if (has_limit(p) && p->dial->link.deadline > now) {
            next = fmin(next, p->dial->link.deadline);
        } else if (has_limit(p)) {
            tcp_link_timed_out(&p->dial->link, &p->dial->cfg, &why);
            report_dial(p, &why);
            end_dial(m, p);
        }
    }
    m->silent_at = next;
    pthread_mutex_unlock(&m->lock);
    return ms_until(next, now);
}
