/* checks -- what is checked of each agent, and of this machine: the table in checks.c. */
#ifndef PSGD_SUBMIT_CHECKS_H
#define PSGD_SUBMIT_CHECKS_H

#include "submit/doctor/probed_host.h"

struct doctor_check {
    const char *name;
    /* Writes one sentence, without a full stop, and returns how bad it is; "": there is nothing to say.
     * `first`: the first host that has answered, which others must agree with. */
    enum level (*look)(const struct probed_host *p, const struct probed_host *first, char *text, size_t size);
    const char *fix; /* where the level is not ok */
    bool of_machine; /* left out where an older agent reports nothing about its machine */
};

/* Adds the findings of all checks about a host that has answered. */
void checks_run(struct probed_host *p, const struct probed_host *first);

/* machine_checks.c */
enum level check_free_memory(const struct probed_host *p, const struct probed_host *first, char *text,
                             size_t size);
enum level check_load(const struct probed_host *p, const struct probed_host *first, char *text, size_t size);
enum level check_files(const struct probed_host *p, const struct probed_host *first, char *text, size_t size);
enum level check_processes(const struct probed_host *p, const struct probed_host *first, char *text,
                           size_t size);
enum level check_inotify(const struct probed_host *p, const struct probed_host *first, char *text,
                         size_t size);
enum level check_pipes(const struct probed_host *p, const struct probed_host *first, char *text, size_t size);
enum level check_backlog(const struct probed_host *p, const struct probed_host *first, char *text,
                         size_t size);
enum level check_shared_memory(const struct probed_host *p, const struct probed_host *first, char *text,
                               size_t size);
enum level check_overcommit(const struct probed_host *p, const struct probed_host *first, char *text,
                            size_t size);
enum level check_compiler(const struct probed_host *p, const struct probed_host *first, char *text,
                          size_t size);

#endif
