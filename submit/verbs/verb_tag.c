/* tag: sets the tags of a run after its end. verb_label(), which sets a tag or a note, serves the verb note,
 * too. */
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "submit/browse/report_page.h"
#include "submit/files/job_id.h"
#include "submit/results/job_index.h"
#include "submit/results/run.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static int check_ended(const struct run *r, struct err *e)
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

int verb_label_run(struct run *r, const char *key, json_t *value, struct err *e)
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
    rc = report_page_save(r->folder, r->doc, e);
    if (rc == 0)
        rc = job_index_set_fact(json_text_at(r->doc, "id"), r->folder, key, value, e);
    json_decref(value);
    return rc;
}

static void show_labels(const struct options *o, const struct run *r)
{
    const json_t *facts = json_object_get(r->doc, "facts");
    const char *id = json_string_value(json_object_get(r->doc, "id"));
    char labels[RUN_LABELS_MAX];

    if (o->json)
        stdout_json(true,
                    json_pack("{s:s, s:o, s:O?, s:O?}", "id", id, "folder", json_text(r->folder, SIZE_MAX),
                              "tags", json_object_get(facts, "tags"), "note", json_object_get(facts, "note")),
                    NULL, NULL);
    else
        text_print("%s%s%s\n", id, run_labels(labels, sizeof labels, facts)[0] ? "  " : "", labels);
}

int verb_label(const struct options *o, const char *key, json_t *value, struct err *e)
{
    struct run r;
    int rc;

    if (run_find(&r, o->args.operands[0], e) < 0) {
        json_decref(value);
        return e->code;
    }
    rc = verb_label_run(&r, key, value, e);
    if (rc == 0)
        show_labels(o, &r);
    run_clear(&r);
    return rc;
}

int verb_tag(const struct options *o, struct err *e)
{
    json_t *tags;

    if (o->args.n_operands < 2)
        return err_set(e, ERR_USAGE, "tag needs a run and all its tags; \"\" removes all tags");
    tags = json_array();
    for (int i = 1; i < o->args.n_operands; i++)
        if (o->args.operands[i][0])
            json_array_append_new(tags, json_text(o->args.operands[i], SIZE_MAX));
    return verb_label(o, "tags", tags, e);
}
