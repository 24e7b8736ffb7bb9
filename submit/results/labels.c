#include "submit/results/labels.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/job_state.h"
#include "submit/browse/report_file.h"
#include "submit/files/job_id.h"
#include "submit/results/job_index.h"

/* Appends to a text of *n characters, as many as fit. */
static void append(char *out, size_t size, size_t *n, const char *before, const char *text)
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
        append(out, size, &n, n ? " #" : "#", json_string_value(tag));
    if (note[0])
        append(out, size, &n, n ? "  " : "", note);
    utf8_clean(out, strlen(out), false);
    return out;
}

static int check_ended(const struct run *r, struct err *e)
{
    const char *id = json_text_at(r->doc, "id");
    char known[JOB_ID_MAX] = "";
    enum job_state state;
    struct err ignored;

    if (job_state_parse(&state, json_text_at(r->doc, "state")) && job_state_is_terminal(state))
        return 0;
    err_set(e, ERR_CONFLICT, "%s: by its run.json the job has not ended, and its end writes that file again",
            r->folder);
    job_index_in_folder(known, r->folder, &ignored); /* it has no simulations */
    return strcmp(known, id) == 0 ? err_hint(e, "job_submit wait %s gets its end.", id) : e->code;
}

int labels_set(struct run *r, const char *key, json_t *value, struct err *e)
{
    json_t *facts = json_object_get(r->doc, "facts");
    int rc;

    if (check_ended(r, e) < 0) {
        json_decref(value);
        return e->code;
    }
    if (!json_is_object(facts)) {
        facts = json_object();
        json_object_set_new(r->doc, "facts", facts);
    }
    if (json_object_set(facts, key, value) < 0) {
        json_decref(value);
        return err_set(e, ERR_NOMEM, "no memory for the %s", key);
    }
    rc = report_file_write(r->folder, r->doc, e);
    if (rc == 0)
        rc = job_index_set_fact(json_text_at(r->doc, "id"), r->folder, key, value, e);
    json_decref(value);
    return rc;
}
