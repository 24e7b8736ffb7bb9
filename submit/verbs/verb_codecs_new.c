/* codecs new: writes the template of a new codec. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/plugin/codec_options.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

/* The files, a line each. '@' stands for the codec's name, which may be a C keyword:
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

int verb_codecs_new(const struct options *o, const char *name, struct err *e)
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
