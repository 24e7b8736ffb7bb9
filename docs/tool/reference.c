/* reference -- prints one page of docs/reference/ as Markdown, from the tables that the programs use
 * themselves. docs/tool/generate calls it for every page, in a folder without codecs and with
 * PSGD_CODEC_PATH set to the built-in ones.
 *
 * A table of a page has one row for each entry of a table in the source, so this file does not change
 * when an option, a column or a codec is added. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "agent/api/problem.h"
#include "agent/base/agent_options.h"
#include "agent/folder/rank_options.h"
#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "shared/job/model_spec.h"
#include "shared/job/reason.h"
#include "shared/records/artifacts.h"
#include "submit/codecs/codec_look.h"
#include "submit/codecs/compressor_look.h"
#include "submit/compat/presets.h"
#include "submit/data/data_sets.h"
#include "submit/options/options_table.h"
#include "submit/terminal/exit_status.h"
#include "submit/trainer/trainer_limits.h"
#include "submit/verbs/verbs.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Text in a cell of a table, where a '<' in front of a letter would begin a tag, and a '*' in front of a word
 * an emphasis. */
static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|' || (*text == '*' && text[1] != ' ') || (*text == '<' && is_letter(text[1])))
            putchar('\\');
        putchar(*text);
    }
}

/* The same in the font of code, where only the end of a cell has a meaning. */
static void print_code(const char *text)
{
    putchar('`');
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
    putchar('`');
}

/* Each item of a list that `separator` divides, in code. */
static void print_list(const char *list, char separator)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, (char[]){separator, '\0'});
        char item[256];

        snprintf(item, sizeof item, "%.*s", (int)n, p);
        print_code(item);
        p += n + (p[n] != '\0');
        if (*p)
            fputs(", ", stdout);
    }
}

static void print_number(double v)
{
    if (v > -1e16 && v < 1e16 && v == (double)(long long)v)
        printf("%lld", (long long)v);
    else
        printf("%g", v);
}

static void print_range(double min, double max)
{
    print_number(min);
    fputs(" to ", stdout);
    print_number(max);
}

static void print_head(const char *title, const char *sources)
{
    printf("# %s\n\nMade by `make reference` from %s; do not edit.\n", title, sources);
}

/* ---- options ---- */

static bool is_choice(const struct args_option *t)
{
    return t->kind == ARGS_CHOICE || t->kind == ARGS_CHOICE_TEXT;
}

static void print_names(const struct args_option *t)
{
    const char *p = t->names;

    for (const char *s = t->shorts; *s; s++)
        printf("`-%c`, ", *s);
    while (*p) {
        size_t n = strcspn(p, "|");

        printf("`--%.*s`%s", (int)n, p, p[n] ? ", " : "");
        p += n + (p[n] != '\0');
    }
}

static void print_value(const struct args_option *t)
{
    if (!t->value)
        return;
    if (is_choice(t)) {
        print_list(t->value, '|');
        return;
    }
    print_code(t->value);
    if (t->min != 0 || t->max != 0) {
        fputs(", ", stdout);
        print_range(t->min, t->max);
    }
}

static void print_default(const struct args_option *t, const void *defaults)
{
    char text[4096];

    if (args_default(text, sizeof text, t, defaults))
        print_code(text);
}

static bool has_own_options(const struct verb *v)
{
    return v->options != FOR_ALL;
}

static void print_verbs_of(const struct args_option *t)
{
    bool is_first = true;

    if (t->verbs == FOR_ALL) {
        fputs("all", stdout);
        return;
    }
    for (int i = 0; i < n_verbs; i++)
        if (has_own_options(&verbs[i]) && (t->verbs & verbs[i].options)) {
            printf("%s%s", is_first ? "" : ", ", verbs[i].name);
            is_first = false;
        }
}

/* The options of group g. `defaults` is NULL where --help states them. */
static void print_options(const struct args *a, int g, const void *defaults)
{
    printf("\n## %s\n\n", a->groups[g]);
    puts(defaults ? "| option | value | default | verbs | is |\n|---|---|---|---|---|"
                  : "| option | value | is |\n|---|---|---|");
    for (int i = 0; i < a->n; i++) {
        const struct args_option *t = &a->options[i];

        if (t->group != g)
            continue;
        fputs("| ", stdout);
        print_names(t);
        fputs(" | ", stdout);
        print_value(t);
        if (defaults) {
            fputs(" | ", stdout);
            print_default(t, defaults);
            fputs(" | ", stdout);
            print_verbs_of(t);
        }
        fputs(" | ", stdout);
        print_cell(t->help);
        puts(" |");
    }
}

