/* Any text as the body of a reservation or of a start. An accepted one must read back, from the document we
 * write, as the same one. */
#include <string.h>

#include "agent/jobs/peers.h"
#include "shared/base/json.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_spec(const json_t *doc)
{
    struct job_spec s, t;
    json_t *again;
    struct err e;

    if (job_spec_parse(&s, doc, &e) < 0)
        return;
    must(is_job_id(s.id) && s.node_count >= 1 && s.time_limit_s >= 1);
    again = job_spec_json(&s);
    must(job_spec_parse(&t, again, &e) == 0 && memcmp(&s, &t, sizeof s) == 0);
    json_decref(again);
}

static void check_start(const json_t *doc)
{
    const struct job_spec spec = {.id = "j-abcdef", .attempt = 1, .node_count = 2, .server_count = 1};
    struct start_document d, again;
    json_t *line;
    struct err e;

    if (start_document_parse(&d, doc, &spec, &e) < 0)
        return;
    must(json_parse(&line, d.line, strlen(d.line), "line", &e) == 0);
    must(start_document_parse(&again, line, &spec, &e) == 0 && strcmp(d.digest, again.digest) == 0);
    json_decref(line);
    start_document_clear(&d);
    start_document_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    json_t *doc;
    struct err e;

    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    check_spec(doc);
    check_start(doc);
    json_decref(doc);
    return 0;
}
