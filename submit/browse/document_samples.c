/* The texts of samples.csv. */
#include <math.h>
#include <stdlib.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/record.h"
#include "submit/browse/documents.h"

enum { SAMPLES_SHOWN = 100 };

/* The bytes of a cell as text: ? for what is not UTF-8, or controls a reader. */
static json_t *line_json(const struct record_text *cell)
{
    char *text = malloc(cell->len + 1);
    json_t *out;
    size_t n;

    if (!text)
        return NULL;
    n = record_line_bytes(text, cell);
    utf8_clean(text, n, true);
    out = json_stringn(text, n);
    free(text);
    return out;
}

/* Of more samples than are shown the earliest is dropped. */
static int add_sample(void *ctx, const struct record_text *c, struct err *e)
{
    json_t *samples = ctx;
    json_t *o = json_pack("{s:o, s:o, s:o, s:o?, s:o?}", "time_s", json_number_or_null(record_number(&c[0])),
                          "epoch", json_number_or_null(record_number(&c[1])), "step",
                          json_number_or_null(record_number(&c[2])), "prompt", line_json(&c[3]), "text",
                          line_json(&c[4]));

    if (!o || json_array_append_new(samples, o) < 0)
        return err_set(e, ERR_NOMEM, "no memory for the samples of text");
    if (json_array_size(samples) > SAMPLES_SHOWN)
        json_array_remove(samples, 0);
    return 0;
}

static int scan_samples(void *ctx, int fd, int node, struct err *e)
{
    static const char *const columns[] = {"time_s", "epoch", "step", "prompt", "text"};
    const struct record_scan scan = {.what = "samples.csv",
                                     .columns = columns,
                                     .n = 5,
                                     .needed = 0x1f,
                                     .is_strict = true,
                                     .row = add_sample,
                                     .ctx = ctx};

    (void)node;
    return record_scan_file(&scan, fd, e);
}

int document_samples(json_t **out, const struct shown *s, struct err *e)
{
    json_t *samples = json_array();
    int rc = samples ? 0 : err_set(e, ERR_NOMEM, "no memory for the samples of text");

    if (rc == 0)
        rc = shown_each(s, artifacts[ARTIFACT_SAMPLES].path, scan_samples, samples, e);
    if (rc == 0 && json_array_size(samples) == 0)
        rc = err_set(e, ERR_NOT_FOUND, "the job has no samples of text");
    if (rc == 0)
        *out = json_pack("{s:O}", "samples", samples);
    json_decref(samples);
    return rc;
}
