/* note, tag: what people say of a run, given after its end. */
#include <string.h>

#include "shared/base/json.h"
#include "submit/results/labels.h"
#include "submit/terminal/standard_output.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static void show(const struct options *o, const struct run *r)
{
    const json_t *facts = json_object_get(r->doc, "facts");
    const char *id = json_string_value(json_object_get(r->doc, "id"));
    char labels[LABELS_MAX];

    if (o->json)
        output_json(true,
                    json_pack("{s:s, s:o, s:O?, s:O?}", "id", id, "folder", json_text(r->folder, SIZE_MAX),
                              "tags", json_object_get(facts, "tags"), "note", json_object_get(facts, "note")),
                    NULL, NULL);
    else
        text_print("%s%s%s\n", id, labels_text(labels, sizeof labels, facts)[0] ? "  " : "", labels);
}

/* Takes ownership of the value. */
static int set(const struct options *o, const char *key, json_t *value, struct err *e)
{
    struct run r;
    int rc;

    if (run_find(&r, o->args.operands[0], e) < 0) {
        json_decref(value);
        return e->code;
    }
    rc = labels_set(&r, key, value, e);
    if (rc == 0)
        show(o, &r);
    run_clear(&r);
    return rc;
}

int verb_note(const struct options *o, struct err *e)
{
    if (o->args.n_operands < 2)
        return err_set(e, ERR_USAGE, "note needs a run and a text in quotes; \"\" removes the note it has");
    if (strlen(o->args.operands[1]) >= sizeof o->note)
        return err_set(e, ERR_USAGE, "a note has at most %zu bytes", sizeof o->note - 1);
    return set(o, "note", json_text(o->args.operands[1], SIZE_MAX), e);
}

int verb_tag(const struct options *o, struct err *e)
{
    json_t *tags;

    if (o->args.n_operands < 2)
        return err_set(e, ERR_USAGE, "tag needs a run and all its tags; \"\" removes those it has");
    tags = json_array();
    for (int i = 1; i < o->args.n_operands; i++)
        if (o->args.operands[i][0])
            json_array_append_new(tags, json_text(o->args.operands[i], SIZE_MAX));
    return set(o, "tags", tags, e);
}
