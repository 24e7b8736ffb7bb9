#include "submit/verbs/codecs_new.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/plugin/codec_options.h"
#include "submit/terminal/standard_output.h"

static void put_lines(FILE *f, const char *const *lines, const char *name)
{
    for (; *lines; lines++) {
        for (const char *p = *lines; *p; p++)
            if (*p == '@')
                fputs(name, f);
            else
                fputc(*p, f);
        fputc('\n', f);
    }
}

static int write_new(const char *path, const struct codec_template *t, const char *name, struct err *e)
{
    FILE *f = fopen(path, "wx");
    bool failed;

    if (!f && errno == EEXIST)
        return err_set(e, ERR_CONFLICT, "%s exists already and was not changed", path);
    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    put_lines(f, t->lines, name);
    failed = ferror(f);
    return fclose(f) != 0 || failed ? err_errno(e, ERR_IO, "%s", path) : 0;
}

static const struct codec_template *find_template(const char *kind, struct err *e)
{
    for (const struct codec_template *t = codec_templates; t->kind; t++)
        if (strcmp(t->kind, kind) == 0)
            return t;
    err_set(e, ERR_USAGE, "\"%s\": a codec's kind is combination, rounds or events", kind);
    return NULL;
}

/* Asks a person; a script gets the first. NULL: no valid answer. */
static const struct codec_template *ask_template(struct err *e)
{
    char answer[32];

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return codec_templates;
    for (const struct codec_template *t = codec_templates; t->kind; t++)
        printf("  %-12s %s\n", t->kind, t->what);
    printf("Which kind of rule? [%s] ", codec_templates->kind);
    fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin))
        answer[0] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    return answer[0] ? find_template(answer, e) : codec_templates;
}

int codec_new(const struct options *o, const char *name, struct err *e)
{
    const char *kind = o->args.n_operands > 2 ? o->args.operands[2] : NULL;
    const struct codec_template *t;
    char path[CODEC_NAME_MAX + 3];

    if (!codec_is_name(name) || strspn(name, "0123456789") > 0)
        return err_set(
            e, ERR_USAGE,
            "\"%s\": a codec's name is 1 to %d characters of a-z, 0-9 and _, and does not begin with a digit",
            name, CODEC_NAME_MAX);
    snprintf(path, sizeof path, "%s.c", name);
    t = kind ? find_template(kind, e) : ask_template(e);
    if (!t || write_new(path, t, name, e) < 0)
        return e->code;
    if (o->json) {
        output_json(true, json_pack("{s:s}", "file", path), NULL, NULL);
        return 0;
    }
    printf("%s is written, a rule by %s. Next:\n"
           "  job_submit codecs test %s             check it against codec.h\n"
           "  job_submit simulate --codec %s        run it in simulated time, without agents\n"
           "  job_submit --codec %s --node_count 2  train with it on the agents of worker.json\n",
           path, t->kind, path, path, path);
    return 0;
}
