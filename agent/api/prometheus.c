#include "agent/api/prometheus.h"

#include <math.h>
#include <string.h>

#include "shared/base/number.h"

void prometheus_family(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", f);
        else
            fprintf(f, *text == '\\' || *text == '"' ? "\\%c" : "%c", *text);
}

/* Returns the number of labels written so far. */
static int put_label(FILE *f, int n, const char *name, const char *value)
{
    fprintf(f, "%s%s=\"", n > 0 ? "," : "{", name);
    put_escaped(f, value);
    fputc('"', f);
    return n + 1;
}

static void put_value(FILE *f, double v)
{
    char text[NUMBER_TEXT_MAX];

    if (isfinite(v))
        fputs(number_text(text, v), f);
    else
        fputs(isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf", f);
}

/* `bound`: of a histogram's bucket; NAN: the sample is not of a bucket. */
static void put_sample(FILE *f, const char *name, const char *suffix, const struct label *labels,
                       double bound, double value)
{
    int n = 0;

    fprintf(f, "%s%s", name, suffix);
    for (const struct label *l = labels; l && l->name; l++)
        if (l->value)
            n = put_label(f, n, l->name, l->value);
    if (!isnan(bound)) {
        fprintf(f, "%sle=\"", n > 0 ? "," : "{");
        put_value(f, bound);
        fputc('"', f);
        n++;
    }
    fputs(n > 0 ? "} " : " ", f);
    put_value(f, value);
    fputc('\n', f);
}

void prometheus_sample(FILE *f, const char *name, const struct label *labels, double value)
{
    put_sample(f, name, "", labels, NAN, value);
}

void prometheus_histogram(FILE *f, const char *name, const struct label *labels, const struct histogram *h,
                          const double bounds[COUNTS_BOUNDS])
{
    uint64_t n = 0;

    for (int i = 0; i <= COUNTS_BOUNDS; i++) {
        n += h->n[i];
        put_sample(f, name, "_bucket", labels, i < COUNTS_BOUNDS ? bounds[i] : INFINITY, (double)n);
    }
    put_sample(f, name, "_sum", labels, NAN, h->sum);
    put_sample(f, name, "_count", labels, NAN, (double)n);
}
