#include "submit/results/labels.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"

/* Appends to a text of *n characters, as many as fit. */
static void append_label(char *out, size_t size, size_t *n, const char *before, const char *text)
{
    int len = *n < size ? snprintf(out + *n, size - *n, "%s%s", before, text) : 0;

    *n += len > 0 ? (size_t)len : 0;
}

const char *labels_text(char *out, size_t size, const json_t *facts)
{
    const char *note = json_text_at(facts, "note");
    const json_t *tag;
    size_t i, n = 0;

    out[0] = '\0';
    json_array_foreach(json_object_get(facts, "tags"), i, tag) if (json_is_string(tag))
        append_label(out, size, &n, n ? " #" : "#", json_string_value(tag));
    if (note[0])
        append_label(out, size, &n, n ? "  " : "", note);
    utf8_clean(out, strlen(out), false);
    return out;
}
