#include "submit/codecs/codec_new.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "shared/codec_options.h"
#include "submit/verbs/verbs.h"

/* '@' stands for the codec's name, which may be a C keyword: no identifier is the name alone. */
static const char *const lines[] = {
    "/* @ -- what this rule does, and the paper it comes from. This template: the update of every worker "
    "uses",
    " * the mean gradient of all workers.",
    " *",
    " * Cost per step: 4 n_params bytes to each other worker. */",
    "#include \"codec.h\"",
    "",
    "/* The state that a worker keeps from one step to the next. A line in the table below makes a field an",
    " * option, --codec @.c:factor=0.5: default, least, greatest, help. */",
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
    "    c->host->put_vector(c, out, c->grads, c->n_params);",
    "    return CODEC_GO;",
    "}",
    "",
    "/* Reads one contribution. They are merged in the same order on every worker, its own among them. */",
    "static int @_merge(struct codec *c, int from, struct wire_in *in)",
    "{",
    "    const struct @_state *s = c->state;",
    "    const float *g = c->host->get_vector(c, in, c->n_params);",
    "    float part = s->factor / (float)c->n_contributions;",
    "",
    "    if (!wire_ok(in)) /* check before g is used: it is NULL in a short message */",
    "        return codec_fail(c, \"worker %d sent a malformed gradient\", from);",
    "    for (size_t i = 0; i < c->n_params; i++)",
    "        c->grads[i] = (c->n_merged > 0 ? c->grads[i] : 0) + part * g[i];",
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
    "CODEC_PLUGIN(.name = \"@\", .source = \"the paper\", .cost = \"each step 4 n_params bytes to each "
    "worker\",",
    "             .state_size = sizeof(struct @_state), .options = options, .round = &@_round,",
    "             .result = CODEC_MEAN_OF_GRADIENTS, /* with factor=1; codecs test verifies it */",
    "             .sends = @_sends)",
};

static void put_lines(FILE *f, const char *name)
{
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (const char *p = lines[i]; *p; p++)
            if (*p == '@')
                fputs(name, f);
            else
                fputc(*p, f);
        fputc('\n', f);
    }
}

static int write_new(const char *path, const char *name, struct err *e)
{
    FILE *f = fopen(path, "wx");
    bool failed;

    if (!f && errno == EEXIST)
        return err_set(e, ERR_CONFLICT, "%s exists already and was not changed", path);
    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    put_lines(f, name);
    failed = ferror(f);
    return fclose(f) != 0 || failed ? err_errno(e, ERR_IO, "%s", path) : 0;
}

int codec_new(const struct options *o, const char *name, struct err *e)
{
    char path[CODEC_NAME_MAX + 3];

    if (!codec_is_name(name) || strspn(name, "0123456789") > 0)
        return err_set(
            e, ERR_USAGE,
            "\"%s\": a codec's name is 1 to %d characters of a-z, 0-9 and _, and does not begin with a digit",
            name, CODEC_NAME_MAX);
    snprintf(path, sizeof path, "%s.c", name);
    if (write_new(path, name, e) < 0)
        return e->code;
    if (o->json) {
        verb_print_json(true, json_pack("{s:s}", "file", path), NULL, NULL);
        return 0;
    }
    printf("%s is written. Next:\n"
           "  job_submit codecs test %s             check it against codec.h\n"
           "  job_submit simulate --codec %s        run it in simulated time, without agents\n"
           "  job_submit --codec %s --node_count 2  train with it on the agents of worker.json\n",
           path, path, path, path);
    return 0;
}
