#include "submit/sweep/sweep_plan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/crc32c.h"
#include "shared/base/json.h"
#include "shared/base/number.h"
#include "shared/base/rng.h"
#include "submit/options/options_config.h"

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for the sweep");
}

static int add_value(struct sweep_axis *a, const char *text, size_t len, struct err *e)
{
    char **values = realloc(a->values, (a->n + 1) * sizeof *values);

    if (!values)
        return no_memory(e);
    a->values = values;
    if (len == 0)
        return err_set(e, ERR_USAGE, "--set %s: a value is empty", a->key);
    if (a->n == SWEEP_RUNS)
        return err_set(e, ERR_USAGE, "--set %s: more than %d values", a->key, SWEEP_RUNS);
    values[a->n] = strndup(text, len);
    if (!values[a->n])
        return no_memory(e);
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(values[i], values[a->n]) == 0) {
            err_set(e, ERR_USAGE, "--set %s: %s is there twice", a->key, values[i]);
            free(values[a->n]);
            return e->code;
        }
    a->n++;
    return 0;
}

static int add_json(struct sweep_axis *a, const char *text, struct err *e)
{
    json_t *list, *v;
    size_t i;
    int rc = 0;

    if (json_parse(&list, text, strlen(text), "the list", e) < 0) {
        e->code = ERR_USAGE;
        return err_at(e, "--set %s", a->key);
    }
    json_array_foreach(list, i, v)
    {
        char number[NUMBER_TEXT_MAX];

        if (json_is_integer(v))
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
        else
            number_text(number, json_real_value(v));
        if (rc == 0 && json_is_string(v))
            rc = add_value(a, json_string_value(v), json_string_length(v), e);
        else if (rc == 0 && json_is_number(v))
            rc = add_value(a, number, strlen(number), e);
        else if (rc == 0)
            rc = err_set(e, ERR_USAGE, "--set %s: item %zu of the list is no string and no number", a->key,
                         i);
    }
    json_decref(list);
    return rc;
}

static int add_list(struct sweep_axis *a, const char *text, struct err *e)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");

        if (add_value(a, at, len, e) < 0)
            return strchr(text, ',')
                       ? err_hint(e, "Values that contain commas are given as --set '%s=[\"a,b\"]'.", a->key)
                       : e->code;
        at += len;
        if (!*at)
            return 0;
    }
}

static int add_axis(struct sweep_plan *p, const char *text, struct err *e)
{
    const char *equals = strchr(text, '=');
    struct sweep_axis *a = &p->axes[p->n_axes];

    if (!equals || equals == text)
        return err_set(e, ERR_USAGE, "--set %s: not KEY=VALUE,VALUE,...", text);
    a->key = strndup(text, (size_t)(equals - text));
    if (!a->key)
        return no_memory(e);
    p->n_axes++;
    for (size_t i = 0; i + 1 < p->n_axes; i++)
        if (options_is_same_name(p->axes[i].key, a->key))
            return err_set(e, ERR_USAGE, "--set %s is there twice: give all values in one list", a->key);
    return equals[1] == '[' ? add_json(a, equals + 1, e) : add_list(a, equals + 1, e);
}

static int check_plan(const struct sweep_plan *p, struct err *e)
{
    for (size_t i = 0; i < p->n_axes; i++)
        if (p->has_seeds && options_is_same_name(p->axes[i].key, "seed"))
            return err_set(e, ERR_USAGE, "--repeat and --set seed both give the seeds: use one of them");
    return 0;
}

int sweep_plan_make(struct sweep_plan *p, const char *const *sets, int repeat, uint64_t first_seed,
                    struct err *e)
{
    size_t n = 0;

