#include "agent/base/agent_options.h"

#include <string.h>

#include "shared/base/args.h"
#include "shared/base/file.h"
#include "shared/job/worker_list.h"
#include "shared/plugin/isolation.h"
#include "shared/trainer/trainer_isolation.h"

#define AT(member) ARGS_AT(struct agent_options, member)

enum { RUN = AGENT_RUN, TOKEN = AGENT_TOKEN, ALL = RUN | TOKEN };
enum { LISTENING, TRUST, TOKENS, KEEPING, OUTPUT };

static const struct args_option table[] = {
    {"port", "", ARGS_INT, AT(port), ALL, LISTENING, "N", "port to listen on (15387; 0: any free port)",
     .max = 65535},
    {"bind", "", ARGS_TEXT, AT(bind), RUN, LISTENING, "ADDRESS", "address to listen on (127.0.0.1)"},
    {"data-bind", "", ARGS_TEXT, AT(data_bind), RUN, LISTENING, "ADDRESS",
     "address at which nodes of other machines reach this one's (the same as --bind)"},
    {"tls", "", ARGS_FLAG, AT(tls), RUN, LISTENING, NULL,
     "require TLS on a loopback address, too, and print an invitation for other users"},
    {"insecure-no-tls", "", ARGS_FLAG, AT(insecure_no_tls), RUN, LISTENING, NULL,
     "serve HTTP without TLS beyond loopback, too: token and results can then be read in transit"},
    {"allow-host", "", ARGS_LIST, AT(allow_hosts), RUN, LISTENING, "NAME",
     "another host name of this agent; may be repeated"},
    {"token-file", "", ARGS_PATH, AT(token_file), ALL, TRUST, "FILE",
     "file with the token (DIR/token, created at the first start)"},
    {"cluster-token", "", ARGS_PATH, AT(cluster_token), RUN, TRUST, "FILE",
     "file with a second token, which many agents may share; its scope is submit"},
    {"tls-cert", "", ARGS_PATH, AT(tls_cert), RUN, TRUST, "FILE",
     "certificate for TLS, in PEM, with those of the CAs above it (DIR/tls.crt, self-signed)"},
    {"tls-key", "", ARGS_PATH, AT(tls_key), RUN, TRUST, "FILE", "key of --tls-cert, in PEM"},
    {"client-ca", "", ARGS_PATH, AT(client_ca), RUN, TRUST, "FILE",
     "certificates of CAs, in PEM: a client whose certificate one of them has signed has scope submit, under "
     "its "
     "common name"},
    {"no-token", "", ARGS_FLAG, AT(no_token), RUN, TRUST, NULL,
     "require no token: on loopback addresses only; any user of this machine can then submit"},
    {"codecs", "", ARGS_CHOICE, AT(codecs), RUN, TRUST, CODEC_POLICY_CHOICES,
     "codecs that may run here (any if the agent listens on loopback addresses only, else allowlist); "
     "allowlist: built-in codecs and those of --codec-list"},
    {"codec-list", "", ARGS_PATH, AT(codec_list), RUN, TRUST, "FILE",
     "allowed codecs, one SHA-256 of a .so or .c file per line (DIR/codecs.allow); a listed .c file is "
     "compiled here. To add one: sha256sum my.c >>DIR/codecs.allow"},
    {"require-isolation", "", ARGS_CHOICE, AT(require_isolation), RUN, TRUST, ISOLATION_CHOICES,
     "least level at which a codec is isolated from this machine, see SECURITY.md (files, for codecs that "
     "are "
     "not built in); none: also run codecs without isolation"},
    {"trainers", "", ARGS_CHOICE, AT(trainers), RUN, TRUST, TRAINER_POLICY_CHOICES,
     "training programs of submitters that may run here, as this agent's user, see --trainer-isolation and "
     "SECURITY.md (any if the agent listens on loopback addresses only and requires a token, else none); "
     "allowlist: those of --trainer-list"},
    {"trainer-list", "", ARGS_PATH, AT(trainer_list), RUN, TRUST, "FILE",
     "allowed training programs, one SHA-256 of a package per line (DIR/trainers.allow); the agent's refusal "
     "has the one to add"},
    {"trainer-python", "", ARGS_PATH, AT(trainer_python), RUN, TRUST, "FILE",
     "interpreter of training programs in Python (python3 in $PATH)"},
    {"trainer-isolation", "", ARGS_CHOICE, AT(trainer_isolation), RUN, TRUST, TRAINER_ISOLATION_CHOICES,
     "how training programs are confined (none); files: they read the system's folders, the interpreter and "
     "--trainer-data, write into folders of their own, and signal no other process; user: also each as a "
     "user "
     "of its own, if root runs the agent"},
    {"trainer-data", "", ARGS_PATH, AT(trainer_data), RUN, TRUST, "FOLDER",
     "data sets that training programs may read with --trainer-isolation files or user"},
    {"data-folder", "", ARGS_LIST, AT(data_folders), RUN, TRUST, "FOLDER",
     "folder below which jobs may read data sets where they are, job_submit --data-on-agent (none); may be "
     "repeated"},
    {"scope", "", ARGS_CHOICE, AT(scope), TOKEN, TOKENS, SCOPE_CHOICES,
     "add, invite: what the token allows (submit): read jobs and results; run jobs of its own; manage all "
     "jobs"},
    {"expires", "", ARGS_TEXT, AT(expires), TOKEN, TOKENS, "TIME",
     "add, invite: how long the token or the code is valid: 30d, 12h, 10m, 30s (no end; a code: 1h)"},
    {"keep", "", ARGS_TEXT, AT(keep_token), TOKEN, TOKENS, "TIME",
     "rotate: how long the former token stays valid (1h)"},
    {"invitations", "", ARGS_FLAG, AT(invitations), TOKEN, TOKENS, NULL, "revoke: all invitations"},
    {"dir", "", ARGS_PATH, AT(dir), ALL, KEEPING, "DIR",
     "state, packages, results and the token ($XDG_STATE_HOME/psgd/agent-PORT, else "
     "~/.local/state/psgd/agent-PORT)"},
    {"slots", "", ARGS_INT, AT(slots), RUN, KEEPING, "N",
     "jobs that run at a time, each on its part of the processors and of --job-memory (1)", .min = 1,
     .max = 256},
    {"queue", "", ARGS_INT, AT(queue), RUN, KEEPING, "N", "jobs that may wait in the queue (16)",
     .max = 10000},
    {"aging", "", ARGS_NUMBER, AT(aging_s), RUN, KEEPING, "S",
     "seconds for which smaller jobs may overtake a user's first waiting job; then slots are kept for it "
     "(600)",
     .min = 0, .max = 1e6},
    {"keep", "", ARGS_INT, AT(keep), RUN, KEEPING, "N", "ended jobs to keep (64)", .min = 1, .max = 100000},
    {"keep-days", "", ARGS_INT, AT(keep_days), RUN, KEEPING, "N",
     "days for which ended jobs are kept (no limit)", .min = 1, .max = 36500},
    {"keep-gib", "", ARGS_INT, AT(keep_gib), RUN, KEEPING, "N",
     "GiB of records, models, ... of ended jobs to keep (no limit)", .min = 1, .max = 1 << 20},
    {"blob-limit", "", ARGS_INT, AT(blob_limit_gib), RUN, KEEPING, "N",
     "GiB of packages to keep for later jobs (16)", .min = 1, .max = 1 << 20},
    {"job-memory", "", ARGS_INT, AT(job_memory_gib), RUN, KEEPING, "N",
     "GiB of memory that a node's process may use (80 % of the machine's memory; 0: no limit)",
     .max = 1 << 20},
    {"job-disk", "", ARGS_INT, AT(job_disk_gib), RUN, KEEPING, "N",
     "GiB of files that a node of a job may write (32; 0: no limit)", .max = 1 << 20},
    {"leave-running", "", ARGS_FLAG, AT(leave_running), RUN, KEEPING, NULL,
     "keep running jobs at a clean stop; the next agent with the same --dir adopts them"},
    {"metrics-per-job", "", ARGS_FLAG, AT(metrics_per_job), RUN, OUTPUT, NULL,
     "label the gauges of running jobs in GET /metrics with their ids, too: a new time series for each job"},
    {"help", "h", ARGS_FLAG, AT(wants_help), ALL, OUTPUT, NULL, "print this help"},
    {"version", "V", ARGS_FLAG, AT(wants_version), ALL, OUTPUT, NULL, "print the version"},
};

