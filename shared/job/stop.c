#include "shared/job/stop.h"

#include <math.h>

#include "shared/base/choice.h"
#include "shared/base/json.h"

static const struct {
    const char *name, *what;
} reasons[N_STOP_REASONS] = {
    [STOP_NONE] = {"none", "its training ended"},
    [STOP_MAX_STEPS] = {"max_steps", "its limit of steps ended the training"},
    [STOP_TARGET_ACCURACY] = {"target_accuracy", "its accuracy ended the training"},
    [STOP_PATIENCE] = {"patience", "evaluations without improvement ended the training"},
    [STOP_CODEC] = {"codec", "its codec ended the training"},
    [STOP_FINISHED] = {"finished", "its training programs have no more data"},
};

const char *stop_what(enum stop_reason reason)
{
    return reasons[reason].what;
}

json_t *stop_json(const struct stop *s)
{
    if (s->reason == STOP_NONE)
        return json_null();
    return json_pack("{s:s, s:I, s:o, s:o}", "reason", reasons[s->reason].name, "step", (json_int_t)s->step,
                     "loss", json_real_or_null(s->loss), "accuracy", json_real_or_null(s->accuracy));
}

static double number_or_nan(const json_t *v)
{
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool stop_parse(struct stop *out, const json_t *o)
{
    const char *name = json_string_value(json_object_get(o, "reason"));
    const json_t *step = json_object_get(o, "step");
    int reason = name ? choice_find(STOP_CHOICES, name) : -1;

    if (reason <= STOP_NONE || !json_is_integer(step) || json_integer_value(step) < 0)
        return false;
    *out = (struct stop){.reason = (enum stop_reason)reason,
                         .step = (uint64_t)json_integer_value(step),
                         .loss = number_or_nan(json_object_get(o, "loss")),
                         .accuracy = number_or_nan(json_object_get(o, "accuracy"))};
    return true;
}