static void print_verbs(int group)
{
    printf("\n%s:\n\n| verb | arguments | does |\n|---|---|---|\n", verb_groups[group]);
    for (int i = 0; i < n_verbs; i++) {
        if (verbs[i].group != (enum verb_group)group)
            continue;
        printf("| `%s` | ", verbs[i].name);
        if (verbs[i].operands[0])
            print_code(verbs[i].operands);
        fputs(" | ", stdout);
        print_cell(verbs[i].help);
        puts(" |");
    }
}

static int page_job_submit(struct err *e)
{
    static struct options o;
    char *argv[] = {(char[]){"job_submit"}, NULL};

    if (options_parse(&o, FOR_SUBMIT, 1, argv, e) < 0)
        return e->code;
    settings_default(&o.settings); /* before it is fitted to the optimizer */
    o.settings.name[0] = '\0';
    print_head("job_submit",
               "the tables of `submit/verbs/verb_table.c` and `submit/options/options_table.c`");
    puts("\n`job_submit VERB ...`; the verb `submit` may be left out. `job_submit help VERB` prints the "
         "options of one "
         "verb. JOB is a\njob's id, its first characters, a name that only one job has, or the folder of its "
         "results; without it, the latest job.\nIn options `_` and `-` are the same, and their names are not "
         "abbreviated. Exit statuses: [status.md](status.md).\n\n## Verbs");
    for (int g = 0; g < N_VERB_GROUPS; g++)
        print_verbs(g);
    for (int g = 0; options_table.groups[g]; g++)
        print_options(&options_table, g, &o);
    return 0;
}

static int page_agent(struct err *e)
{
    char text[2048];

    (void)e;
    print_head("agent", "the table of `agent/base/agent_options.c`");
    puts(
        "\n`agent [OPTIONS]` waits for jobs and runs their nodes on its machine. Defaults are in "
        "parentheses. Exit "
        "statuses:\n[status.md](status.md). An agent starts `job_runner`, and job_submit starts `simulator`, "
        "`predictor`\nand `codec_check`; these have no options for users.");
    printf("\n```text\n%s```\n", agent_token_usage(text, sizeof text, "agent"));
    for (int g = 0; agent_options_table.groups[g]; g++)
        print_options(&agent_options_table, g, NULL);
    puts("\n# job_runner --job\n\n`job_runner --job DIR` runs one node of a job without agents, as a process "
         "of a launcher\n([clusters.md](../clusters.md)). Its options are those of "
         "`agent/folder/rank_options.c`.");
    for (int g = 0; rank_options_table.groups[g]; g++)
        print_options(&rank_options_table, g, NULL);
    printf("\n```text%s```\n", rank_exit_help);
    return 0;
}

/* ---- records ---- */

static int page_records(struct err *e)
{
    static const char *const types[] = {
        [RECORD_TEXT] = "text",    [RECORD_INT] = "integer",     [RECORD_U64] = "integer",
        [RECORD_FLOAT] = "number", [RECORD_SECONDS] = "seconds", [RECORD_SPAN] = "seconds",
        [RECORD_LINE] = "text"};

    (void)e;
    print_head("Records", "the tables of `shared/records/artifacts.c` and `shared/records/record.h`");
    puts("\nThe files in `records/` of a job's results. A missing value is empty, a number that is not "
         "finite is "
         "`nan` or `inf`. Later\nversions only append columns. A simulation appends `sim_time_s`, the "
         "simulated "
         "time since it began, to `train.csv`,\n`eval.csv`, `comm.csv` and `codec.csv`.");
    for (size_t i = 0; i < N_RECORD_FILES; i++) {
        printf("\n## %s\n\n%c%s.\n\n| column | type | is |\n|---|---|---|\n", artifacts[i].name,
               toupper(artifacts[i].help[0]), artifacts[i].help + 1);
        for (const struct record_column *c = artifacts[i].columns; c->name; c++) {
            printf("| `%s` | %s | ", c->name, types[c->type]);
            print_cell(c->help);
            puts(" |");
        }
    }
    return 0;
}

