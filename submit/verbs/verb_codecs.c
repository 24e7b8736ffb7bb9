/* codecs: lists codecs and compressors, shows the properties of one (their texts are untrusted), and writes
 * the template of a new codec. codecs test: verb_codecs_test.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_options.h"
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

/* The files that `codecs new` writes, a line each. '@' stands for the codec's name, which may be a C keyword:
 * no identifier is the name alone. */
static const char *const combination_template[] = {
    "/* @ -- what this rule does, and the paper it comes from. This template: after `every` local steps all",
    " * workers move from the weights that they had in common by the mean of their changes. */",
    "#include \"codec.h\"",
    "",
    "/* The state of a worker, kept between exchanges. A line in the table below makes a field an option,",
    " * --codec @.c:factor=0.5: default, least, greatest, help. */",
    "struct @_state {",
    "    float factor;",
    "};",
    "",
    "static const struct codec_option options[] = {",
    "    CODEC_OPTION(struct @_state, factor, 1, 0, 10, \"factor on the mean change\"),",
    "    {0},",
    "};",
    "",
    "/* Every worker gets the mean of all workers' changes, the same on each. */",
    "static int @_apply(struct codec *c, const float *const *mean)",
    "{",
    "    const struct @_state *s = c->state;",
    "",
    "    for (size_t i = 0; i < c->n_params; i++)",
    "        c->global[i] += s->factor * mean[0][i];",
    "    return CODEC_GO;",
    "}",
    "",
    "static const struct codec_combine @_combine = {",
    "    .when = CODEC_EACH_ROUND, /* or CODEC_EACH_STEP: gradients, without keeps_global and global */",
    "    .keeps_global = true,",
    "    .contributes_change = true, /* c->params - c->global; or a function: .contribute */",
    "    .apply = @_apply,",
    "};",
    "",
    "CODEC_PLUGIN(.name = \"@\", .source = \"the paper\", .equation = \"x <- x + factor mean_k(x_k - x)\",",
    "             .state_size = sizeof(struct @_state), .options = options, .combine = &@_combine)",
    NULL,
};

static const char *const rounds_template[] = {
    "/* @ -- what this rule does, and the paper it comes from. This template: the update of every worker",
    " * uses the mean gradient of all workers.",
    " *",
    " * Cost per step: 4 n_params bytes to each other worker. */",
    "#include \"codec_events.h\"",
    "",
    "/* The state of a worker, kept between steps. A line in the table below makes a field an option,",
    " * --codec @.c:factor=0.5: default, least, greatest, help. */",
    "struct @_state {",
    "    float factor;",
    "};",
    "",
    "static const struct codec_option options[] = {",
    "    CODEC_OPTION(struct @_state, factor, 1, 0, 10, \"factor on the mean gradient\"),",
    "    {0},",
    "};",
    "",
    "/* Writes this worker's contribution of each round: its gradient, c->grads. (To exchange weights each",
    " * `every` steps use c->params here and below, and drop before_update.) */",
    "static int @_encode(struct codec *c, struct wire_out *out)",
    "{",
    "    codec_put_vector(c, out, c->grads, c->n_params);",
    "    return CODEC_GO;",
    "}",
    "",
    "/* Reads one contribution. They are merged in the same order on every worker, its own among them. */",
    "static int @_merge(struct codec *c, int from, struct wire_in *in)",
    "{",
    "    const struct @_state *s = c->state;",
    "    const float *g = codec_get_vector(c, in, c->n_params);",
    "    float part = s->factor / (float)c->n_contributions;",
    "",
    "    if (!wire_ok(in)) /* check before g is used: it is NULL in a short message */",
    "        return codec_fail(c, \"worker %d sent a malformed gradient\", from);",
    "    for (size_t i = 0; i < c->n_params; i++)",
    "        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + part * g[i];",
    "    return CODEC_GO;",
    "}",
    "",
    "/* Returns what a worker sends in a round; job_submit codecs test verifies it. */",
    "static struct codec_cost @_sends(const struct codec *c)",
    "{",
    "    uint64_t to = (uint64_t)c->n_workers - 1;",
    "",
    "    return (struct codec_cost){to, to * 4 * c->n_params};",
    "}",
    "",
    "static const struct codec_round @_round = {",
    "    .before_update = true, /* exchange gradients in each step, before the optimizer uses them */",
    "    .encode = @_encode,",
    "    .merge = @_merge,",
    "};",
    "",
    "CODEC_PLUGIN(.name = \"@\", .source = \"the paper\", .state_size = sizeof(struct @_state),",
    "             .options = options,",
    "             .more = CODEC_MORE(.round = &@_round, .sends = @_sends,",
    "                                .cost = \"each step 4 n_params bytes to each other worker\",",
    "                                /* With factor=1; codecs test verifies it. */",
    "                                .result = CODEC_MEAN_OF_GRADIENTS))",
    NULL,
};

