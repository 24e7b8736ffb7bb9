/* Any bytes as a records file: its curves are a valid JSON document, whatever a node wrote. The first
 * byte selects the query. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/records/series.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_document(struct series *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct err e;
    json_t *doc;

    if (!out || series_write(out, s, &e) < 0 || fclose(out) != 0)
        abort();
    doc = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!doc || strchr(text, '<'))
        abort();
    json_decref(doc);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct series_query queries[] = {
        {0},
        {.x = "epoch", .points = "2"},
        {.x = "time", .points = "3", .from = "0.5", .to = "100"},
        {.x = "bytes", .names = "loss,step,batch", .points = "8"},
        {.file = "eval", .x = "bytes", .points = "2"},
        {.file = "eval", .x = "epoch"},
        {.file = "codec", .points = "4"},
        {.file = "codec", .x = "time", .names = "staleness"},
        {.file = "metrics", .x = "epoch"},
    };
    struct series_request r;
    struct series *s;
    struct err e;
    char *text;

    if (len == 0 || !(text = malloc(len)))
        return 0;
    memcpy(text, bytes + 1, len - 1);
    if (series_request_set(&r, &queries[bytes[0] % (sizeof queries / sizeof *queries)], &e) < 0 ||
        series_new(&s, &r, &e) < 0)
        abort();
    if (series_add(s, text, len - 1, "records.csv", &e) == 0)
        check_document(s);
    series_free(s);
    free(text);
    return 0;
}