/* ---- codecs and compressors ---- */

static bool is_set(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

static void print_cells(size_t n, const char *const *cells)
{
    fputs("|", stdout);
    for (size_t i = 0; i < n; i++) {
        putchar(' ');
        print_cell(cells[i]);
        fputs(" |", stdout);
    }
}

static void print_parameters_of(const char *name, const json_t *list)
{
    const json_t *p, *v;
    size_t i;

    json_array_foreach(list, i, p)
    {
        fputs("| ", stdout);
        if (name[0])
            printf("`%s` | ", name);
        printf("`%s` | %s | ", json_text_at(p, "name"), json_text_at(p, "type"));
        v = json_object_get(p, "default");
        if (json_is_string(v))
            print_code(json_string_value(v));
        else if (json_is_boolean(v))
            print_code(json_is_true(v) ? "true" : "false");
        else if (json_is_number(v))
            print_number(json_number_value(v));
        fputs(" | ", stdout);
        if (json_is_boolean(v))
            print_list("true|false", '|');
        else if (json_object_get(p, "choices"))
            print_list(json_text_at(p, "choices"), '|');
        else if (json_object_get(p, "max"))
            print_range(json_number_value(json_object_get(p, "min")),
                        json_number_value(json_object_get(p, "max")));
        fputs(" | ", stdout);
        print_cell(json_text_at(p, "help"));
        puts(" |");
    }
}

static const char *modes_of(const json_t *o)
{
    if (!is_set(o, "has_ssgd"))
        return "asgd";
    return is_set(o, "has_asgd") ? "ssgd, asgd" : "ssgd";
}

static const char *servers_of(const json_t *o)
{
    if (is_set(o, "updates_on_server"))
        return "required; they run the optimizer";
    if (is_set(o, "needs_servers"))
        return "required";
    return is_set(o, "has_server_side") ? "with or without" : "without";
}

/* Of a rule that combines, by path. */
static void print_costs(const json_t *o)
{
    const char *path, *before = "";
    json_t *cost;

    print_cell(json_text_at(o, "cost"));
    json_object_foreach(json_object_get(o, "paths"), path, cost)
    {
        printf("%s`%s`: ", before, path);
        print_cell(json_string_value(cost));
        before = "<br>";
    }
}

static void print_codecs_of(const json_t *all)
{
    const json_t *o;
    size_t i;

    puts("\n## Codecs\n\n`--codec NAME` or `NAME:KEY=VALUE,...`. A rule that combines, or runs by rounds, "
         "exchanges "
         "gradients in each "
         "step, and parameters after each\n`every` local steps. `--compress` and `--compress-down` may be "
         "lossy both ways, lossy "
         "up (from workers), lossy down (from servers), or lossless only.\n\n"
         "| codec | exchanges | runs by | servers | modes | compression | `--compress-down` | checkpoints | "
         "continues without a "
         "lost node | source |\n|---|---|---|---|---|---|---|---|---|---|");
    json_array_foreach(all, i, o)
    {
        const char *cells[] = {json_text_at(o, "exchanges"),
                               json_text_at(o, "runs_by"),
                               servers_of(o),
                               modes_of(o),
                               json_text_at(o, "compression"),
                               json_text_at(o, "compression_down"),
                               is_set(o, "can_be_kept") ? "in ssgd" : "no",
                               is_set(o, "handles_node_loss") ? "if its exchange allows it" : "no",
                               json_text_at(o, "source")};

        printf("| `%s` ", json_text_at(o, "name"));
        print_cells(sizeof cells / sizeof *cells, cells);
        putchar('\n');
    }
    puts("\n| codec | equation | costs in one exchange |\n|---|---|---|");
    json_array_foreach(all, i, o)
    {
        printf("| `%s` | ", json_text_at(o, "name"));
        print_cell(json_text_at(o, "equation"));
        fputs(" | ", stdout);
        print_costs(o);
        puts(" |");
    }
    puts("\nParameters; where there is no default, the codec chooses:\n\n"
         "| codec | parameter | type | default | range | is |\n|---|---|---|---|---|---|");
    json_array_foreach(all, i, o)
        print_parameters_of(json_text_at(o, "name"), json_object_get(o, "parameters"));
}

static void print_compressors_of(const json_t *all)
{
    const json_t *o;
    size_t i;

    puts("\n## Compressors\n\n`--compress` and `--compress-down` take a chain of up to three, one of each "
         "kind in this "
         "order: `selects`, `values`,\n`symbols`. [compression.md](../compression.md) explains them.\n\n"
         "| compressor | kind | sends | error | bound of the error | source |\n|---|---|---|---|---|---|");
    json_array_foreach(all, i, o)
    {
        const char *cells[] = {json_text_at(o, "kind"), json_text_at(o, "help"), json_text_at(o, "error"),
                               json_text_at(o, "bound"), json_text_at(o, "source")};

        printf("| `%s` ", json_text_at(o, "name"));
        print_cells(sizeof cells / sizeof *cells, cells);
        putchar('\n');
    }
    puts("\nParameters:\n\n| compressor | parameter | type | default | range | is "
         "|\n|---|---|---|---|---|---|");
    json_array_foreach(all, i, o)
        print_parameters_of(json_text_at(o, "name"), json_object_get(o, "parameters"));
    puts("\nParameters of a chain, given with its first compressor:\n\n"
         "| parameter | type | default | range | is |\n|---|---|---|---|---|");
    print_parameters_of("", json_object_get(json_array_get(all, 0), "chain_parameters"));
}

static int add_codec(json_t *all, const char *name, struct err *e)
{
    struct codec_look l;
    int rc;

    if (codec_look_open(&l, name, NULL, e) < 0)
        return e->code;
    rc = json_array_append_new(all, codec_look_json(&l));
    codec_look_close(&l);
    return rc < 0 ? err_set(e, ERR_NOMEM, "no memory for a list of codecs") : 0;
}

static void print_presets(void)
{
    char options[512];

    puts("\n## Names for a rule with options\n\n`--codec NAME` stands for these options; options on the "
         "command line replace them. Parameters, as in\n`--codec eamsgd:alpha=0.1`, are the rule's. Names "
         "with "
         "`--compress-down` need parameter servers.\n\n| name | stands for | is |\n|---|---|---|");
    for (const struct preset *p = presets; p->name; p++) {
        const char *cells[] = {p->note};

        preset_text(options, sizeof options, p);
        printf("| `%s` | `", p->name);
        for (const char *c = options; *c; c++)
            printf(*c == '|' ? "\\|" : "%c", *c);
        printf("` ");
        print_cells(1, cells);
        putchar('\n');
    }
}

static int page_codecs(struct err *e)
{
    char names[FIND_NAMES_MAX][FIND_NAME_LEN];
    json_t *codecs = json_array(), *compressors = compressor_list_json(e);
    int rc = compressors ? 0 : e->code;

    for (int i = 0, n = find_codecs(names, "."); rc == 0 && i < n; i++)
        rc = add_codec(codecs, names[i], e);
    if (rc == 0) {
        print_head("Codecs and compressors", "what `job_submit codecs show` reads from them");
        print_codecs_of(codecs);
        print_compressors_of(compressors);
        print_presets();
    }
    json_decref(codecs);
    json_decref(compressors);
    return rc;
}

/* ---- training programs ---- */

/* What a program notices of the rule. */
static const char *seen_of(const struct codec_facts *f)
{
    if (!f->sends_grads && !f->sends_params)
        return "nothing: each worker trains alone";
    if (f->has_events)
        return "other parameters at any step";
    if (f->sends_grads)
        return "in each step the combined gradient, for its update";
    return f->changes_grads ? "new parameters after `every` steps; in each step its gradient, changed"
                            : "new parameters after `every` steps";
}

static int print_rule_of_trainer(const char *name, struct err *e)
{
    const char *why, *instead;
    struct codec_look l;

    if (codec_look_open(&l, name, NULL, e) < 0)
        return e->code;
    why = trainer_limits_rule(&instead, &l.facts);
    printf("| `%s` | %s | %s | ", name, why ? "no" : "yes", trainer_limits_trains(&l.facts) ? "yes" : "no");
    if (why)
        printf("it %s. %s |\n", why, instead);
    else
        printf("%s |\n", seen_of(&l.facts));
    codec_look_close(&l);
    return 0;
}

static int page_trainer(struct err *e)
{
    char names[FIND_NAMES_MAX][FIND_NAME_LEN], name[ARGS_NAME], hint[TRAINER_HINT];
    const char *why;

    print_head("Rules and options with a training program",
               "the codecs and the table of `submit/trainer/trainer_limits.c`");
    puts("\nWith `--trainer FILE` a program of the user's computes gradients and updates. Paths, aggregates, "
         "compressors,\n`--participate` and `--overlap` go with the rules as in "
         "[combinations.md](../combinations.md). A function\nthat `job_submit simulate` calls, "
         "`psgd.trainer.client()`, gives parameters, where the rule needs no "
         "gradients,\nor gradients, which go with every rule.\n"
         "\n## Rules\n\n| rule | with a program | with a function `train` | what the program notices, or why "
         "not |\n|---|---|---|---|");
    for (int i = 0, n = find_codecs(names, "."); i < n; i++)
        if (print_rule_of_trainer(names[i], e) < 0)
            return e->code;
    puts("\n## Options that are refused\n\n| option | because the program | instead | with a function "
         "`gradient` |\n|---|---|---|---|");
    for (size_t i = 0; trainer_limits_option(i, name, &why, hint); i++)
        printf("| `--%s` | %s | %s | %s |\n", name, why, hint, trainer_limits_is_psgds(i) ? "yes" : "no");
    return 0;
}

/* ---- models and data ---- */

static int print_optimizer(const char *kind, struct err *e)
{
    static struct options o;
    const double *const own[] = {&o.settings.momentum, &o.settings.beta1, &o.settings.beta2,
                                 &o.settings.epsilon, &o.settings.adamw_rate};
    char name[32];
    char *argv[] = {(char[]){"job_submit"}, (char[]){"--gradient-descent"}, name, NULL};

    snprintf(name, sizeof name, "%s", kind);
    if (options_parse(&o, FOR_SUBMIT, 3, argv, e) < 0)
        return e->code;
    printf("| `%s` | %g | %g |", kind, o.settings.learn_rate, o.settings.weight_decay);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (*own[i] > 0)
            printf(" %g |", *own[i]);
        else
            printf(" |");
    puts("");
    return 0;
}

/* The names that the manuals of the headers must describe. */
static int page_names_of_optimizers(struct err *e)
{
    (void)e;
    for (int k = 0; k < N_OPTIMIZERS; k++)
        puts(optimizer_kinds[k].name);
    return 0;
}

static int page_names_of_layers(struct err *e)
{
    (void)e;
    for (int i = 0; i < LAYER_SUM; i++) /* no document has a sum */
        puts(layer_kind_name((enum layer_kind)i));
    return 0;
}

static int page_names_of_losses(struct err *e)
{
    (void)e;
    for (int i = 0; i < N_LOSS_KINDS; i++)
        puts(loss_kind_name((enum loss_kind)i));
    return 0;
}

static int page_names_of_data_sets(struct err *e)
{
    (void)e;
    for (size_t i = 0; dataset_name(i); i++)
        puts(dataset_name(i));
    return 0;
}

static int page_optimizers(struct err *e)
{
    puts(
        "| `--gradient-descent` | `--learn_rate` | `--weight-decay` | `--momentum` | `--beta1` | `--beta2` | "
        "`--epsilon` | `--adamw-rate` |\n|---|---|---|---|---|---|---|---|");
    for (int k = 0; k < N_OPTIMIZERS; k++)
        if (print_optimizer(optimizer_kinds[k].name, e) < 0)
            return e->code;
    return 0;
}

static int page_data_sets(struct err *e)
{
    (void)e;
    puts("| data set | needs files |\n|---|---|");
    for (size_t i = 0; dataset_name(i); i++)
        printf("| `%s` | %s |\n", dataset_name(i), dataset_is_drawn(dataset_name(i)) ? "no" : "yes");
    return 0;
}

/* ---- states and failures ---- */

static void print_states(void)
{
    puts("| state | the next one is |\n|---|---|");
    for (int s = 0; s < N_JOB_STATES; s++) {
        bool is_first = true;

        printf("| `%s` | ", job_state_name((enum job_state)s));
        for (int to = 0; to < N_JOB_STATES; to++)
            if (job_state_may_follow((enum job_state)s, (enum job_state)to)) {
                printf("%s`%s`", is_first ? "" : ", ", job_state_name((enum job_state)to));
                is_first = false;
            }
        puts(" |");
    }
}

static void print_problems(void)
{
    puts("| code | HTTP status | title | means | what to do |\n|---|---|---|---|---|");
    for (int i = PROBLEM_NONE + 1; i < N_PROBLEMS; i++) {
        enum problem p = (enum problem)i;

        printf("| `%s` | %d | %s | %s | %s |\n", problem_code(p), problem_status(p), problem_title(p),
               problem_meaning(p), problem_advice(p));
    }
}

static int page_reasons(struct err *e)
{
    (void)e;
    for (int i = 0; i < n_reasons; i++) {
        if (i == 0 || strcmp(reasons[i].group, reasons[i - 1].group) != 0)
            printf("\n%s:\n\n| reason | is |\n|---|---|\n", reasons[i].group);
        printf("| `%s` | %s |\n", reasons[i].name, reasons[i].meaning);
    }
    return 0;
}

static int page_status(struct err *e)
{
    (void)e;
    print_head("Exit statuses, error codes, states and reasons",
               "`submit/terminal/exit_status.c`, `agent/base/agent_options.c`, `agent/api/problem.c` and "
               "`shared/job/job_state.c`");
    printf("\n## job_submit\n%s\nWith `--json` a command that fails prints the `code` of its error:\n\n"
           "| code | exit status |\n|---|---|\n",
           exit_status_help);
    for (int i = 0; i < n_exit_statuses; i++)
        printf("| `%s` | %d |\n", exit_statuses[i].name, exit_statuses[i].status);
    printf("\n## agent\n%s\n## Problems that an agent answers with\n\n", agent_exit_help);
    print_problems();
    puts("\n## States of a job\n");
    print_states();
    return 0;
}

/* ---- the agent's routes ---- */

static void print_route(const struct route *r)
{
    static const char *const needs[] = {[NEEDS_NOTHING] = "none",
                                        [NEEDS_LOCAL] = "none from a loopback address, else `read`",
                                        [NEEDS_READ] = "`read`",
                                        [NEEDS_SUBMIT] = "`submit`",
                                        [NEEDS_ADMIN] = "`admin`"};
    bool is_of_job = (r->flags & ROUTE_JOB) != 0, may_read = r->needs == NEEDS_READ;

    printf("| `%s %s` | %s | %s%s | %s |\n", method_names[r->method], r->pattern, r->summary, needs[r->needs],
           r->flags & ROUTE_CODE ? ", but a code" : "",
           !is_of_job ? ""
           : may_read ? "`submit`: with the job's key"
                      : "with the job's key, or `admin`");
}

static int page_routes(struct err *e)
{
    (void)e;
    print_head("Scopes of the routes of an agent", "the table of `agent/api/api.h`");
    puts("\nA token has one of the scopes `read`, `submit` and `admin`; each includes those before it, "
         "except that `submit` "
         "reaches\nonly jobs whose key it sends. Without that, a job is unknown (404). Requests and "
         "answers: [protocol.md](../protocol.md#13-routes).\n\n| method and path | does | scope | which jobs "
         "|\n|---|---|---|---|");
    for (size_t i = 0; i < n_routes; i++)
        print_route(&routes[i]);
    return 0;
}

static const struct {
    const char *name;
    int (*print)(struct err *e);
} pages[] = {
    {"job_submit", page_job_submit},
    {"agent", page_agent},
    {"records", page_records},
    {"codecs", page_codecs},
    {"trainer", page_trainer},
    {"optimizers", page_optimizers},
    {"data_sets", page_data_sets},
    {"routes", page_routes},
    {"status", page_status},
    {"reasons", page_reasons},
    {"names-of-optimizers", page_names_of_optimizers},
    {"names-of-layers", page_names_of_layers},
    {"names-of-losses", page_names_of_losses},
    {"names-of-data_sets", page_names_of_data_sets},
};

int main(int argc, char **argv)
{
    struct err e = {0};

    unsetenv("PSGD_WORKERS"); /* a default of --workers */
    for (size_t i = 0; argc == 2 && i < sizeof pages / sizeof *pages; i++)
        if (strcmp(argv[1], pages[i].name) == 0) {
            if (pages[i].print(&e) == 0 && fflush(stdout) == 0)
                return 0;
            fprintf(stderr, "reference: page %s: %s\n", argv[1], e.text);
            return 1;
        }
    fprintf(stderr, "usage: reference PAGE\n");
    return 2;
}
