#include "shared/job/schedule.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/number.h"

static const char *const names[N_SCHEDULE_KINDS] = {
    [SCHEDULE_CONSTANT] = "constant", [SCHEDULE_STEP] = "step", [SCHEDULE_COSINE] = "cosine",
    [SCHEDULE_LINEAR] = "linear",     [SCHEDULE_SQRT] = "sqrt",
};
static const bool takes_parts[N_SCHEDULE_KINDS] = {
    [SCHEDULE_STEP] = true, [SCHEDULE_COSINE] = true, [SCHEDULE_LINEAR] = true};

static int parse_every(struct schedule *s, const char *value, bool in_epochs, struct err *e)
{
    char *end;
    unsigned long long n;

    if (s->every > 0)
        return err_set(e, ERR_CONFIG, "give either every or every_steps, and only once");
    errno = 0;
    n = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end || errno || n == 0 || n > 1000000000)
        return err_set(e, ERR_CONFIG, "every \"%s\" is not a number of %s, 1 to 1000000000", value,
                       in_epochs ? "epochs" : "steps");
    s->every = n;
    s->in_epochs = in_epochs;
    return 0;
}

static int parse_share(double *out, const char *value, const char *what, double least, struct err *e)
{
    char *end;
    double share = strtod(value, &end);

    if (value[strspn(value, "0123456789.e-")] || end == value || *end || !(share >= least && share <= 1))
        return err_set(e, ERR_CONFIG, "%s \"%s\" is not a number %s 0 and up to 1", what, value,
                       least > 0 ? "above" : "from");
    *out = share;
    return 0;
}

static int parse_part(struct schedule *s, const char *text, struct err *e)
{
    if (s->kind != SCHEDULE_STEP)
        return strncmp(text, "floor=", 6) == 0
                   ? parse_share(&s->floor, text + 6, "floor", 0, e)
                   : err_set(e, ERR_CONFIG, "\"%s\" is not floor=SHARE, of the rate", text);
    if (strncmp(text, "every=", 6) == 0)
        return parse_every(s, text + 6, true, e);
    if (strncmp(text, "every_steps=", 12) == 0)
        return parse_every(s, text + 12, false, e);
    if (strncmp(text, "factor=", 7) == 0)
        return parse_share(&s->factor, text + 7, "factor", DBL_MIN, e);
    return err_set(e, ERR_CONFIG, "\"%s\" is not one of every=EPOCHS, every_steps=STEPS, factor=X", text);
}

static int parse_parts(struct schedule *s, const char *parts, struct err *e)
{
    char text[64];

    for (const char *p = parts; p; p = strchr(p, ',')) {
        size_t n;

        p += *p == ',';
        n = strcspn(p, ",");
        if (n >= sizeof text)
            return err_set(e, ERR_CONFIG, "\"%.60s...\" is too long", p);
        memcpy(text, p, n);
        text[n] = '\0';
        if (parse_part(s, text, e) < 0)
            return e->code;
    }
    if (s->kind == SCHEDULE_STEP && s->every == 0)
        return err_set(e, ERR_CONFIG, "its interval is missing: every=EPOCHS or every_steps=STEPS");
    return 0;
}

static int no_such_schedule(const char *text, size_t n, struct err *e)
{
    static const char *const forms[] = {"constant", "step:every=EPOCHS,factor=X", "cosine", "linear",
                                        "sqrt",     "cosine:floor=SHARE",         NULL};
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)n, text);
    err_set(e, ERR_CONFIG, "no schedule is called \"%s\"", name);
    return choice_suggest(name, forms, e);
}

int schedule_parse(struct schedule *s, const char *text, struct err *e)
{
    size_t n = strcspn(text, ":");
    struct schedule t = {.factor = 0.1};

    while (t.kind < N_SCHEDULE_KINDS && (strncmp(names[t.kind], text, n) != 0 || names[t.kind][n]))
        t.kind++;
    if (t.kind == N_SCHEDULE_KINDS)
        return no_such_schedule(text, n, e);
    if (!takes_parts[t.kind] && text[n])
        return err_set(e, ERR_CONFIG, "schedule %s takes no parameters", names[t.kind]);
    if (takes_parts[t.kind] && parse_parts(&t, text[n] ? text + n + 1 : NULL, e) < 0)
        return err_at(e, "%s", names[t.kind]);
    *s = t;
    return 0;
}

static double step_share(const struct schedule *s, const struct schedule_job *job, double t)
{
    double every = (double)s->every * (s->in_epochs ? (double)job->steps_per_epoch : 1);

    return number_power(s->factor, (uint64_t)(t / every));
}

double schedule_rate(const struct schedule *s, const struct schedule_job *job, uint64_t done)
{
    double w = (double)job->warmup_steps;
    double t = (double)done - w;
    double n = (double)job->n_steps - w;
    double share = 1;

    if (t < 0)
        return job->learn_rate * ((double)done + 1) / (w + 1);
    switch (s->kind) {
    case SCHEDULE_STEP:
        share = step_share(s, job, t);
        break;
    case SCHEDULE_COSINE:
        share = (1 + number_cos_of_turns(t / n / 2)) / 2;
        break;
    case SCHEDULE_LINEAR:
        share = 1 - t / n;
        break;
    case SCHEDULE_SQRT:
        share = 1 / sqrt(t + 1);
        break;
    case SCHEDULE_CONSTANT:
    case N_SCHEDULE_KINDS:
        break;
    }
    return job->learn_rate * (s->floor + (1 - s->floor) * share);
}
