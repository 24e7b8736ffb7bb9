/* tag: the tags of a run, given after its end. */
#include "shared/base/json.h"
#include "submit/verbs/set_label.h"
#include "submit/verbs/verbs.h"

int verb_tag(const struct options *o, struct err *e)
{
    json_t *tags;

    if (o->args.n_operands < 2)
        return err_set(e, ERR_USAGE, "tag needs a run and all its tags; \"\" removes those it has");
    tags = json_array();
    for (int i = 1; i < o->args.n_operands; i++)
        if (o->args.operands[i][0])
            json_array_append_new(tags, json_text(o->args.operands[i], SIZE_MAX));
    return set_label(o, "tags", tags, e);
}
