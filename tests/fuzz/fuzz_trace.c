/* Any bytes as a node's trace, and the JSON written from it, which must be valid whatever the node
 * reported. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/results/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct trace_node t = {.node = 0, .role = "worker", .address = "127.0.0.1:15387"};
    void *file = aligned_alloc(64, (len + 64) / 64 * 64); /* aligned, as a mapping is */
    char *text = NULL;
    size_t size = 0;
    struct err e;
    json_t *doc;
    FILE *f;

    if (!file)
        return 0;
    memcpy(file, bytes, len);
    if (trace_file_parse(&t.head, &t.records, &t.n, 0, file, len, &e) == 0 &&
        (f = open_memstream(&text, &size)) != NULL) {
        if (trace_write(f, &t, 1, &e) < 0 || fclose(f) != 0)
            abort();
        doc = json_loads(text, 0, NULL);
        if (!doc)
            abort();
        json_decref(doc);
        free(text);
    }
    free(file);
    return 0;
}
