/* version: prints the version of this program. */
#include <stdio.h>

#include "submit/verbs/verbs.h"

int verb_version(const struct options *o, struct err *e)
{
    (void)o;
    (void)e;
    printf("job_submit " PSGD_VERSION "\n");
    return 0;
}
