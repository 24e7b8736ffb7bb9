#include "submit/export/scalars.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "submit/results/result_rows.h"

/* A file, and the columns whose values are curves; or the columns that have a value's name and the value. */
struct scalar_source {
    enum artifact_id from;
    const char *tag;                      /* before the column's name */
    const char *columns[SCALARS_MAX + 1]; /* end with NULL */
    const char *name;                     /* NULL: the values' names are those of the columns */
};

static const struct scalar_source sources[] = {
    {ARTIFACT_TRAIN,
     "train",
     {"loss", "accuracy", "lr", "grad_norm", "compute_s", "wait_s", "sent_bytes", "recv_bytes"},
     NULL},
    {ARTIFACT_EVAL, "eval", {"loss", "accuracy", "sent_bytes_total", "recv_bytes_total"}, NULL},
    {ARTIFACT_METRICS, "eval", {"value"}, "metric"},
    {ARTIFACT_CODEC_RECORDS, "codec", {"value"}, "name"},
};

struct scalar_reading {
    const struct scalar_source *source;
    const struct artifact *a;
    scalars_use *use;
    void *with;
};

static const struct record_text *cell_of(const struct scalar_reading *r, const struct record_text *cells,
                                         const char *name)
{
    return &cells[artifact_column(r->a, name)];
}

/* A name chosen by a codec is part of file names: it has no characters with a meaning there, and is not
 * "..". */
static void put_tag(char out[SCALAR_TAG], const char *before, const char *name, size_t len)
{
    size_t n = (size_t)snprintf(out, SCALAR_TAG, "%s/", before);

    for (size_t i = 0; i < len && n < SCALAR_TAG - 1; i++) {
        bool is_plain = isalnum((unsigned char)name[i]) || strchr("-_ ", name[i]) ||
                        (name[i] == '.' && i > 0);

        out[n++] = (char)(is_plain ? name[i] : '_');
    }
    out[n] = '\0';
}

static int take_row(void *with, const struct record_text *cells, struct err *e)
{
    const struct scalar_reading *r = with;
    const struct record_text *name = r->source->name ? cell_of(r, cells, r->source->name) : NULL;
    struct scalars s = {.node = (int)strtol(cell_of(r, cells, "node")->text, NULL, 10),
                        .step = strtoull(cell_of(r, cells, "step")->text, NULL, 10),
                        .time_s = result_number(cell_of(r, cells, "time_s"))};

    for (const char *const *column = r->source->columns; *column; column++) {
        const struct record_text *c = cell_of(r, cells, *column);

        if (c->len == 0)
            continue;
        put_tag(s.at[s.n].tag, r->source->tag, name ? name->text : *column,
                name ? name->len : strlen(*column));
        s.at[s.n++].value = result_number(c);
    }
    return s.n > 0 && isfinite(s.time_s) ? r->use(&s, r->with, e) : 0;
}

int scalars_each(const char *folder, scalars_use *use, void *with, struct err *e)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct scalar_reading r = {&sources[i], &artifacts[sources[i].from], use, with};

        if (result_rows(folder, r.a, take_row, &r, e) < 0)
            return e->code;
    }
    return 0;
}

const char *scalars_node(char out[SCALARS_NODE], int node)
{
    snprintf(out, SCALARS_NODE, node < 0 ? "ps-%d" : "worker-%d", node < 0 ? -2 - node : node);
    return out;
}

static bool read_time(double *out, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text && clock_parse(out, text);
}

double scalars_began(const json_t *run, int node)
{
    const json_t *n;
    double at;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, n)
    {
        const json_t *number = json_object_get(n, "node");

        if (json_is_integer(number) && json_integer_value(number) == node && read_time(&at, n, "started_at"))
            return at;
    }
    return read_time(&at, run, "submitted_at") ? at : 0;
}