static const char *const events_template[] = {
    "/* @ -- what this rule does, and the paper it comes from. This template: after each step a worker sends",
    " * its weights to another one, which takes the mean of both. No worker waits. */",
    "#include \"codec_events.h\"",
    "",
    "/* The state of a worker. A line in the table below makes a field an option, --codec @.c:part=0.3:",
    " * default, least, greatest, help. */",
    "struct @_state {",
    "    float part;",
    "};",
    "",
    "static const struct codec_option options[] = {",
    "    CODEC_OPTION(struct @_state, part, 0.5, 0, 1, \"how far to move to the weights received\"),",
    "    {0},",
    "};",
    "",
    "static int @_on_step(struct codec *c)",
    "{",
    "    int to = (int)(codec_uniform(c) * (float)(c->n_workers - 1));",
    "",
    "    if (c->n_workers == 1)",
    "        return CODEC_GO;",
    "    to += to >= c->run->node; /* any worker but this one */",
    "    codec_put_vector(c, codec_message(c), c->params, c->n_params);",
    "    return codec_send(c, to);",
    "}",
    "",
    "static int @_on_message(struct codec *c, int from, struct wire_in *in)",
    "{",
    "    const struct @_state *s = c->state;",
    "    const float *w = codec_get_vector(c, in, c->n_params);",
    "",
    "    if (!wire_ok(in)) /* check before w is used: it is NULL in a short message */",
    "        return codec_fail(c, \"worker %d sent malformed weights\", from);",
    "    for (size_t i = 0; i < c->n_params; i++)",
    "        c->params[i] += s->part * (w[i] - c->params[i]);",
    "    return CODEC_GO;",
    "}",
    "",
    "/* Nothing is expected of a lost worker. */",
    "static int @_on_lost(struct codec *c, int node)",
    "{",
    "    (void)c, (void)node;",
    "    return CODEC_GO;",
    "}",
    "",
    "static const struct codec_events @_events = {",
    "    .on_step = @_on_step, .on_message = @_on_message, .on_lost = @_on_lost};",
    "",
    "CODEC_PLUGIN(.name = \"@\", .source = \"the paper\", .state_size = sizeof(struct @_state),",
    "             .options = options,",
    "             /* The result depends on the order of arrival. */",
    "             .limits = CODEC_NO_SSGD | CODEC_NO_SERVERS,",
    "             .more = CODEC_MORE(.events = &@_events,",
    "                                .cost = \"each step 4 n_params bytes to one other worker\"))",
    NULL,
};

/* Ends with {0}; the first is the default. */
static const struct codec_template {
    const char *kind, *what;
    const char *const *lines; /* ends with NULL */
} codec_templates[] = {
    {"combination", "all workers get the mean of what each contributes", combination_template},
    {"rounds", "each worker sends a message to all, and merges those of all", rounds_template},
    {"events", "each worker sends messages at any time, and no worker waits", events_template},
    {0},
};

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

static int write_template(const char *path, const struct codec_template *t, const char *name, struct err *e)
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

/* Asks for the kind if a person runs the command; a script gets the default. NULL: no valid answer. */
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

/* codecs new: writes NAME.c into the working directory and prints the next steps. The kind is the third
 * operand, or asked for. ERR_USAGE: not a valid name or kind; ERR_CONFLICT: the file exists; ERR_IO. */
static int new_codec(const struct options *o, const char *name, struct err *e)
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
    if (!t || write_template(path, t, name, e) < 0)
        return e->code;
    if (o->json) {
        stdout_json(true, json_pack("{s:s}", "file", path), NULL, NULL);
        return 0;
    }
    printf("%s is written, a rule by %s. Next:\n"
           "  job_submit codecs test %s             check it against codec.h\n"
           "  job_submit simulate --codec %s        run it in simulated time, without agents\n"
           "  job_submit --codec %s --node_count 2  train with it on the agents of worker.json\n",
           path, t->kind, path, path, path);
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
                   {"new", 2, 3, new_codec},
                   {"test", 2, 2, verb_codecs_test}};

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (o->args.n_operands >= actions[i].least && o->args.n_operands <= actions[i].most &&
            strcmp(o->args.operands[0], actions[i].text) == 0)
            return actions[i].run(o, o->args.operands[1], e);
    return err_set(e, ERR_USAGE,
                   "codecs takes \"list\", \"show NAME|FILE\", \"new NAME [KIND]\" or \"test NAME|FILE\"");
}
