#include "submit/terminal/exit_status.h"

#include "shared/base/err.h"
#include "submit/terminal/interrupt.h"

const struct error_exit_status exit_statuses[] = {
    {ERR_INTERNAL, EXIT_INTERNAL, "INTERNAL"},
    {ERR_NOMEM, EXIT_INTERNAL, "OUT_OF_MEMORY"},
    {ERR_USAGE, EXIT_USAGE, "USAGE"},
    {ERR_CONFIG, EXIT_INVALID, "INVALID"},
    {ERR_CODEC, EXIT_INVALID, "CODEC"},
    {ERR_TRAINER, EXIT_INVALID, "TRAINER"},
    {ERR_IO, EXIT_INVALID, "IO"},
    {ERR_NOSPACE, EXIT_INVALID, "DISK_FULL"},
    {ERR_UNREACHABLE, EXIT_UNREACHABLE, "UNREACHABLE"},
    {ERR_REFUSED, EXIT_REFUSED, "REFUSED"},
    {ERR_AUTH, EXIT_AUTH, "UNAUTHORIZED"},
    {ERR_PROTOCOL, EXIT_UNREACHABLE, "PROTOCOL"},
    {ERR_TIMEOUT, EXIT_TIMEOUT, "TIMEOUT"},
    {ERR_LOST, EXIT_JOB_FAILED, "NODE_LOST"},
    {ERR_NUMERIC, EXIT_JOB_FAILED, "NUMERIC"},
    {ERR_CANCELLED, EXIT_CANCELLED, "CANCELLED"},
    {ERR_NOT_FOUND, EXIT_INVALID, "NOT_FOUND"},
    {ERR_CONFLICT, EXIT_INVALID, "CONFLICT"},
    {ERR_BUSY, EXIT_REFUSED, "REFUSED"},
};
const int n_exit_statuses = sizeof exit_statuses / sizeof *exit_statuses;

const char exit_status_help[] =
    "\nExit status: 0 succeeded, 1 job failed, 2 usage, 3 an agent cannot be reached, 4 an agent refused,\n"
    "5 --timeout elapsed (the job continues), 6 invalid input, or a file or stdout that cannot be written,\n"
    "7 not authorised, 8 job cancelled, 9 results incomplete, 70 internal error; ended by a signal, while a\n"
    "running job continues: 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP; 141 stdout has no reader any more, as with\n"
    "`| head -1` (only for commands that show something; a job keeps its own status).\n";

const char *exit_status_error_name(int code)
{
    for (int i = 0; i < n_exit_statuses; i++)
        if (exit_statuses[i].code == code)
            return exit_statuses[i].name;
    return "INTERNAL";
}

int exit_status_of(int code)
{
    if (interrupt_signal())
        return 128 + interrupt_signal();
    for (int i = 0; i < n_exit_statuses; i++)
        if (exit_statuses[i].code == code)
            return exit_statuses[i].status;
    return EXIT_INTERNAL;
}
