/* help: prints all verbs, or the options of one. */
#include <stdio.h>
#include <string.h>

#include "submit/terminal/exit_status.h"
#include "submit/verbs/verbs.h"

enum { HELP_COLUMN = 26, HELP_WIDTH = 74 };

void verb_print_all(FILE *f)
{
    fprintf(f, "job_submit " PSGD_VERSION " -- trains a network on the agents of worker.json\n\n"
               "  job_submit --codec fedavg --node_count 2      submit a job and fetch its results\n"
               "  job_submit help VERB                          the options of a verb\n");
    for (int g = 0; g < N_VERB_GROUPS; g++) {
        fprintf(f, "\n%s:\n", verb_groups[g]);
        for (int i = 0; i < n_verbs; i++)
            if (verbs[i].group == (enum verb_group)g) {
                fprintf(f, "  %-10s %-13s", verbs[i].name, verbs[i].operands);
                args_wrap(f, verbs[i].help, HELP_COLUMN, HELP_WIDTH);
            }
    }
}

void verb_print_help(FILE *f, const struct verb *v)
{
    const char *forms = verb_forms(v);
    char does[512];

    if (!forms)
        fprintf(f, "job_submit %s%s%s%s\n", v->name, v->operands[0] ? " " : "", v->operands,
                v->options ? " [OPTIONS]" : "");
    for (const char *form = forms; form && *form; form = strchr(form, '\n') + 1)
        fprintf(f, "job_submit %s %.*s [OPTIONS]\n", v->name, (int)strcspn(form, "\n"), form);
    snprintf(does, sizeof does, "%s.", v->help);
    args_wrap(f, does, 0, HELP_COLUMN + HELP_WIDTH);
    if (strstr(v->operands, "JOB"))
        fprintf(f,
                "JOB is a job's id, its first characters, a name that only one job has, or the folder of its "
                "results%s.\n",
                v->operands[0] == '[' ? "; without it, the latest job" : "");
    fprintf(f, "In options '_' and '-' are the same; their names are not abbreviated.\n");
    options_help(f, v->options);
    fputs(exit_status_help, f);
}

int verb_help(const struct options *o, struct err *e)
{
    const struct verb *v;

    if (o->args.n_operands == 0) {
        verb_print_all(stdout);
        return 0;
    }
    v = verb_find(o->args.operands[0], e);
    if (!v)
        return e->code;
    verb_print_help(stdout, v);
    return 0;
}
