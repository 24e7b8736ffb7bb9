/* Prints the options of a job at its start. */
#include <string.h>

#include "submit/compat/presets.h"
#include "submit/options/options_table.h"
#include "submit/options/submit_options.h"
#include "submit/terminal/console.h"

/* The options that Parallel-SGD prints, in its words and order. */
static const struct {
    size_t offset;
    const char *words;
} classic[] = {
    {offsetof(struct options, settings.node_count), "node count"},
    {offsetof(struct options, settings.batch_size), "batch size"},
    {offsetof(struct options, settings.redundancy), "r"},
    {offsetof(struct options, codec), "communication codec and protocol"},
    {offsetof(struct options, optimizer), "optimizer for model training"},
    {offsetof(struct options, settings.sync), "parallel stochastic gradient descent synchronization type"},
    {offsetof(struct options, settings.learn_rate), "learn rate for GD algorithm"},
    {offsetof(struct options, settings.epochs), "training epochs"},
    {offsetof(struct options, block_assignment), "block assignment strategy"},
    {offsetof(struct options, server_codec), "parameter server codec"},
};

static const struct args_option *find(size_t offset)
{
    for (int i = 0; i < options_table.n; i++)
        if (options_table.options[i].offset == offset)
            return &options_table.options[i];
    return NULL;
}

static void echo_classic(const struct options *o)
{
    for (size_t i = 0; i < sizeof classic / sizeof *classic; i++) {
        const struct args_option *t = find(classic[i].offset);
        char name[ARGS_NAME], value[PATH_MAX];

        args_name(name, t);
        args_text(value, sizeof value, t, o);
        console_info("\t --%s <%s %s>", name, classic[i].words, value[0] ? value : "null");
    }
}

void options_echo_preset(const struct options *o)
{
    char text[512];

    if (!o->preset)
        return;
    preset_text(text, sizeof text, o->preset);
    console_info("--codec %s stands for %s, where these options are not given.", o->preset->name, text);
}

void options_echo(const struct options *o)
{
    if (strcmp(o->csv_style, "tidy") != 0)
        echo_classic(o);
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        char name[ARGS_NAME], value[PATH_MAX];

        if (!options_is_shown(o, t) || !options_is_chosen(o, t->offset))
            continue;
        args_name(name, t);
        args_text(value, sizeof value, t, o);
        console_more("\t --%s=%s", name, value);
    }
}
