#include <string.h>

#include "submit/compat/classic/classic.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"

/* The options that Parallel-SGD prints, in its words and order. */
static const struct {
    size_t offset;
    const char *words;
} echoed[] = {
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

static const struct args_option *find_option(size_t offset)
{
    for (int i = 0; i < options_table.n; i++)
        if (options_table.options[i].offset == offset)
            return &options_table.options[i];
    return NULL;
}

void classic_echo(const struct options *o)
{
    if (strcmp(o->csv_style, "tidy") == 0)
        return;
    for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++) {
        const struct args_option *t = find_option(echoed[i].offset);
        char name[ARGS_NAME], value[PATH_MAX];

        args_name(name, t);
        args_text(value, sizeof value, t, o);
        console_info("\t --%s <%s %s>", name, echoed[i].words, value[0] ? value : "null");
    }
}
