#include "runner/continuation.h"

#include <limits.h>
#include <stddef.h>

#include "nn/generator.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

enum { REQUEST_MAX = 64 << 20 };

struct continuation {
    struct sampling how;
    int tokens, known, end;
};

static const struct json_field fields[] = {
    {"prompt", JSON_FIELD_ANY, .required = true},
    {"tokens", JSON_FIELD_INT, JSON_AT(struct continuation, tokens), .required = true, .min = 1,
     .max = CONTINUATION_TOKENS_MAX},
    {"known", JSON_FIELD_INT, JSON_AT(struct continuation, known), .required = true, .min = 1,
     .max = 1 << 24},
    {"end", JSON_FIELD_INT, JSON_AT(struct continuation, end), .required = true, .min = -1, .max = 1 << 24},
    {"temperature", JSON_FIELD_DOUBLE, JSON_AT(struct continuation, how.temperature), .required = true,
     .min = 0, .max = 1000},
    {"top_k", JSON_FIELD_INT, JSON_AT(struct continuation, how.top_k), .required = true, .min = 0,
     .max = 1 << 24},
    {"top_p", JSON_FIELD_DOUBLE, JSON_AT(struct continuation, how.top_p), .required = true, .min = 1e-9,
     .max = 1},
    {"seed", JSON_FIELD_U64, JSON_AT(struct continuation, how.seed), .required = true},
    {0},
};

static int take_prompt(struct generator *g, const json_t *prompt, struct err *e)
{
    const json_t *v;
    size_t i;

    if (json_array_size(prompt) == 0)
        return err_set(e, ERR_CONFIG, "/prompt: no tokens");
    json_array_foreach(prompt, i, v)
    {
        const json_int_t token = json_integer_value(v);

        if (!json_is_integer(v) || token < 0 || token > INT_MAX)
            return err_set(e, ERR_CONFIG, "/prompt/%zu: not a token", i);
        if (generator_add(g, (int)token, e) < 0)
            return e->code;
    }
    return 0;
}

/* Returns whether the text has ended, or a code. */
static int draw_tokens(json_t *tokens, struct generator *g, const struct continuation *r, struct err *e)
{
    for (int i = 0; i < r->tokens; i++) {
        int token = generator_next(g, e);

        if (token < 0 || token == r->end)
            return token < 0 ? token : 1;
        json_array_append_new(tokens, json_integer(token));
    }
    return 0;
}

static int go_on(json_t **summary, struct generator *g, const json_t *doc, const struct continuation *r,
                 struct err *e)
{
    const double began = clock_now();
    json_t *tokens = json_array();
    int rc = take_prompt(g, json_object_get(doc, "prompt"), e);

    if (rc == 0)
        rc = draw_tokens(tokens, g, r, e);
    if (rc < 0) {
        json_decref(tokens);
        return rc;
    }
    *summary = json_pack("{s:b, s:o, s:b, s:f}", "ok", 1, "tokens", tokens, "ended", rc, "seconds",
                         clock_now() - began);
    return 0;
}

int continuation_run(json_t **summary, struct net *net, const struct model_spec *m, const char *folder,
                     struct err *e)
{
    struct continuation r = {0};
    struct generator *g;
    char path[PATH_MAX];
    json_t *doc;
    int rc;

    if (model_spec_language(m, e) < 0 || file_join(path, sizeof path, folder, "continuation.json", e) < 0 ||
        json_read(&doc, path, REQUEST_MAX, e) < 0)
        return e->code;
    rc = json_to_struct(&r, doc, fields, "", e);
    if (rc == 0)
        rc = generator_new(&g, net, m, r.known, &r.how, e);
    if (rc == 0) {
        rc = go_on(summary, g, doc, &r, e);
        generator_free(g);
    }
    json_decref(doc);
    return rc;
}
