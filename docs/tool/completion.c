/* completion -- prints what a shell completes for job_submit, psgd and psgd-agent, from the tables that the
 * programs use themselves: a line for each verb, which has no names, and for each of its options.
 * docs/tool/manuals makes of it the completions of bash, zsh and fish; the code of these is in
 * docs/tool/completion.*. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/agent_options.h"
#include "codecs/compress/compress.h"
#include "shared/base/file.h"
#include "shared/records/record.h"
#include "submit/codecs/codec_find.h"
#include "submit/compat/presets.h"
#include "submit/data/data_sets.h"
#include "submit/options/options_table.h"
#include "submit/verbs/verbs.h"

enum { VALUES = 8192 };

/* Words that do not fit are left out. */
static void add_word(char out[VALUES], const char *word)
{
    size_t n = strlen(out);

    if (n + strlen(word) + 2 <= VALUES)
        snprintf(out + n, VALUES - n, "%s%s", n ? " " : "", word);
}

/* What an option's value may be: words, FILE for a path. "": anything else; NULL: it takes none. */
static const char *values_of(const struct args_option *t)
{
    static char out[VALUES];
    char exe_dir[PATH_MAX], names[FIND_NAMES_MAX][FIND_NAME_LEN];
    struct err ignored;
    char first[ARGS_NAME];
    int n = 0;

    out[0] = '\0';
    args_name(first, t);
    if (t->kind == ARGS_FLAG || t->kind == ARGS_COUNT)
        return NULL;
    if (t->kind == ARGS_PATH)
        return "FILE";
    if (t->kind == ARGS_CHOICE || t->kind == ARGS_CHOICE_TEXT) {
        snprintf(out, sizeof out, "%s", t->value);
        for (char *p = out; *p; p++)
            *p = *p == '|' ? ' ' : *p;
    } else if (strcmp(first, "codec") == 0) {
        if (file_exe_dir(exe_dir, sizeof exe_dir, &ignored) == 0)
            n = find_codecs(names, exe_dir);
        for (int i = 0; i < n; i++)
            add_word(out, names[i]);
        for (const struct preset *p = presets; p->name; p++)
            add_word(out, p->name);
        add_word(out, "FILE");
    } else if (strcmp(first, "model") == 0) {
        if (file_exe_dir(exe_dir, sizeof exe_dir - 3, &ignored) == 0)
            n = find_models(names, strcat(exe_dir, "/..")); /* beside job_submit */
        for (int i = 0; i < n; i++)
            add_word(out, names[i]);
        add_word(out, "FILE");
    } else if (strcmp(first, "compress") == 0 || strcmp(first, "compress-down") == 0) {
        for (const struct compressor *const *c = compressors; *c; c++)
            add_word(out, (*c)->name);
    } else if (strcmp(first, "y") == 0) {
        for (const struct record_column *c = record_eval_columns; c->name; c++)
            if (c->type == RECORD_FLOAT)
                add_word(out, c->name);
    } else if (strcmp(first, "dataset") == 0) {
        for (size_t i = 0; dataset_name(i); i++)
            add_word(out, dataset_name(i));
    } else if (t->kind == ARGS_NAME_OR_PATH) {
        return "FILE";
    }
    return out;
}

/* What the first operand of a verb may be: JOB, or words. */
static const char *operands_of(const struct verb *v)
{
    static char out[VALUES];
    char word[ARGS_NAME];

    if (strstr(v->operands, "JOB"))
        return "JOB";
    out[0] = '\0';
    for (const char *form = verb_forms(v); form && *form; form = strchr(form, '\n') + 1) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(form, " \n"), form);
        add_word(out, word);
    }
    for (int i = 0; v->run == verb_help && i < n_verbs; i++)
        add_word(out, verbs[i].name);
    return out;
}

/* A line with tabs between PROGRAM, VERB, its names, VALUES and its help; VALUES "-": it takes none. */
static void print_options(const char *program, const char *verb, uint64_t bits, const struct args *a)
{
    for (int i = 0; i < a->n; i++) {
        const struct args_option *t = &a->options[i];
        const char *values = values_of(t);

        if (!(t->verbs & bits))
            continue;
        printf("%s\t%s\t", program, verb);
        for (const char *p = t->names; *p; p += *p == '|') {
            size_t n = strcspn(p, "|");

            printf("%s--%.*s", p > t->names ? " " : "", (int)n, p);
            p += n;
        }
        for (const char *s = t->shorts; *s; s++)
            printf(" -%c", *s);
        printf("\t%s\t%s\n", values ? values : "-", t->help);
    }
}

int main(void)
{
    static struct options o;
    char *argv[] = {(char[]){"job_submit"}, NULL};
    struct err e;

    if (options_parse(&o, FOR_SUBMIT, 1, argv, &e) < 0) { /* which also completes the table */
        fprintf(stderr, "completion: %s\n", e.text);
        return 1;
    }
    for (int i = 0; i < n_verbs; i++) {
        printf("job_submit\t%s\t\t%s\t%s\n", verbs[i].name, operands_of(&verbs[i]), verbs[i].help);
        print_options("job_submit", verbs[i].name, verbs[i].options, &options_table);
    }
    print_options("psgd-agent", "run", AGENT_RUN, &agent_options_table);
    puts("psgd-agent\ttoken\t\t\tmanage the tokens of the agent of this folder");
    print_options("psgd-agent", "token", AGENT_TOKEN, &agent_options_table);
    return 0;
}