static const char *const groups[] = {"Network", "Security", "Tokens", "State and limits", "Messages", NULL};

const struct args agent_options_table = {"agent --help lists the options.", table,
                                         sizeof table / sizeof *table, groups};
const char agent_exit_help[] = "\nExit status: 0 stopped by SIGTERM or SIGINT, or done, 2 wrong usage, 6 no "
                               "such member, or the name is\n"
                               "taken, 7 insecure options, or a folder or token file that other users can "
                               "read or change, 71 a port, an\n"
                               "address or the folder is not available.\n";

const char *scope_name(enum scope s)
{
    static const char *const names[] = {"read", "submit", "admin"};

    return names[s];
}

const char *agent_token_usage(char *out, size_t size, const char *name)
{
    static const char *const lines[][2] = {
        {"list", "the tokens of this folder's agent, and open invitations"},
        {"add NAME", "a token for NAME, printed once"},
        {"revoke NAME", "revokes NAME's tokens; revoke --invitations: all invitations"},
        {"rotate [NAME]", "another token for NAME, or for the owner; the former one stays valid for --keep"},
        {"invite", "prints the command with which one more user joins (with TLS)"},
    };
    size_t n = 0;

    for (size_t i = 0; i < sizeof lines / sizeof *lines && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s %s token %-13s  %s\n", i ? "      " : "usage:", name,
                              lines[i][0], lines[i][1]);
    if (n < size)
        snprintf(out + n, size - n,
                 "\nThe verbs change files in the agent's folder; a running agent reads them before its next "
                 "request.\n");
    return out;
}

