/* machine -- the properties of a machine, and limits of a process on it, on which it depends whether jobs run
 * there: memory, load, and settings of the kernel. An agent reports them (docs/protocol.md, GET /v1/agent),
 * and `job_submit doctor` checks them. */
#ifndef PSGD_MACHINE_H
#define PSGD_MACHINE_H

#include <jansson.h>

enum { MACHINE_SYSTEM = 160 };

/* Counts and bytes are NAN where the kernel has no such setting, or it cannot be read; INFINITY: no limit. */
struct machine {
    char system[MACHINE_SYSTEM]; /* "Linux 6.1.0-18-amd64 x86_64" */
    double cpus, load;           /* the mean number of processes that ran or waited, over the last minute */
    double mem_bytes, mem_available_bytes;
    double open_files, processes; /* RLIMIT_NOFILE (hard), RLIMIT_NPROC */
    double inotify_instances, inotify_watches, pipe_pages, listen_backlog, syn_backlog, file_max, overcommit;
    double shares_memory; /* 1: sealed memory files can be made, which nodes of one machine share */
    double has_compiler;  /* 1: $PATH has `cc` */
};

void machine_look(struct machine *m); /* of this machine and process */
/* {"system":..., KEY: number or null}; INFINITY is -1. NULL without memory. */
json_t *machine_json(const struct machine *m);
/* Reads the report of an agent. A key that is missing, or is not a number, is NAN. */
void machine_parse(struct machine *m, const json_t *doc);

#endif
