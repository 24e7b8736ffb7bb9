/* Parses the text of a chain into a chain_spec. */
#include "codecs/compress/chain.h"

#include "shared/base/suggest.h"
#include "shared/plugin/codec_options.h"

enum { NAMES_MAX = 32 };

const struct codec_option chain_options[] = {
    CODEC_OPTION(struct chain_spec, ef, 0, 0, 1,
                 "error feedback: the compression error is added to the next vector"),
    CODEC_OPTION(struct chain_spec, decay, 1, 0, 1, "factor on the residual in each message, with ef"),
    CODEC_OPTION_CHOICE(struct chain_spec, per, "vector|layer",
                        "compress the whole vector at once, or each layer separately"),
    {0}};

static int no_such_compressor(const char *name, struct err *e)
{
    const char *names[NAMES_MAX + 1] = {0};

    for (int n = 0; n < NAMES_MAX && compressors[n]; n++)
        names[n] = compressors[n]->name;
    err_set(e, ERR_CONFIG, "no compressor is called \"%s\"", name);
    return suggest_instead(name, names, e);
}

static int parse_stage(struct chain_spec *s, char *text, enum compress_kind *least, struct err *e)
{
    bool is_first = *least == COMPRESS_SELECT;
    char *parameters = text, *name = strsep(&parameters, ":");
    const struct compressor *is = compressor_find(name);
    struct codec_options sets[] = {{0}, {chain_options, s}};

    if (!is)
        return no_such_compressor(name, e);
    if (is->kind < *least)
        return err_set(
            e, ERR_CONFIG,
            "a chain selects, then quantizes values, then codes symbols, each at most once: %s is out "
            "of order",
            name);
    *least = is->kind + 1;
    s->is[is->kind] = is;
    sets[0] = (struct codec_options){is->options, &s->options[is->kind]};
    if (codec_options_set(sets, is_first ? 2 : 1, parameters, e) < 0)
        return err_at(e, "%s", name);
    return 0;
}

int chain_parse(struct chain_spec *s, const char *text, struct err *e)
{
    enum compress_kind least = COMPRESS_SELECT;
    char copy[CHAIN_TEXT_MAX + 1], *rest = copy, *stage;

    if (strlen(text) > CHAIN_TEXT_MAX)
        return err_set(e, ERR_CONFIG, "more than %d characters", CHAIN_TEXT_MAX);
    memcpy(copy, text, strlen(text) + 1);
    *s = (struct chain_spec){0};
    while ((stage = strsep(&rest, "|")) != NULL)
        if (parse_stage(s, stage, &least, e) < 0)
            return e->code;
    if (s->ef && !chain_is_lossy(s))
        return err_set(e, ERR_CONFIG, "ef=true: the chain is lossless, so there is no error to feed back");
    return 0;
}

bool chain_is_lossy(const struct chain_spec *s)
{
    for (int k = 0; k < COMPRESS_KINDS; k++)
        if (s->is[k] && s->is[k]->bound)
            return true;
    return false;
}

const struct compressor *chain_sums(const struct chain_spec *s)
{
    const struct compressor *values = s->is[COMPRESS_VALUES];
    bool is_alone = !s->is[COMPRESS_SELECT] && !s->is[COMPRESS_SYMBOLS] && s->per == CHAIN_PER_VECTOR;

    return is_alone && values && values->sum ? values : NULL;
}
