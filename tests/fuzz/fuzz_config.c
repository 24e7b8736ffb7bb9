/* Any text as the file of --config: a job.json, or the run.json of an earlier run. The options of an accepted
 * one, as its own run.json has them, are accepted again and are the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/base/json.h"
#include "submit/options/options_config.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Files that a path names may be gone: that is no answer. */
static bool is_same_again(const json_t *texts)
{
    static struct options again;
    json_t *then;
    struct err e;
    bool is_same;

    options_defaults(&again);
    if (options_take_texts(&again, FOR_SUBMIT, texts, &e) < 0)
        return e.code == ERR_NOT_FOUND;
    then = options_json(&again);
    is_same = json_equal(texts, then);
    json_decref(then);
    return is_same;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct options o;
    struct err e;
    json_t *doc, *texts;

    console_init(-1, true);
    setenv("PSGD_WORKERS", "/dev/null", 1); /* it exists */
    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    options_defaults(&o);
    options_take_document(&o, FOR_SIMULATE, doc, ".", true, &e);
    options_defaults(&o);
    if (options_take_document(&o, FOR_SUBMIT, doc, ".", false, &e) == 0) {
        texts = options_json(&o);
        if (!is_same_again(texts))
            abort();
        json_decref(texts);
    }
    json_decref(doc);
    return 0;
}
