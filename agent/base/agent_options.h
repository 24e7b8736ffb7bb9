/* agent_options -- the agent's command line. */
#ifndef PSGD_AGENT_OPTIONS_H
#define PSGD_AGENT_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/args.h"
#include "shared/base/err.h"

/* The verbs, as bits: running, and `agent token`. */
enum { AGENT_RUN = 1, AGENT_TOKEN = 2 };

enum {
    ALLOW_HOSTS_MAX = 16,
    DATA_FOLDERS = 16,
    DIR_MAX = PATH_MAX - 256
}; /* paths below the folder fit PATH_MAX */

/* Which codecs an agent runs (--codecs). */
enum codec_policy { CODECS_BUILTIN, CODECS_ALLOWLIST, CODECS_ANY };
#define CODEC_POLICY_CHOICES "builtin|allowlist|any" /* in the order of the enum */

/* Which training programs of submitters an agent runs (--trainers). */
enum trainer_policy { TRAINERS_NONE, TRAINERS_ALLOWLIST, TRAINERS_ANY };
#define TRAINER_POLICY_CHOICES "none|allowlist|any" /* in the order of the enum */

/* What a token allows. A higher scope includes the lower ones, with one exception: `read` sees the jobs of
 * all clients, `submit` only the jobs whose key it presents (docs/protocol.md 1.1). */
enum scope {
    SCOPE_READ,   /* sees jobs and their results */
    SCOPE_SUBMIT, /* runs code here: jobs of its own */
    SCOPE_ADMIN   /* all jobs, and whether the agent takes new ones */
};
#define SCOPE_CHOICES "read|submit|admin" /* in the order of the enum */
const char *scope_name(enum scope s);

struct agent_options {
    int port;
    char bind[256];
    char data_bind[256];                          /* "": the same as bind */
    char dir[DIR_MAX];                            /* "": by agent_default_folder */
    const char *allow_hosts[ALLOW_HOSTS_MAX + 1]; /* point into argv; ends with NULL */
    char token_file[PATH_MAX];                    /* "": DIR/token */
    char cluster_token[PATH_MAX];                 /* "": none */
    char tls_cert[PATH_MAX], tls_key[PATH_MAX];   /* "": the agent's own, in DIR */
    char client_ca[PATH_MAX];                     /* "": no client has a certificate */
    bool no_token, tls, insecure_no_tls, leave_running;
    bool metrics_per_job;
    int queue, slots, keep, blob_limit_gib;
    double aging_s;
    int keep_days, keep_gib;                    /* 0: no limit */
    int codecs;                                 /* enum codec_policy; -1: by the listening address */
    char codec_list[PATH_MAX];                  /* "": DIR/codecs.allow */
    int trainers;                               /* enum trainer_policy; -1: by the listening address */
    char trainer_list[PATH_MAX];                /* "": DIR/trainers.allow */
    char trainer_python[PATH_MAX];              /* "": python3 in $PATH */
    int trainer_isolation;                      /* enum trainer_isolation */
    char trainer_data[PATH_MAX];                /* "": none */
    const char *data_folders[DATA_FOLDERS + 1]; /* point into argv; ends with NULL */
    int job_memory_gib;                         /* -1: a fraction of the machine's; 0: no limit */
    int job_disk_gib;                           /* 0: no limit */
    int scope;                                  /* enum scope, of `agent token` */
    char expires[16], keep_token[16];           /* "": not given */
    bool invitations;
    int require_isolation; /* enum isolation; -1: not given */
    bool wants_help, wants_version;
    struct args_found found; /* the operands of `agent token` */
};

/* Parses as shared/base/args.h describes. ERR_USAGE. */
int agent_options_parse(struct agent_options *out, uint64_t verb, int argc, char **argv, struct err *e);

/* Sets o->dir without --dir: agent-PORT in the user's state folder. */
int agent_default_folder(struct agent_options *o, struct err *e);

/* For docs/reference/. */
extern const struct args agent_options_table;
extern const char agent_exit_help[];
/* The usage of `NAME token`; an installed agent is called psgd-agent. Returns `out`. */
const char *agent_token_usage(char *out, size_t size, const char *name);

/* Prints the text of --help; `name`: of the program. */
void agent_usage(FILE *f, uint64_t verb, const char *name);

#endif
