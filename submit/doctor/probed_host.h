/* probed_host -- an agent, or this machine, as `job_submit doctor` sees it: what it has reported, and what
 * was found. */
#ifndef PSGD_SUBMIT_PROBED_HOST_H
#define PSGD_SUBMIT_PROBED_HOST_H

#include "shared/plugin/machine.h"
#include "submit/job/job_node.h"

enum { FINDINGS_MAX = 24, FINDING_TEXT = 400 };

static const double DOCTOR_S = 8; /* an agent that has not answered by then counts as unreachable */

enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_ERROR };

struct finding {
    enum level level;
    const char *check;
    char text[FINDING_TEXT], fix[FINDING_TEXT]; /* fix "": nothing to do */
};

struct probed_host {
    struct job_node node; /* of this machine: without an address */
    bool is_here;         /* it is this machine */
    const char *role;     /* in worker.json: "worker", "server", "spare" */
    bool has_token;       /* one was found, and sent */
    bool has_answered;    /* with facts */
    int code;             /* of the first error, for the exit status; 0: none */
    struct finding findings[FINDINGS_MAX];
    size_t n_findings;

    /* What it has reported. Numbers are NAN, and texts "", where an older agent does not report them. */
    char version[32], engine[256], runner_error[256], isolation[64], data_host[64], scope[16];
    double codec_abi, frame_version, slots_free, disk_free_bytes;
    bool has_machine;
    struct machine machine;
    double connect_s, round_trip_s; /* to the first answer; of a second request on the same connection */
    double clock_ahead_s;           /* its wall clock against this machine's */
};

const char *level_name(enum level l);                      /* "ok", "warning", "error" */
enum level probed_host_level(const struct probed_host *p); /* the worst of its findings */
/* Adds a finding about `check`; `fix` may be NULL or "". */
struct finding *probed_host_note(struct probed_host *p, enum level l, const char *check, const char *fix,
                                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The same for a failure: its message and hint. */
void probed_host_fail(struct probed_host *p, const char *check, const struct err *e);

/* Asks all agents at once, each of which has an address and its access (node_find_access); those whose `code`
 * is set already are left out. Returns when all have answered or DOCTOR_S is over. ERR_CANCELLED. */
int probed_hosts_ask(struct probed_host *all, size_t n, struct err *e);
/* Fills in what this machine and the job_runner beside this program report. */
void probed_host_read_here(struct probed_host *p);
/* Reads an agent's answer to GET /v1/agent. ERR_PROTOCOL: it is none. */
int probed_host_read(struct probed_host *p, const char *text, size_t len, struct err *e);

#endif
