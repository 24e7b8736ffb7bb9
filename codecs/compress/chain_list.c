#include "codecs/compress/chain_list.h"

#include <string.h>

#include "shared/base/choice.h"
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
    return choice_suggest(name, names, e);
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

/* A chain has ':' before the '=' of its first option. */
bool chain_list_is_one(const char *text)
{
    return text[strcspn(text, "=:|")] == '=';
}

static int parse_entry(struct chain_list *l, char *text, struct err *e)
{
    struct chain_entry *to = &l->of[l->n];
    char *chain = strchr(text, '=');

    if (l->n == CHAIN_LIST_MAX)
        return err_set(e, ERR_CONFIG, "more than %d entries; * stands for all layers without one",
                       CHAIN_LIST_MAX);
    if (!chain || chain == text || chain - text > CHAIN_NAME_MAX || !chain[1]) {
        err_set(e, ERR_CONFIG, "\"%s\" is not LAYER=CHAIN", text);
        return err_hint(e, "A list by layer is \"layer0=topk:ratio=0.01;*=fp16\".");
    }
    *chain++ = '\0';
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->of[i].name, text) == 0)
            return err_set(e, ERR_CONFIG, "%s has two chains", text);
    memcpy(to->name, text, strlen(text) + 1);
    if (chain_parse(&to->chain, chain, e) < 0)
        return err_at(e, "%s", text);
    l->n++;
    return 0;
}

int chain_list_parse(struct chain_list *l, const char *text, struct err *e)
{
    char copy[CHAIN_LIST_TEXT_MAX + 1], *rest = copy, *one;

    *l = (struct chain_list){0};
    if (!text || !text[0])
        return 0;
    l->is_by_layer = chain_list_is_one(text);
    if (!l->is_by_layer) {
        l->n = 1;
        return chain_parse(&l->of[0].chain, text, e);
    }
    if (strlen(text) > CHAIN_LIST_TEXT_MAX)
        return err_set(e, ERR_CONFIG, "more than %d characters", CHAIN_LIST_TEXT_MAX);
    memcpy(copy, text, strlen(text) + 1);
    while ((one = strsep(&rest, ";")) != NULL)
        if (parse_entry(l, one, e) < 0)
            return e->code;
    return 0;
}

bool chain_list_is_lossy(const struct chain_list *l)
{
    for (int i = 0; i < l->n; i++)
        if (chain_is_lossy(&l->of[i].chain))
            return true;
    return false;
}

bool chain_name_fits(const char *name, const char *tensor)
{
    size_t n = strlen(name);

    return strncmp(name, tensor, n) == 0 && (!tensor[n] || tensor[n] == '.');
}

int chain_list_find(const struct chain_list *l, const char *tensor)
{
    size_t longest = 0;
    int found = -1, of_others = -1;

    for (int i = 0; i < l->n; i++) {
        const char *name = l->of[i].name;

        if (strcmp(name, "*") == 0) {
            of_others = i;
        } else if (strlen(name) > longest && chain_name_fits(name, tensor)) {
            longest = strlen(name);
            found = i;
        }
    }
    return found >= 0 ? found : of_others;
}

static int parse_way(struct chain_list *l, const char *text, const char *option, struct err *e)
{
    return chain_list_parse(l, text, e) < 0 ? err_at(e, "%s", option) : 0;
}

/* The next difference contains all that a message leaves out, so that there is no residual to decay. */
static int check_differences(struct chain_list *l, const char *text, struct err *e)
{
    for (int i = 0; i < l->n; i++) {
        struct chain_spec *s = &l->of[i].chain;

        s->ef = chain_is_lossy(s);
        if (s->decay < 1) {
            err_set(e, ERR_CONFIG,
                    "--compress-down %s: servers send the differences of their parameters from those that "
                    "workers have, so there is no residual that could decay",
                    text);
            return err_hint(e, "Leave decay out.");
        }
    }
    return 0;
}

int chain_pair_parse(struct chain_pair *p, const char *up, const char *down, const char *codec,
                     enum codec_compression takes, bool servers_send_params, struct err *e)
{
    if (parse_way(&p->up, up, "--compress", e) < 0 || parse_way(&p->down, down, "--compress-down", e) < 0)
        return e->code;
    if ((p->up.n > 0 || p->down.n > 0) && takes == CODEC_UNCOMPRESSED) {
        err_set(e, ERR_CONFIG, "%s %s: codec %s sends no vectors that a chain could compress",
                p->up.n > 0 ? "--compress" : "--compress-down", p->up.n > 0 ? up : down, codec);
        return err_hint(e,
                        "plain, ps, fedpaq and doublesqueeze do; job_submit codecs list shows all codecs.");
    }
    if (chain_list_is_lossy(&p->up) && takes == CODEC_LOSSLESS_ONLY) {
        err_set(e, ERR_CONFIG, "--compress %s: codec %s accepts lossless compression only", up, codec);
        return err_hint(e, "--codec fedpaq is fedavg that sends changes, and takes topk:ratio=0.1,ef=true; "
                           "none|huffman is lossless.");
    }
    p->down_differs = chain_list_is_lossy(&p->down) && servers_send_params;
    if (p->down_differs)
        return check_differences(&p->down, down, e);
    if (chain_list_is_lossy(&p->down) && takes != CODEC_LOSSY) {
        err_set(e, ERR_CONFIG,
                "--compress-down %s: codec %s accepts only lossless compression of what servers send", down,
                codec);
        return err_hint(e, "none|huffman is lossless.");
    }
    return 0;
}

bool chain_pair_sums(const char *up, const char *down, int n_workers)
{
    struct chain_list l;
    struct err e = {0};
    const struct compressor *values;

    if ((down && down[0]) || chain_list_parse(&l, up, &e) < 0 || l.n == 0 || l.is_by_layer)
        return false;
    values = chain_sums(&l.of[0].chain);
    return values && (values->n_summed_most == 0 || n_workers <= values->n_summed_most);
}
