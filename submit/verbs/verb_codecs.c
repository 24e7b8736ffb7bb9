/* codecs: lists codecs and compressors, and shows the properties of one (their texts are untrusted). codecs
 * new: verb_codecs_new.c, codecs test: verb_codecs_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/codecs/codec_look.h"
#include "submit/codecs/compressor_look.h"
#include "submit/compat/presets.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static const char *text_at(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));

    return t ? t : "-";
}

static bool is_set(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

/* A codec that exists only as source is compiled only when it is requested by name. */
static json_t *one_of_list(const char *name, const char *exe_dir, struct err *e)
{
    struct codec_look l;
    json_t *o;

    if (find_codec(&l.file, name, exe_dir, NULL, e) < 0)
        return NULL;
    if (l.file.is_source)
        return json_pack("{s:s, s:o, s:s}", "name", name, "file", json_text(l.file.path, SIZE_MAX), "runs_by",
                         "source");
    if (codec_look_open(&l, name, NULL, e) < 0)
        return json_pack("{s:s, s:o, s:s, s:o}", "name", name, "file", json_text(l.file.path, SIZE_MAX),
                         "runs_by", "broken", "source", json_text(e->text, SIZE_MAX));
    o = codec_look_json(&l);
    codec_look_close(&l);
    return o;
}

static json_t *list_codecs(struct err *e)
{
    char names[FIND_NAMES_MAX][FIND_NAME_LEN], exe_dir[PATH_MAX];
    json_t *all, *one;

    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0)
        return NULL;
    all = json_array();
    for (int k = 0, n = find_codecs(names, exe_dir); k < n; k++)
        if ((one = one_of_list(names[k], exe_dir, e)) != NULL)
            json_array_append_new(all, one);
    if (!all)
        err_set(e, ERR_NOMEM, "no memory for a list of codecs");
    return all;
}

static void print_codecs(const json_t *all)
{
    const json_t *one;
    size_t i;

    text_print("%-16s  %-11s  %-13s  %-10s  %s\n", "codec", "runs by", "exchanges", "compress", "source");
    json_array_foreach(all, i, one)
    {
        text_print("%-16s  %-11s  %-13s  %-10s  %s\n", text_at(one, "name"), text_at(one, "runs_by"),
                   text_at(one, "exchanges"), text_at(one, "compression"),
                   text_at(one, strcmp(text_at(one, "runs_by"), "source") == 0 ? "file" : "source"));
    }
}

static void print_compressors(const json_t *all)
{
    const json_t *one;
    size_t i;

    text_print("\n%-16s  %-7s  %-29s  %-8s  %s\n", "compressor", "kind", "parameters", "error", "source");
    json_array_foreach(all, i, one)
    {
        text_print("%-16s  %-7s  %-29s  %-8s  %s\n", text_at(one, "name"), text_at(one, "kind"),
                   text_at(one, "values"), text_at(one, "error"), text_at(one, "source"));
    }
    text_print(
        "\nA chain of compressors, \"topk:ratio=0.01,ef=true|qsgd|huffman\", applies to the vectors that "
        "the codec lets be\n"
        "compressed: lossy both ways, lossy up (from workers), lossless only; no: none.\n");
}

static json_t *presets_json(void)
{
    json_t *all = json_array();
    char options[512];

    for (const struct preset *p = presets; p->name; p++) {
        preset_text(options, sizeof options, p);
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:s}", "name", p->name, "options", options, "note", p->note));
    }
    return all;
}

static void print_presets(void)
{
    char options[512];

    text_print("\n%-16s  %s\n", "name", "stands for");
    for (const struct preset *p = presets; p->name; p++) {
        preset_text(options, sizeof options, p);
        text_print("%-16s  %s\n%-16s  %s\n", p->name, options, "", p->note);
    }
}

static int print_list(const struct options *o, const char *text, struct err *e)
{
    json_t *codecs = list_codecs(e), *compressors = codecs ? compressor_list_json(e) : NULL;

    (void)text;
    if (!compressors) {
        json_decref(codecs);
        return e->code;
    }
    if (o->json) {
        stdout_json(true,
                    json_pack("{s:o, s:o, s:o}", "codecs", codecs, "compressors", compressors, "presets",
                              presets_json()),
                    NULL, NULL);
        return 0;
    }
    if (o->quiet) {
        const json_t *one;
        size_t i;

        json_array_foreach(codecs, i, one)
            text_print("%s\n", json_string_value(json_object_get(one, "name")));
    } else {
        print_codecs(codecs);
        print_compressors(compressors);
        print_presets();
    }
    json_decref(codecs);
    json_decref(compressors);
    return 0;
}

static const char *exchange_times(const json_t *o)
{
    if (strcmp(text_at(o, "runs_by"), "events") == 0)
        return "";
    return strcmp(text_at(o, "exchanges"), "gradients") == 0 ? ", each step" : ", each `every` local steps";
}

static const char *roles_text(const json_t *o)
{
    if (is_set(o, "updates_on_server"))
        return "workers with parameter servers, which run the optimizer";
    if (is_set(o, "needs_servers"))
        return "workers with parameter servers";
    return is_set(o, "has_server_side") ? "workers among each other, or with parameter servers"
                                        : "workers among each other";
}

