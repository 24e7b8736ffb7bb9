/* note: sets the note of a run after its end. */
#include <string.h>

#include "shared/base/json.h"
#include "submit/verbs/verbs.h"

int verb_note(const struct options *o, struct err *e)
{
    if (o->args.n_operands < 2)
        return err_set(e, ERR_USAGE, "note needs a run and a text in quotes; \"\" removes the note");
    if (strlen(o->args.operands[1]) >= sizeof o->note)
        return err_set(e, ERR_USAGE, "a note has at most %zu bytes", sizeof o->note - 1);
    return verb_label(o, "note", json_text(o->args.operands[1], SIZE_MAX), e);
}
