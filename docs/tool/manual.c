/* manual -- prints a manual page, job_submit.1 or psgd-agent.8, in the language of man(7), from the tables
 * that the programs use themselves. docs/tool/manuals appends what is in documents: environment and files. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/agent_options.h"
#include "submit/options/options_table.h"
#include "submit/terminal/exit_status.h"
#include "submit/verbs/verbs.h"

/* Text of a paragraph: no character has a meaning in it. */
static void print_text(const char *text)
{
    bool begins = true;

    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

static void print_line(const char *text)
{
    print_text(text);
    putchar('\n');
}

static void print_bold(const char *text)
{
    fputs("\\fB", stdout);
    print_text(text);
    fputs("\\fR", stdout);
}

static void print_head(const char *name, int section, const char *what)
{
    printf(".TH \"%s\" %d \"\" \"psgd " PSGD_VERSION "\"\n.SH NAME\n", name, section);
    print_text(name);
    fputs(" \\- ", stdout);
    print_line(what);
}

/* Lines as they are. */
static void print_lines(const char *text)
{
    puts(".PP\n.nf");
    print_text(text);
    puts(".fi");
}

static void print_names(const struct args_option *t)
{
    for (const char *s = t->shorts; *s; s++) {
        print_bold((char[]){'-', *s, '\0'});
        fputs(", ", stdout);
    }
    for (const char *p = t->names; *p; p += *p == '|') {
        char name[ARGS_NAME + 2];
        size_t n = strcspn(p, "|");

        snprintf(name, sizeof name, "--%.*s", (int)n, p);
        if (p > t->names)
            fputs(", ", stdout);
        print_bold(name);
        p += n;
    }
    if (!t->value)
        return;
    fputs(" \\fI", stdout);
    for (const char *p = t->value; *p; p++)
        if (*p == '|')
            fputs("\\fR|\\:\\fI", stdout); /* a long list may be broken there */
        else
            print_text((char[]){*p, '\0'});
    fputs("\\fR", stdout);
}

static void print_verbs_of(const struct args_option *t)
{
    bool is_first = true;

    if (t->verbs == FOR_ALL)
        return;
    for (int i = 0; i < n_verbs; i++)
        if (verbs[i].options != FOR_ALL && (t->verbs & verbs[i].options)) {
            printf("%s%s", is_first ? "Of: " : ", ", verbs[i].name);
            is_first = false;
        }
    puts(".");
}

/* `defaults` is NULL where the help states them, of a program without verbs. */
static void print_options(const struct args *a, const void *defaults)
{
    char standing[4096];

    puts(".SH OPTIONS\n.ad l");
    for (int g = 0; a->groups[g]; g++) {
        printf(".SS %s\n", a->groups[g]);
        for (int i = 0; i < a->n; i++) {
            const struct args_option *t = &a->options[i];

            if (t->group != g)
                continue;
            puts(".TP");
            print_names(t);
            putchar('\n');
            print_text(t->help);
            if (defaults && args_default(standing, sizeof standing, t, defaults)) {
                fputs(" (default ", stdout);
                print_text(standing);
                putchar(')');
            }
            puts(".");
            if (defaults)
                print_verbs_of(t);
        }
    }
}

static void print_exit_status(const char *help)
{
    puts(".SH EXIT STATUS");
    print_line(strchr(help, ':') + 2);
}

static int page_job_submit(struct err *e)
{
    static struct options o;
    char *argv[] = {(char[]){"job_submit"}, NULL};

    if (options_parse(&o, FOR_SUBMIT, 1, argv, e) < 0)
        return e->code;
    settings_default(&o.settings); /* before it is fitted to the optimizer */
    o.settings.name[0] = '\0';
    print_head("job_submit", 1, "train a network on several machines, by a rule of your own");
    puts(".SH SYNOPSIS\n\\fBjob_submit\\fR [\\fIVERB\\fR] [\\fIOPTIONS\\fR]\n.br\n"
         "\\fBpsgd\\fR [\\fIVERB\\fR] [\\fIOPTIONS\\fR]\n.SH DESCRIPTION");
    print_line(
        "Ships a job with its rule, model and data to the agents listed in worker.json, watches it, and "
        "collects "
        "records, logs and the model. The verb submit may be left out. `job_submit help VERB` prints the "
        "options of one verb. JOB is a job's id, its first characters, a name that only one job has, or the "
        "folder of its results; "
        "without it, the latest job. In options _ and - are the same, and their names are not abbreviated. "
        "psgd is the same program; `psgd agent` is psgd-agent(8).");
    puts(".SH VERBS");
    for (int g = 0; g < N_VERB_GROUPS; g++) {
        printf(".SS %s\n", verb_groups[g]);
        for (int i = 0; i < n_verbs; i++) {
            if (verbs[i].group != (enum verb_group)g)
                continue;
            puts(".TP");
            print_bold(verbs[i].name);
            fputs(" \\fI", stdout);
            print_text(verbs[i].operands);
            puts("\\fR");
            print_text(verbs[i].help);
            puts(".");
        }
    }
    print_options(&options_table, &o);
    print_exit_status(exit_status_help);
    return 0;
}

static int page_agent(struct err *e)
{
    char text[2048];

    (void)e;
    print_head("psgd-agent", 8, "run nodes of training jobs on this machine");
    puts(".SH SYNOPSIS\n\\fBpsgd\\-agent\\fR [\\fIOPTIONS\\fR]\n.br\n"
         "\\fBpsgd\\-agent token\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION");
    print_line("Waits for jobs of job_submit(1) and runs their nodes on this machine. Defaults are in "
               "parentheses. In the "
               "tree of the source the program is called agent.");
    puts(".SH TOKENS");
    print_lines(agent_token_usage(text, sizeof text, "psgd-agent"));
    print_options(&agent_options_table, NULL);
    print_exit_status(agent_exit_help);
    return 0;
}

static const struct page {
    const char *name;
    int (*print)(struct err *e);
} pages[] = {{"job_submit.1", page_job_submit}, {"psgd-agent.8", page_agent}};

int main(int argc, char **argv)
{
    struct err e = {0};

    for (size_t i = 0; argc == 2 && i < sizeof pages / sizeof *pages; i++)
        if (strcmp(argv[1], pages[i].name) == 0) {
            if (pages[i].print(&e) == 0)
                return 0;
            fprintf(stderr, "manual: %s\n", e.text);
            return 1;
        }
    fprintf(stderr, "usage: manual job_submit.1 | psgd-agent.8\n");
    return 2;
}
