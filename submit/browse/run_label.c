#include "submit/browse/run_label.h"

#include <string.h>

#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "submit/browse/report_page.h"
#include "submit/files/job_id.h"
#include "submit/results/job_index.h"

int run_label_check(const struct run *r, struct err *e)
{
    const char *id = json_text_at(r->doc, "id");
    char known[JOB_ID_MAX] = "";
    enum job_state state;
    struct err ignored;

    if (job_state_parse(&state, json_text_at(r->doc, "state")) && job_state_is_terminal(state))
        return 0;
    err_set(e, ERR_CONFLICT,
            "%s: its run.json says that the job has not ended, and is written again when it ends", r->folder);
    job_index_in_folder(known, r->folder, &ignored); /* the index has no simulations */
    return strcmp(known, id) == 0 ? err_hint(e, "job_submit wait %s waits for its end.", id) : e->code;
}

static int set_facts(json_t *run, const json_t *labels, struct err *e)
{
    json_t *facts = json_object_get(run, "facts");
    const char *key;
    json_t *value;
    int failed = 0;

    if (!json_is_object(facts)) {
        facts = json_object();
        failed |= json_object_set_new(run, "facts", facts);
    }
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        if (json_is_null(value))
            json_object_del(facts, key);
        else
            failed |= json_object_set(facts, key, value);
    }
    return failed ? err_set(e, ERR_NOMEM, "no memory for the labels of a run") : 0;
}

int run_label_set(struct run *r, const json_t *labels, struct err *e)
{
    const char *key;
    json_t *value;
    int rc = 0;

    if (run_label_check(r, e) < 0 || set_facts(r->doc, labels, e) < 0 ||
        report_page_save(r->folder, r->doc, e) < 0)
        return e->code;
    json_object_foreach((json_t *)(uintptr_t)labels, key, value) if (rc == 0)
        rc = job_index_set_fact(json_text_at(r->doc, "id"), r->folder, key, value, e);
    return rc;
}
