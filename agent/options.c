#include "agent/options.h"

#include <string.h>

#include "agent/codec_policy.h"
#include "shared/args.h"
#include "shared/worker.h"

#define AT(member) ARGS_AT(struct agent_options, member)

enum { ALWAYS = 1 /* it has no verbs */ };
enum { LISTENING, TRUST, KEEPING, OUTPUT };

static const struct args_option table[] = {
    {"port", "", ARGS_INT, AT(port), ALWAYS, LISTENING, "N", "port to listen on (15387; 0: any free port)",
     .max = 65535},
    {"bind", "", ARGS_TEXT, AT(bind), ALWAYS, LISTENING, "ADDRESS",
     "listen on this address only (127.0.0.1)"},
    {"data-bind", "", ARGS_TEXT, AT(data_bind), ALWAYS, LISTENING, "ADDRESS",
     "address at which nodes of other machines reach this one's (the same as --bind)"},
    {"tls", "", ARGS_FLAG, AT(tls), ALWAYS, LISTENING, NULL, "TLS on a loopback address, too"},
    {"insecure-no-tls", "", ARGS_FLAG, AT(insecure_no_tls), ALWAYS, LISTENING, NULL,
     "no TLS beyond loopback, where token and results can then be read in transit"},
    {"allow-host", "", ARGS_LIST, AT(allow_hosts), ALWAYS, LISTENING, "NAME",
     "another host name of this agent; may be repeated"},
    {"token-file", "", ARGS_PATH, AT(token_file), ALWAYS, TRUST, "FILE",
     "file with the token (DIR/token, created at the first start)"},
    {"no-token", "", ARGS_FLAG, AT(no_token), ALWAYS, TRUST, NULL,
     "require no token: on loopback addresses only; any user of this machine can then submit"},
    {"codecs", "", ARGS_CHOICE, AT(codecs), ALWAYS, TRUST, CODEC_POLICY_CHOICES,
     "codecs that may run here (any if the agent listens on loopback addresses only, else allowlist); "
     "allowlist: built-in codecs and those of --codec-list"},
    {"codec-list", "", ARGS_PATH, AT(codec_list), ALWAYS, TRUST, "FILE",
     "allowed codecs, one SHA-256 of a .so or .c file per line (DIR/codecs.allow); a listed .c file is "
     "compiled here. To add one: sha256sum my.c >>DIR/codecs.allow"},
    {"dir", "", ARGS_PATH, AT(dir), ALWAYS, KEEPING, "DIR",
     "state, packages, results and the token ($XDG_STATE_HOME/psgd/agent-PORT, else "
     "~/.local/state/psgd/agent-PORT)"},
    {"queue", "", ARGS_INT, AT(queue), ALWAYS, KEEPING, "N", "jobs that may wait in the queue (16)",
     .max = 10000},
    {"keep", "", ARGS_INT, AT(keep), ALWAYS, KEEPING, "N", "ended jobs that are kept (64)", .min = 1,
     .max = 100000},
    {"blob-limit", "", ARGS_INT, AT(blob_limit_gib), ALWAYS, KEEPING, "N",
     "GiB of packages kept for the next job (16)", .min = 1, .max = 1 << 20},
    {"job-memory", "", ARGS_INT, AT(job_memory_gib), ALWAYS, KEEPING, "N",
     "GiB of memory that a node's process may use (80 % of the machine's memory; 0: no limit)",
     .max = 1 << 20},
    {"leave-running", "", ARGS_FLAG, AT(leave_running), ALWAYS, KEEPING, NULL,
     "keep running jobs at a clean stop; the next agent with the same --dir adopts them"},
    {"help", "h", ARGS_FLAG, AT(wants_help), ALWAYS, OUTPUT, NULL, "print this help"},
    {"version", "V", ARGS_FLAG, AT(wants_version), ALWAYS, OUTPUT, NULL, "print the version"},
};

static const char *const groups[] = {"Network", "Security", "State and limits", "Messages", NULL};

const struct args agent_options_table = {"agent --help lists the options.", table,
                                         sizeof table / sizeof *table, groups};
const char agent_exit_help[] =
    "\nExit status: 0 stopped by SIGTERM or SIGINT, 2 wrong usage, 7 insecure options, or a folder or\n"
    "token file that others can read or change, 71 a port, an address or the folder is not available.\n";

void agent_usage(FILE *f)
{
    fprintf(f, "usage: agent [--port N] [--bind ADDRESS] [--dir DIR] [options]\n\n"
               "Waits for jobs and runs their nodes on this machine.\n");
    args_help(f, &agent_options_table, ALWAYS);
    fputs(agent_exit_help, f);
}

int agent_options_parse(struct agent_options *out, int argc, char **argv, struct err *e)
{
    struct args_found found;

    *out = (struct agent_options){.port = AGENT_PORT,
                                  .bind = "127.0.0.1",
                                  .queue = 16,
                                  .keep = 64,
                                  .blob_limit_gib = 16,
                                  .codecs = -1,
                                  .job_memory_gib = -1};
    if (args_parse(&agent_options_table, ALWAYS, argc, argv, out, &found, e) < 0)
        return e->code;
    if (found.n_operands > 0)
        return err_set(e, ERR_USAGE, "\"%s\" is not an option; agent --help lists them", found.operands[0]);
    return 0;
}
