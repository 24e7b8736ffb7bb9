/* Any text as a job's settings. Accepted ones must read back, from the document we write, as the same
 * document. */
#include <stdlib.h>

#include "shared/base/json.h"
#include "shared/job/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct settings s, t;
    json_t *doc, *out, *again;
    struct err e;

    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    if (settings_parse(&s, doc, &e) == 0) {
        out = settings_json(&s);
        if (settings_parse(&t, out, &e) < 0)
            abort();
        again = settings_json(&t);
        if (!json_equal(out, again))
            abort();
        json_decref(out);
        json_decref(again);
    }
    json_decref(doc);
    return 0;
}
