/* Any text as a codec's manifest. An accepted one must read back, from the document we write, as the same
 * one. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/plugin/codec_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct codec_manifest m, again;
    json_t *doc, *out;
    struct err e;

    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    if (codec_manifest_parse(&m, doc, &e) == 0) {
        out = codec_manifest_json(&m);
        if (codec_manifest_parse(&again, out, &e) < 0 || strcmp(m.sha256, again.sha256) != 0 ||
            strcmp(m.source_sha256, again.source_sha256) != 0 || strcmp(m.name, again.name) != 0)
            abort();
        json_decref(out);
    }
    json_decref(doc);
    return 0;
}
