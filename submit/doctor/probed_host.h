/* probed_host -- an agent, or this machine, as `job_submit doctor` sees it: what it has reported, and what
 * the checks have found. A further check is a function and a line of the table in probed_host.c. */
#ifndef PSGD_SUBMIT_PROBED_HOST_H
#define PSGD_SUBMIT_PROBED_HOST_H

#include "shared/plugin/machine.h"
#include "submit/job/job_node.h"

enum { FINDINGS_MAX = 32, FINDING_TEXT = 400 };

enum finding_level { FINDING_OK, FINDING_WARNING, FINDING_ERROR };

struct finding {
    enum finding_level level;
    const char *check;
    char text[FINDING_TEXT], fix[FINDING_TEXT]; /* fix: what to do; "": nothing */
};

struct probed_host {
    struct job_node node; /* of this machine: without an address */
    bool is_here;         /* it is this machine */
    const char *role;     /* in worker.json: "worker", "server", "spare" */
    bool has_token;       /* a token was found, and sent */
    bool has_answered;    /* the fields below are set */
    int code;             /* err_code of the first error, for the exit status; 0: none */
    struct finding findings[FINDINGS_MAX];
    size_t n_findings;

    /* What it reports. A number is NAN, and a text "", where an older agent does not report it. */
    char version[32], engine[256], runner_error[256], isolation[64], data_host[64], scope[16];
    char trainers[16]; /* which training programs it runs: "none", "allowlist", "any" */
    char trainer_isolation[16];
    /* What such a program finds, once it was asked: the interpreter and versions, "" if there is none; the
     * GPUs' names; why the interpreter does not answer. */
    bool has_told_python;
    char trainer_python[256], python[64], numpy[64], torch[64], gpus[192], trainer_error[256];
    double codec_abi, frame_version, slots_free, disk_free_bytes;
    bool has_machine;
    struct machine machine;
    double connect_s, round_trip_s; /* to the first answer; of a second request on the same connection */
    double clock_ahead_s;           /* its wall clock against this machine's */
};

const char *finding_level_name(enum finding_level l);              /* "ok", "warning", "error" */
enum finding_level probed_host_level(const struct probed_host *p); /* the worst of its findings */
/* Adds a finding about `check`; `fix` may be NULL or "". */
struct finding *probed_host_note(struct probed_host *p, enum finding_level l, const char *check,
                                 const char *fix, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Adds an error with the message and the hint of `e`. */
void probed_host_fail(struct probed_host *p, const char *check, const struct err *e);

/* Fills in what this machine and the job_runner beside this program report. */
void probed_host_read_here(struct probed_host *p);
/* Reads an agent's answer to GET /v1/agent. ERR_PROTOCOL: it is none. */
int probed_host_read(struct probed_host *p, const char *text, size_t len, struct err *e);
/* Reads its answer to GET /v1/agent/runner. ERR_PROTOCOL: it is none. */
int probed_host_read_runner(struct probed_host *p, const char *text, size_t len, struct err *e);
/* Whether it should be asked what training programs find there, by GET /v1/agent/trainers: it runs some. */
bool probed_host_runs_trainers(const struct probed_host *p);
/* Reads the answer. ERR_PROTOCOL: it is none. */
int probed_host_read_trainers(struct probed_host *p, const char *text, size_t len, struct err *e);
/* Adds the findings of all checks about a host that has answered. `first`: the first host that has answered,
 * with which the others must agree. */
void probed_host_check(struct probed_host *p, const struct probed_host *first);

#endif
