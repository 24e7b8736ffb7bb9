#include "submit/options/optimizer_options.h"

#include <stdio.h>
#include <string.h>

#include "submit/options/options_table.h"

#define PARAMETER(name)                                                                                      \
    {                                                                                                        \
        offsetof(struct options, has_##name), offsetof(struct options, settings.name),                       \
            offsetof(struct optimizer_defaults, name)                                                        \
    }
static const struct {
    size_t given, setting, own;
} parameters[] = {PARAMETER(momentum), PARAMETER(beta1), PARAMETER(beta2), PARAMETER(epsilon),
                  PARAMETER(adamw_rate)};

enum { N_PARAMETERS = sizeof parameters / sizeof *parameters };

static double own_value(const struct optimizer_defaults *kind, size_t i)
{
    return *(const double *)((const char *)kind + parameters[i].own);
}

static bool is_given(const struct options *o, size_t i)
{
    return *(const bool *)((const char *)o + parameters[i].given);
}

/* "momentum, nesterov or rmsprop_graves": the optimizers that have the parameter. */
static const char *names_with(char *out, size_t size, size_t i)
{
    const char *names[N_OPTIMIZERS];
    size_t n = 0, len = 0;

    for (int k = 0; k < N_OPTIMIZERS; k++)
        if (own_value(&optimizer_kinds[k], i) > 0)
            names[n++] = optimizer_kinds[k].name;
    for (size_t k = 0; k < n && len < size; k++)
        len += (size_t)snprintf(out + len, size - len, "%s%s",
                                k == 0      ? ""
                                : k + 1 < n ? ", "
                                            : " or ",
                                names[k]);
    return out;
}

static int no_parameter(const struct options *o, size_t i, struct err *e)
{
    char option[ARGS_NAME], names[256];

    options_name(option, parameters[i].setting);
    return err_set(e, ERR_USAGE, "--%s: %s has no %s; use --gradient-descent %s", option,
                   optimizer_kinds[o->settings.optimizer].name, option, names_with(names, sizeof names, i));
}

int optimizer_options_check(const struct options *o, struct err *e)
{
    const struct optimizer_defaults *kind = &optimizer_kinds[o->settings.optimizer];

    for (size_t i = 0; i < N_PARAMETERS; i++)
        if (is_given(o, i) && *(const double *)((const char *)o + parameters[i].setting) > 0 &&
            own_value(kind, i) == 0)
            return no_parameter(o, i, e);
    return 0;
}

void optimizer_options_complete(struct options *o)
{
    const struct optimizer_defaults *kind = &optimizer_kinds[o->settings.optimizer];
    struct settings *s = &o->settings;

    s->learn_rate = o->has_learn_rate ? s->learn_rate : kind->learn_rate;
    s->weight_decay = o->has_weight_decay ? s->weight_decay : kind->weight_decay;
    for (size_t i = 0; i < N_PARAMETERS; i++)
        if (!is_given(o, i))
            memcpy((char *)o + parameters[i].setting, (const char *)kind + parameters[i].own, sizeof(double));
}
