#include "submit/codecs/compressor_look.h"

#include <stdio.h>
#include <string.h>

#include "codecs/compress/chain_list.h"
#include "shared/plugin/codec_options.h"

static const struct compressor *named(const char *text)
{
    char name[CHAIN_TEXT_MAX];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    return strchr(text, '|') ? NULL : compressor_find(name);
}

bool compressor_is_named(const char *text)
{
    return named(text);
}

json_t *compressor_look_json(const char *text, struct err *e)
{
    static const char *const kinds[] = {
        [COMPRESS_SELECT] = "selects", [COMPRESS_VALUES] = "values", [COMPRESS_SYMBOLS] = "symbols"};
    const struct compressor *is = named(text);
    struct chain_spec spec;
    struct codec_options own;
    char values[CODEC_OPTIONS_TEXT];
    const char *error;
    json_t *o;

    if (chain_parse(&spec, text, e) < 0)
        return NULL;
    own = (struct codec_options){is->options, &spec.options[is->kind]};
    if (codec_options_text(values, sizeof values, &own, e) < 0)
        return NULL;
    error = !is->bound ? "none" : is->is_unbiased && is->is_unbiased(own.at) ? "unbiased" : "biased";
    o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?, s:s, s:o, s:o, s:o}", "name", is->name, "kind",
                  kinds[is->kind], "help", is->help, "source", is->source, "error", error, "bound", is->bound,
                  "values", values, "options", codec_options_values(&own), "parameters",
                  codec_options_list(is->options), "chain_parameters", codec_options_list(chain_options));
    if (!o)
        err_set(e, ERR_NOMEM, "no memory for a compressor's facts");
    return o;
}

json_t *compressor_list_json(struct err *e)
{
    json_t *all = json_array(), *one;

    for (const struct compressor *const *c = compressors; *c; c++) {
        one = compressor_look_json((*c)->name, e);
        if (!one || json_array_append_new(all, one) < 0) {
            json_decref(all);
            err_set(e, ERR_NOMEM, "no memory for a list of compressors");
            return NULL;
        }
    }
    return all;
}
