#include "runner/exchange/stop_rule.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

void stop_rule_clear(struct stop_rule *r)
{
    free(r->errors);
    *r = (struct stop_rule){0};
}

double stop_rule_error(double loss, double accuracy)
{
    double v = isnan(accuracy) ? loss : 1 - accuracy;

    return isfinite(v) ? v : INFINITY;
}

static int append_error(struct stop_rule *r, double error, struct err *e)
{
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        double *errors = realloc(r->errors, room * sizeof *errors);

        if (!errors)
            return err_set(e, ERR_NOMEM, "no memory for the results of %zu evaluations", room);
        r->errors = errors;
        r->room = room;
    }
    r->errors[r->n++] = error;
    return 0;
}

/* Returns whether patience is over. */
static bool is_over(struct stop_rule *r, double error)
{
    size_t patience = (size_t)r->patience;
    bool is_best = r->n == 1 || error <= r->least;

    if (r->n > patience) {
        double old = r->errors[r->n - 1 - patience];

        r->least_before = r->n == patience + 1 ? old : fmin(r->least_before, old);
    }
    r->least = is_best ? error : r->least;
    if (is_best)
        r->n_bad = 0;
    else if (r->n > patience && error >= r->least_before)
        r->n_bad++;
    return r->patience > 0 && r->n_bad > patience;
}

int stop_rule_add(enum stop_reason *out, struct stop_rule *r, double loss, double accuracy, struct err *e)
{
    double error = stop_rule_error(loss, accuracy);
    bool is_reached = r->target > 0 && accuracy >= r->target;

    if (append_error(r, error, e) < 0)
        return e->code;
    *out = is_over(r, error) ? STOP_PATIENCE : STOP_NONE;
    if (is_reached)
        *out = STOP_TARGET_ACCURACY;
    return 0;
}

int stop_rule_add_earlier(struct stop_rule *r, double error, struct err *e)
{
    if (append_error(r, error, e) < 0)
        return e->code;
    is_over(r, error);
    return 0;
}
