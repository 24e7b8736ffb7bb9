/* config: prints the JSON Schema of the files that --config reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/options/options_config.h"
#include "submit/verbs/verbs.h"

int verb_config(const struct options *o, struct err *e)
{
    json_t *schema;
    char *text;

    if (o->args.n_operands != 1 || strcmp(o->args.operands[0], "schema") != 0) {
        err_set(e, ERR_USAGE, "config takes one word: schema");
        return err_hint(e, "A file of options is given to the job itself: job_submit --config FILE");
    }
    schema = options_schema();
    text = schema ? json_dump_line(schema, JSON_INDENT(1)) : NULL;
    json_decref(schema);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the schema");
    fputs(text, stdout);
    free(text);
    return 0;
}