void agent_usage(FILE *f, uint64_t verb, const char *name)
{
    char text[2048];

    if (verb == RUN)
        fprintf(f,
                "usage: %s [--port N] [--bind ADDRESS] [--dir DIR] [options]\n"
                "       %s token list|add NAME|revoke NAME|rotate [NAME]|invite [options]\n\n"
                "Waits for jobs and runs their nodes on this machine. `%s token --help`: who may use it.\n",
                name, name, name);
    else
        fputs(agent_token_usage(text, sizeof text, name), f);
    args_help(f, &agent_options_table, verb, NULL);
    fputs(agent_exit_help, f);
}

int agent_options_parse(struct agent_options *out, uint64_t verb, int argc, char **argv, struct err *e)
{
    *out = (struct agent_options){.port = AGENT_PORT,
                                  .bind = "127.0.0.1",
                                  .queue = 16,
                                  .slots = 1,
                                  .aging_s = 600,
                                  .keep = 64,
                                  .blob_limit_gib = 16,
                                  .codecs = -1,
                                  .trainers = -1,
                                  .scope = SCOPE_SUBMIT,
                                  .require_isolation = -1,
                                  .job_memory_gib = -1,
                                  .job_disk_gib = 32};
    if (args_parse(&agent_options_table, verb, argc, argv, out, &out->found, e) < 0)
        return e->code;
    if (!out->tls_cert[0] != !out->tls_key[0])
        return err_set(e, ERR_USAGE, "--tls-cert and --tls-key are a pair: a certificate and its key");
    if (verb == RUN && out->found.n_operands > 0)
        return err_set(e, ERR_USAGE, "\"%s\" is not an option; agent --help lists them",
                       out->found.operands[0]);
    return 0;
}

int agent_default_folder(struct agent_options *o, struct err *e)
{
    char state[DIR_MAX - 32];

    if (o->dir[0])
        return 0;
    if (file_state_dir(state, sizeof state, e) < 0)
        return e->code;
    snprintf(o->dir, sizeof o->dir, "%s/agent-%d", state, o->port);
    return 0;
}