    while (sets[n])
        n++;
    if (n > SWEEP_AXES)
        return err_set(e, ERR_USAGE, "--set: %zu options vary, at most %d may", n, SWEEP_AXES);
    *p = (struct sweep_plan){.axes = calloc(n ? n : 1, sizeof *p->axes),
                             .n_combinations = 1,
                             .n_rungs = 1,
                             .n_repeats = repeat > 0 ? (size_t)repeat : 1,
                             .has_seeds = repeat > 0,
                             .first_seed = first_seed};
    if (!p->axes)
        return no_memory(e);
    for (size_t i = 0; i < n; i++) {
        if (add_axis(p, sets[i], e) < 0)
            goto fail;
        if (p->axes[i].n == 0) {
            err_set(e, ERR_USAGE, "--set %s: no values", p->axes[i].key);
            goto fail;
        }
        p->n_combinations *= p->axes[i].n;
        if (p->n_combinations * p->n_repeats > SWEEP_RUNS) {
            err_set(e, ERR_USAGE, "more than %d runs", SWEEP_RUNS);
            goto fail;
        }
    }
    if (check_plan(p, e) == 0)
        return 0;
fail:
    sweep_plan_clear(p);
    return e->code;
}

void sweep_plan_clear(struct sweep_plan *p)
{
    for (size_t i = 0; i < p->n_axes; i++) {
        for (size_t k = 0; k < p->axes[i].n; k++)
            free(p->axes[i].values[k]);
        free(p->axes[i].values);
        free(p->axes[i].key);
    }
    free(p->axes);
    free(p->drawn);
    *p = (struct sweep_plan){0};
}

