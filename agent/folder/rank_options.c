#include "agent/folder/rank_options.h"

#include <string.h>

#include "shared/base/utf8.h"

#include "shared/job/settings.h"

#define AT(member) ARGS_AT(struct rank_options, member)

static const struct args_option table[] = {
    {"job", "", ARGS_PATH, AT(job), 1, 0, "DIR", "the job folder, which job_submit pack has written"},
    {"rank", "", ARGS_INT, AT(rank), 1, 0, "K",
     "number of this process, from 0: worker K, or from the number of workers on a server (as the launcher "
     "says)",
     .max = 2 * NODES_MAX},
    {"size", "", ARGS_INT, AT(size), 1, 0, "N", "number of processes (as the launcher says)", .min = 1,
     .max = 2 * NODES_MAX},
    {"host", "", ARGS_TEXT, AT(host), 1, 0, "ADDRESS",
     "name or address at which the other nodes reach this one (127.0.0.1 if all are on one machine, else the "
     "machine's name, or its address where the name has none)"},
    {"launch", "", ARGS_TEXT, AT(launch), 1, 0, "NAME",
     "name of this launch, the same in all its processes; a launch of another name is refused while the "
     "first "
     "one runs (as the launcher says)"},
    {"timeout", "", ARGS_NUMBER, AT(timeout_s), 1, 0, "S",
     "seconds to wait until the other processes have come, and then until all nodes are ready (300; with a "
     "training program 600 more)",
     .min = 1, .max = 1e6},
    {"program-fd", "", ARGS_INT, AT(program_fd), 1, 0, "N",
     "descriptor of the socket of a training program that runs already, in place of one that the node starts",
     .min = 3, .max = 1 << 20},
    {"trainer-python", "", ARGS_PATH, AT(trainer_python), 1, 0, "FILE",
     "interpreter of a training program in Python (python3 in $PATH)"},
    {"job-memory", "", ARGS_INT, AT(job_memory_gib), 1, 0, "N",
     "GiB of memory that the node's process may use (80 % of the machine's memory; 0: no limit)",
     .max = 1 << 20},
    {"collected", "", ARGS_FLAG, AT(is_collected), 1, 0, NULL,
     "do not name the command that collects the results: what has started this process collects them, as "
     "psgd-run does"},
    {"help", "h", ARGS_FLAG, AT(wants_help), 1, 1, NULL, "print this help"},
    {"version", "V", ARGS_FLAG, AT(wants_version), 1, 1, NULL, "print the version"},
};

static const char *const groups[] = {"The node", "Messages", NULL};

const struct args rank_options_table = {"job_runner --job DIR --help lists the options.", table,
                                        sizeof table / sizeof *table, groups};
const char rank_exit_help[] =
    "\nThe process's number comes from the launcher: OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK or RANK (of\n"
    "torchrun), else SLURM_PROCID, else JOB_COMPLETION_INDEX.\n"
    "\nExit status: 0 the node has succeeded, 1 the job has failed, 2 wrong usage, 4 refused: it has\n"
    "succeeded already, or another process runs this node, 5 the other processes did not come, 6 invalid\n"
    "job folder, or it is not clear which process this is, 8 cancelled.\n";

void rank_options_usage(FILE *f)
{
    fputs("usage: job_runner --job DIR [options]\n\n"
          "Runs one node of a job without agents, as a process of mpirun, srun or torchrun. (A job on\n"
          "agents has its job_runner started by them.)\n",
          f);
    args_help(f, &rank_options_table, 1, NULL);
    fputs(rank_exit_help, f);
}

int rank_options_parse(struct rank_options *out, int argc, char **argv, struct err *e)
{
    *out = (struct rank_options){.rank = -1, .size = -1, .timeout_s = 300, .job_memory_gib = -1};
    if (args_parse(&rank_options_table, 1, argc, argv, out, &out->found, e) < 0)
        return e->code;
    if (out->found.n_operands > 0)
        return err_set(e, ERR_USAGE, "\"%s\" is not an option; job_runner --job DIR --help lists them",
                       out->found.operands[0]);
    if (!out->job[0] && !out->wants_help && !out->wants_version)
        return err_set(e, ERR_USAGE, "--job DIR is missing: the folder that job_submit pack has written");
    if (!utf8_is_clean(out->host))
        return err_set(e, ERR_USAGE, "--host: the text is no name and no address of a machine");
    if (!utf8_is_clean(out->launch))
        return err_set(e, ERR_USAGE, "--launch: the text is no name");
    return 0;
}
