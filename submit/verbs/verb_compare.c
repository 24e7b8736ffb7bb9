/* compare: prints runs side by side. */
#include <math.h>
#include <stdio.h>

#include "submit/results/compare.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

static int print_comparison(const json_t *doc, bool is_chosen, struct err *e)
{
    const json_t *target = json_object_get(doc, "target");

    if (compare_print(doc, e) < 0)
        return e->code;
    printf(
        "\nAccuracy and loss are means over the workers, on the test set; bytes are those that a worker sent "
        "and received.\n");
    if (json_is_number(target))
        printf("Time, bytes and steps to an accuracy of %.6g: %s.\n", json_number_value(target),
               is_chosen
                   ? "the one of --target"
                   : "the highest that all runs reached which have not diverged; --target X chooses another");
    return 0;
}

int verb_compare(const struct options *o, struct err *e)
{
    struct run *runs;
    json_t *doc;
    size_t n;
    int rc;

    if (o->args.n_operands == 0)
        return err_set(e, ERR_USAGE, "compare needs runs: folders of results, or ids of jobs");
    if (runs_find(&runs, &n, o->args.operands, (size_t)o->args.n_operands, e) < 0)
        return e->code;
    rc = compare_runs(&doc, runs, n, o->has_target ? o->target : NAN, e);
    runs_free(runs, n);
    if (rc < 0)
        return rc;
    if (o->json)
        stdout_json(true, json_incref(doc), NULL, NULL);
    else
        rc = print_comparison(doc, o->has_target, e);
    json_decref(doc);
    return rc;
}
