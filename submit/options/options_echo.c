/* Prints the options of a job at its start. */
#include "submit/compat/presets.h"
#include "submit/options/options_table.h"
#include "submit/options/submit_options.h"
#include "submit/terminal/console.h"

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