static const char *modes_text(const json_t *o)
{
    if (!is_set(o, "has_ssgd"))
        return ", in asgd";
    return is_set(o, "has_asgd") ? "" : ", in ssgd";
}

/* As in JSON, but without the quotes of a string. */
static void print_value(const json_t *v, int width)
{
    char *t = json_dump(v, JSON_ENCODE_ANY);
    const char *shown = json_is_string(v) ? json_string_value(v) : json_is_null(v) ? "(its own)" : t;

    text_print("%-*s  ", width, shown ? shown : "");
    free(t);
}

static void print_parameters(const json_t *all, const char *title)
{
    const json_t *p;
    size_t i;

    text_print("\n%-16s  %-5s  %-12s  %-24s  %s\n", title, "type", "default", "range", "what");
    json_array_foreach(all, i, p)
    {
        char range[64] = "true|false";

        if (json_object_get(p, "choices"))
            snprintf(range, sizeof range, "%s", text_at(p, "choices"));
        else if (json_object_get(p, "max"))
            snprintf(range, sizeof range, "%.9g to %.10g", json_number_value(json_object_get(p, "min")),
                     json_number_value(json_object_get(p, "max")));
        text_print("%-16s  %-5s  ", text_at(p, "name"), text_at(p, "type"));
        print_value(json_object_get(p, "default"), 12);
        text_print("%-24s  %s\n", range, text_at(p, "help"));
    }
}

static void print_own_parameters(const json_t *o)
{
    const json_t *all = json_object_get(o, "parameters");

    if (json_array_size(all) > 0)
        print_parameters(all, "parameter");
    else
        text_print("\nIt takes no parameters.\n");
}

static void print_codec(const json_t *o)
{
    const char *path;
    json_t *cost;

    text_print("%s: %s\n\n", text_at(o, "name"), text_at(o, "source"));
    text_print("  equation     %s\n", text_at(o, "equation"));
    text_print("  file         %s\n", text_at(o, "file"));
    text_print("  exchanges    %s%s%s\n", text_at(o, "exchanges"), is_set(o, "per_block") ? " of blocks" : "",
               exchange_times(o));
    text_print("  roles        %s%s\n", roles_text(o), modes_text(o));
    json_object_foreach(json_object_get(o, "paths"), path, cost)
        text_print("  %-9s    %s\n", path, json_string_value(cost));
    if (!json_is_object(json_object_get(o, "paths")))
        text_print("  cost         %s\n", text_at(o, "cost"));
    text_print("  compression  %s; of what servers send: %s\n", text_at(o, "compression"),
               text_at(o, "compression_down"));
    text_print("  checkpoints  %s\n", is_set(o, "can_be_kept") ? "in ssgd" : "no");
    text_print("  lost nodes   %s\n", is_set(o, "handles_node_loss")
                                          ? "the others may continue, if the exchange allows it"
                                          : "end the job");
    text_print("  state        %lld bytes, and the vectors it requests when it is opened\n",
               (long long)json_integer_value(json_object_get(o, "state_bytes")));
    print_own_parameters(o);
}

static void print_compressor(const json_t *o)
{
    bool is_exact = strcmp(text_at(o, "error"), "none") == 0;

    text_print("%s: %s\n\n", text_at(o, "name"), text_at(o, "source"));
    text_print("  what         %s\n", text_at(o, "help"));
    text_print("  kind         %s\n", text_at(o, "kind"));
    text_print("  error        %s%s%s\n", text_at(o, "error"), is_exact ? "" : ": ",
               is_exact ? "" : text_at(o, "bound"));
    print_own_parameters(o);
    print_parameters(json_object_get(o, "chain_parameters"), "of a chain");
}

static json_t *look_at_codec(const char *text, struct err *e)
{
    struct codec_look l;
    json_t *doc;

    if (codec_look_open(&l, text, preset_names(), e) < 0)
        return NULL;
    doc = codec_look_json(&l);
    codec_look_close(&l);
    if (!doc)
        err_set(e, ERR_NOMEM, "no memory for a codec's facts");
    return doc;
}

static int show_codec(const struct options *o, const char *text, struct err *e)
{
    bool is_compressor = compressor_is_named(text);
    json_t *doc = is_compressor ? compressor_look_json(text, e) : look_at_codec(text, e);

    if (!doc)
        return e->code;
    if (o->json) {
        stdout_json(true, doc, NULL, NULL);
        return 0;
    }
    (is_compressor ? print_compressor : print_codec)(doc);
    json_decref(doc);
    return 0;
}

int verb_codecs(const struct options *o, struct err *e)
{
    static const struct {
        const char *text;
        int least, most; /* operands */
        int (*run)(const struct options *o, const char *operand, struct err *e);
    } actions[] = {{"list", 1, 1, print_list},
                   {"show", 2, 2, show_codec},
                   {"new", 2, 3, verb_codecs_new},
                   {"test", 2, 2, verb_codecs_test}};

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (o->args.n_operands >= actions[i].least && o->args.n_operands <= actions[i].most &&
            strcmp(o->args.operands[0], actions[i].text) == 0)
            return actions[i].run(o, o->args.operands[1], e);
    return err_set(e, ERR_USAGE,
                   "codecs takes \"list\", \"show NAME|FILE\", \"new NAME [KIND]\" or \"test NAME|FILE\"");
}
