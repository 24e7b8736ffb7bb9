/* codecs: which there are, what one of them is, by its own words; a new one, and whether one is as it must be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file.h"
#include "submit/codec_look.h"
#include "submit/codec_new.h"
#include "submit/codec_test.h"
#include "submit/verbs.h"

static const char *text(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));

    return t ? t : "-";
}

static bool is(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

/* One that is there as source only is compiled when somebody asks for it by name. */
static json_t *one_of_list(const char *name, const char *exe_dir, struct err *e)
{
    struct codec_look l;
    json_t *o;

    if (find_codec(&l.file, name, exe_dir, e) < 0)
        return NULL;
    if (l.file.is_source)
        return json_pack("{s:s, s:s?, s:s}", "name", name, "file", l.file.path, "runs_by", "source");
    if (codec_look_open(&l, name, e) < 0)
        return json_pack("{s:s, s:s?, s:s, s:s}", "name", name, "file", l.file.path, "runs_by", "broken",
                         "source", e->text);
    o = codec_look_json(&l);
    codec_look_close(&l);
    return o;
}

static int list(const struct options *o, const char *word, struct err *e)
{
    char names[FIND_NAMES_MAX][FIND_NAME_LEN], exe_dir[PATH_MAX];
    json_t *all = json_array();
    json_t *one;
    size_t i;

    (void)word;
    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0)
        return e->code;
    for (int k = 0, n = find_codecs(names, exe_dir); k < n; k++)
        if ((one = one_of_list(names[k], exe_dir, e)) != NULL)
            json_array_append_new(all, one);
    if (o->json) {
        verb_print_json(true, all, NULL, NULL);
        return 0;
    }
    printf("%-16s  %-7s  %-24s  %s\n", "codec", "runs by", "exchanges", "source");
    json_array_foreach(all, i, one)
    {
        printf("%-16s  %-7s  %-24s  %s\n", text(one, "name"), text(one, "runs_by"), text(one, "exchanges"),
               text(one, strcmp(text(one, "runs_by"), "source") == 0 ? "file" : "source"));
    }
    json_decref(all);
    return 0;
}

static const char *when(const json_t *o)
{
    if (strcmp(text(o, "exchanges"), "nothing") == 0)
        return "";
    if (strcmp(text(o, "runs_by"), "events") == 0)
        return ", as the rule likes";
    return strcmp(text(o, "exchanges"), "gradients") == 0 ? ", each step" : ", each `every` local steps";
}

static const char *roles(const json_t *o)
{
    if (is(o, "updates_on_server"))
        return "workers with parameter servers, where the optimizer is at work";
    return is(o, "has_server_side") ? "workers among each other, or with parameter servers"
                                    : "workers among each other";
}

/* As JSON has it, but for the quotes of a text. */
static void print_value(const json_t *v, int width)
{
    char *t = json_is_string(v) || json_is_null(v) ? NULL
                                                   : json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));

    printf("%-*s  ", width,
           json_is_string(v) ? json_string_value(v)
           : json_is_null(v) ? "(its own)"
           : t               ? t
                             : "");
    free(t);
}

static void print_parameters(const json_t *all)
{
    const json_t *p;
    size_t i;

    if (json_array_size(all) == 0) {
        printf("\nIt takes no parameters.\n");
        return;
    }
    printf("\n%-16s  %-5s  %-12s  %-24s  %s\n", "parameter", "type", "default", "range", "what");
    json_array_foreach(all, i, p)
    {
        char range[64] = "true|false";

        if (json_object_get(p, "words"))
            snprintf(range, sizeof range, "%s", text(p, "words"));
        else if (json_object_get(p, "max"))
            snprintf(range, sizeof range, "%.9g to %.10g", json_number_value(json_object_get(p, "min")),
                     json_number_value(json_object_get(p, "max")));
        printf("%-16s  %-5s  ", text(p, "name"), text(p, "type"));
        print_value(json_object_get(p, "default"), 12);
        printf("%-24s  %s\n", range, text(p, "help"));
    }
}

static void print_codec(const json_t *o)
{
    printf("%s: %s\n\n", text(o, "name"), text(o, "source"));
    printf("  file         %s\n", text(o, "file"));
    printf("  exchanges    %s%s%s\n", text(o, "exchanges"), is(o, "per_block") ? " of blocks" : "", when(o));
    printf("  roles        %s%s\n", roles(o), is(o, "has_asgd") ? "" : ", in ssgd");
    printf("  cost         %s\n", text(o, "cost"));
    printf("  compression  %s\n", text(o, "compression"));
    printf("  checkpoints  %s\n", is(o, "can_be_kept") ? "in ssgd" : "no");
    printf("  lost nodes   %s\n",
           is(o, "hears_of_losses") ? "the others may go on, where its exchange allows it" : "end the job");
    printf("  state        %lld bytes, and the vectors it asks for when it is opened\n",
           (long long)json_integer_value(json_object_get(o, "state_bytes")));
    print_parameters(json_object_get(o, "parameters"));
}

static int show(const struct options *o, const char *word, struct err *e)
{
    struct codec_look l;
    json_t *doc;

    if (codec_look_open(&l, word, e) < 0)
        return e->code;
    doc = codec_look_json(&l);
    codec_look_close(&l);
    if (!doc)
        return err_set(e, ERR_NOMEM, "no memory for a codec's facts");
    if (o->json) {
        verb_print_json(true, doc, NULL, NULL);
    } else {
        print_codec(doc);
        json_decref(doc);
    }
    return 0;
}

int verb_codecs(const struct options *o, struct err *e)
{
    static const struct {
        const char *word;
        int n_operands;
        int (*run)(const struct options *o, const char *operand, struct err *e);
    } actions[] = {{"list", 1, list}, {"show", 2, show}, {"new", 2, codec_new}, {"test", 2, codec_test}};

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (o->n_operands == actions[i].n_operands && strcmp(o->operands[0], actions[i].word) == 0)
            return actions[i].run(o, o->operands[1], e);
    return err_set(e, ERR_USAGE,
                   "codecs takes \"list\", \"show NAME|FILE\", \"new NAME\" or \"test NAME|FILE\"");
}
