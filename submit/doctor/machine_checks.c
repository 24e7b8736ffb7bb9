/* Checks of an agent's machine: what the kernel lets a job have. */
#include <math.h>
#include <stdio.h>

#include "submit/doctor/checks.h"
#include "submit/terminal/text.h"

static const double GIB = 1 << 30;

enum level check_free_memory(const struct probed_host *p, const struct probed_host *first, char *text,
                             size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    snprintf(text, size, "%.0f processors, %.1f GiB of memory, of which %.1f GiB are free, %s", m->cpus,
             m->mem_bytes / GIB, m->mem_available_bytes / GIB, m->system);
    return m->mem_available_bytes < m->mem_bytes / 10 ? LEVEL_WARNING : LEVEL_OK;
}

/* An agent that runs a job is busy on purpose. */
enum level check_load(const struct probed_host *p, const struct probed_host *first, char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    snprintf(text, size, "%.1f processes ran or waited in the last minute, for %.0f processors", m->load,
             m->cpus);
    return p->slots_free != 0 && m->load > m->cpus ? LEVEL_WARNING : LEVEL_OK;
}

static enum level at_least(char *text, size_t size, double has, double needs, const char *what)
{
    if (isnan(has))
        return LEVEL_OK;
    if (isinf(has))
        snprintf(text, size, "no limit of %s", what);
    else
        snprintf(text, size, "%.0f %s", has, what);
    return has < needs ? LEVEL_WARNING : LEVEL_OK;
}

/* A runner has 1,024, agent and connections take as many again. */
enum level check_files(const struct probed_host *p, const struct probed_host *first, char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    return at_least(text, size, fmin(m->open_files, isnan(m->file_max) ? INFINITY : m->file_max), 2048,
                    "open files for a process");
}

enum level check_processes(const struct probed_host *p, const struct probed_host *first, char *text,
                           size_t size)
{
    (void)first;
    return at_least(text, size, p->machine.processes, 256, "processes and threads for its user");
}

/* Each agent of a user has one; without one it looks at its jobs once a second (agent/base/notify.h). */
enum level check_inotify(const struct probed_host *p, const struct probed_host *first, char *text,
                         size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    if (isnan(m->inotify_instances))
        return LEVEL_OK;
    snprintf(text, size, "%.0f inotify instances, %.0f watches for a user", m->inotify_instances,
             m->inotify_watches);
    return m->inotify_instances < 64 || m->inotify_watches < 1024 ? LEVEL_WARNING : LEVEL_OK;
}

enum level check_pipes(const struct probed_host *p, const struct probed_host *first, char *text, size_t size)
{
    double pages = p->machine.pipe_pages;

    (void)first;
    return at_least(text, size, pages == 0 ? INFINITY : pages, 1024, "pages in pipes for a user");
}

/* Every node connects to all nodes before it at once. */
enum level check_backlog(const struct probed_host *p, const struct probed_host *first, char *text,
                         size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    if (isnan(m->listen_backlog))
        return LEVEL_OK;
    snprintf(text, size, "%.0f connections may wait to be accepted, %.0f for their handshake",
             m->listen_backlog, m->syn_backlog);
    return m->listen_backlog < 128 || m->syn_backlog < 128 ? LEVEL_WARNING : LEVEL_OK;
}

enum level check_shared_memory(const struct probed_host *p, const struct probed_host *first, char *text,
                               size_t size)
{
    bool can = p->machine.shares_memory > 0;

    (void)first;
    snprintf(text, size,
             can ? "nodes of one job on this machine share memory"
                 : "nodes of one job on this machine cannot share memory, and use TCP");
    return can ? LEVEL_OK : LEVEL_WARNING;
}

/* 2: an allocation fails although memory is left, as BLAS reserves more than it uses. */
enum level check_overcommit(const struct probed_host *p, const struct probed_host *first, char *text,
                            size_t size)
{
    double how = p->machine.overcommit;

    (void)first;
    if (isnan(how))
        return LEVEL_OK;
    snprintf(text, size, "memory may%s be reserved beyond what there is (vm.overcommit_memory=%.0f)",
             how == 2 ? " not" : "", how);
    return how == 2 ? LEVEL_WARNING : LEVEL_OK;
}

enum level check_compiler(const struct probed_host *p, const struct probed_host *first, char *text,
                          size_t size)
{
    bool has = p->machine.has_compiler > 0;

    (void)first;
    snprintf(text, size,
             has ? "codecs that come as source are compiled by cc"
                 : "there is no cc: a codec must come as an object for this kind of machine");
    return has ? LEVEL_OK : LEVEL_WARNING;
}