static int compare_places(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

int sweep_plan_draw(struct sweep_plan *p, size_t budget, uint64_t seed, struct err *e)
{
    struct rng rng;

    if (budget >= p->n_combinations)
        return 0;
    p->drawn = malloc(p->n_combinations * sizeof *p->drawn);
    if (!p->drawn)
        return no_memory(e);
    for (size_t i = 0; i < p->n_combinations; i++)
        p->drawn[i] = i;
    rng_init(&rng, seed, 0x5e7, 0);
    for (size_t i = 0; i < budget; i++) { /* Fisher and Yates; at most SWEEP_RUNS are left */
        size_t other = i + rng_below(&rng, (uint32_t)(p->n_combinations - i)), place = p->drawn[i];

        p->drawn[i] = p->drawn[other];
        p->drawn[other] = place;
    }
    p->n_combinations = budget;
    qsort(p->drawn, budget, sizeof *p->drawn, compare_places);
    return 0;
}

int sweep_halve(struct sweep_plan *p, size_t n, int length, bool is_in_steps, struct err *e)
{
    p->n_rungs = 1;
    p->is_in_steps = is_in_steps;
    while (((size_t)1 << p->n_rungs) < n)
        p->n_rungs++;
    if (length < 1 << (p->n_rungs - 1)) {
        err_set(e, ERR_USAGE, "--search halving of %zu combinations has %zu rungs, the first of %d/%d %s", n,
                p->n_rungs, length, 1 << (p->n_rungs - 1), sweep_length_name(p));
        return err_hint(e, "Give --%s %d or more%s.", sweep_length_option(p), 1 << (p->n_rungs - 1),
                        is_in_steps ? "" : ", or --max-steps, of which half is a shorter run");
    }
    for (size_t k = 0; k < p->n_rungs; k++) {
        int parts = 1 << (p->n_rungs - 1 - k);

        p->lengths[k] = length / parts + (length % parts > 0);
    }
    return 0;
}

const char *sweep_length_option(const struct sweep_plan *p)
{
    return p->is_in_steps ? "max-steps" : "epochs";
}

const char *sweep_length_name(const struct sweep_plan *p)
{
    return p->is_in_steps ? "steps" : "epochs";
}

bool sweep_is_short(const struct sweep_plan *p, const struct sweep_run *run)
{
    return run->rung + 1 < p->n_rungs;
}

size_t sweep_place(const struct sweep_plan *p, size_t combination)
{
    return p->drawn ? p->drawn[combination] : combination;
}

size_t sweep_group(const struct sweep_plan *p, const bool *is_searched, size_t combination)
{
    size_t first = 0, stride = 1, place = sweep_place(p, combination);

    for (size_t i = p->n_axes; i-- > 0; stride *= p->axes[i].n)
        if (!is_searched[i])
            first += place / stride % p->axes[i].n * stride;
    return first;
}

const char *sweep_value(const struct sweep_plan *p, size_t combination, size_t axis)
{
    combination = sweep_place(p, combination);
    for (size_t i = p->n_axes - 1; i > axis; i--)
        combination /= p->axes[i].n;
    return p->axes[axis].values[combination % p->axes[axis].n];
}

/* The last part of a path; the checksum is that of the whole path. */
static const char *shown_part(const char *value)
{
    const char *slash = strrchr(value, '/');

    return slash && slash[1] ? slash + 1 : value;
}

static void put_text(char *out, size_t size, const char *text)
{
    size_t n = strlen(out);

    snprintf(out + n, size - n, "%s", text);
}

/* Appends "key=value", and the checksum of key and value if they are not there in full. */
static void put_value(char out[SWEEP_NAME], const struct sweep_axis *a, const char *value)
{
    enum { VALUE_MAX = 60 };
    char part[SWEEP_NAME];
    int n = snprintf(part, sizeof part, "%.40s=%.*s", a->key, VALUE_MAX, shown_part(value));
    bool is_exact = shown_part(value) == value && strlen(a->key) <= 40 && strlen(value) <= VALUE_MAX;

    for (char *c = part; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("=._-+:,", *c)) {
            *c = '-';
            is_exact = false;
        }
    if (!is_exact)
        snprintf(part + n, sizeof part - (size_t)n, "~%08x",
                 (unsigned)crc32c_more(crc32c_more(0, a->key, strlen(a->key)), value, strlen(value)));
    put_text(out, SWEEP_NAME, part);
}

/* A name that would be too long is cut and ends with the checksum of all values; seed and length are always
 * there. */
void sweep_name(char out[SWEEP_NAME], const struct sweep_plan *p, const struct sweep_run *run)
{
    enum { SEED = 32, LENGTH = 24, CHECKSUM = 10, ROOM = SWEEP_NAME - SEED - LENGTH - CHECKSUM };
    char value[SWEEP_NAME], end[SEED];
    uint32_t sum = 0;
    bool is_cut = false;

    out[0] = '\0';
    for (size_t i = 0; i < p->n_axes; i++) {
        value[0] = '\0';
        put_value(value, &p->axes[i], sweep_value(p, run->combination, i));
        sum = crc32c_more(sum, value, strlen(value));
        is_cut = is_cut || strlen(out) + 1 + strlen(value) > ROOM;
        if (!is_cut && out[0])
            put_text(out, SWEEP_NAME, "_");
        if (!is_cut)
            put_text(out, SWEEP_NAME, value);
    }
    snprintf(end, sizeof end, "~%08x", (unsigned)sum);
    if (is_cut)
        put_text(out, SWEEP_NAME, end);
    snprintf(end, sizeof end, "%sseed=%llu", out[0] ? "_" : "",
             (unsigned long long)(p->first_seed + run->repeat));
    if (p->has_seeds)
        put_text(out, SWEEP_NAME, end);
    if (!sweep_is_short(p, run))
        return;
    snprintf(end, sizeof end, "%s%s=%d", out[0] ? "_" : "", sweep_length_option(p), p->lengths[run->rung]);
    put_text(out, SWEEP_NAME, end);
}

void sweep_job_name(char *out, size_t size, const struct sweep_plan *p, const struct sweep_run *run)
{
    char name[SWEEP_NAME];

    sweep_name(name, p, run);
    snprintf(out, size, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            *c = '-';
}

void sweep_values_text(char *out, size_t size, const struct sweep_plan *p, size_t combination)
{
    out[0] = '\0';
    for (size_t i = 0; i < p->n_axes; i++) {
        put_text(out, size, i ? ", " : "");
        put_text(out, size, p->axes[i].key);
        put_text(out, size, "=");
        put_text(out, size, sweep_value(p, combination, i));
    }
}
