#include "submit/compat/optimizer_names.h"

#include <string.h>

/* The values that Parallel-SGD's optimizers exchange. */
enum { GRADS = 1, PARAMS = 2, GRADS_FOR_WEIGHTS = 4 };

/* Parallel-SGD's `pa` sends gradients to servers, which reply with the sum of all updates since the start,
 * w = w_init + sum; here a server replies with the weights themselves. */
static const struct {
    const char *name;
    unsigned accepts;
    const char *what;
} exchanges[] = {
    {"psgd", GRADS, "gradients"},
    {"parallel_sgd", GRADS, "gradients"},
    {"gradient_averaging", GRADS, "gradients"},
    {"pa", PARAMS | GRADS_FOR_WEIGHTS, "parameters, or gradients for weights on servers"},
    {"parameter_averaging", PARAMS, "parameters"},
    {"fast", GRADS, "gradients"},
    {"double_buffering_gradient_averaging", GRADS, "gradients"},
};

int optimizer_names_check(const char *optimizer, const struct codec_facts *f, struct err *e)
{
    unsigned has = (f->sends_grads ? GRADS : 0u) | (f->sends_params ? PARAMS : 0u) |
                   (f->updates_on_server ? GRADS_FOR_WEIGHTS : 0u);

    for (size_t i = 0; i < sizeof exchanges / sizeof *exchanges; i++) {
        if (strcmp(optimizer, exchanges[i].name) != 0 || has == 0 || (exchanges[i].accepts & has))
            continue;
        err_set(e, ERR_CONFIG, "--optimizer %s exchanges %s, but codec %s exchanges %s", optimizer,
                exchanges[i].what, f->name, f->sends_grads ? "gradients" : "parameters");
        return err_hint(e, "Leave --optimizer out, or take another codec.");
    }
    return 0; /* auto: any */
}
