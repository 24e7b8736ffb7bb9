/* tag: sets the tags of a run after its end. verb_label(), which sets a tag or a note, serves the verb note,
 * too. */
#include <string.h>

#include "shared/base/json.h"
#include "submit/browse/run_label.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

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
    json_t *labels = json_pack("{s:o}", key, value);
    struct run r;
    int rc = labels ? run_find(&r, o->args.operands[0], e) : err_set(e, ERR_NOMEM, "no memory for a label");

    if (rc == 0) {
        rc = run_label_set(&r, labels, e);
        if (rc == 0)
            show_labels(o, &r);
        run_clear(&r);
    }
    json_decref(labels);
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
