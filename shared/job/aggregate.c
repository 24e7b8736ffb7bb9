#include "shared/job/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { F_MAX = 10000 };

static const struct {
    const char *name;
    int a, b; /* at least a f + b contributions; a = 0: without f */
} kinds[AGGREGATE_KINDS] = {[AGGREGATE_MEAN] = {"mean", 0, 1},
#define ROW(constant, name, a, b, function, of_statistics) [constant] = {name, a, b},
                            AGGREGATORS(ROW)
#undef ROW
};

static int parse_f(struct aggregate *out, const char *text, const char *f, struct err *e)
{
    char *end;
    long n;

    if (kinds[out->kind].a == 0)
        return f ? err_set(e, ERR_CONFIG, "\"%s\": %s takes no number", text, kinds[out->kind].name) : 0;
    errno = 0;
    n = f ? strtol(f + 1, &end, 10) : 0;
    if (!f || *end || end == f + 1 || errno || n < 1 || n > F_MAX)
        return err_set(e, ERR_CONFIG, "\"%s\": expected %s:F, for F faulty workers, from 1 to %d", text,
                       kinds[out->kind].name, F_MAX);
    out->f = (int)n;
    return 0;
}

int aggregate_parse(struct aggregate *out, const char *text, struct err *e)
{
    const char *f = strchr(text, ':');
    size_t len = f ? (size_t)(f - text) : strlen(text);

    for (int k = 0; k < AGGREGATE_KINDS; k++)
        if (strlen(kinds[k].name) == len && strncmp(kinds[k].name, text, len) == 0) {
            *out = (struct aggregate){.kind = (enum aggregate_kind)k};
            return parse_f(out, text, f, e);
        }
    return err_set(e, ERR_CONFIG, "\"%s\": expected mean, median, trimmed:F, krum:F or geomedian", text);
}

int aggregate_check(const struct aggregate *a, int n, struct err *e)
{
    int least = kinds[a->kind].a * a->f + kinds[a->kind].b;

    if (n >= least)
        return 0;
    return err_set(e, ERR_CONFIG, "%s:%d needs at least %d contributions, and there are %d",
                   kinds[a->kind].name, a->f, least, n);
}

bool aggregate_compares(const struct aggregate *a)
{
    return a->kind == AGGREGATE_KRUM || a->kind == AGGREGATE_GEOMEDIAN;
}
