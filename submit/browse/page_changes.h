/* page_changes -- what the page changes of a job: it cancels one, sets note and tags, hides and deletes
 * results. */
#ifndef PSGD_BROWSE_PAGE_CHANGES_H
#define PSGD_BROWSE_PAGE_CHANGES_H

#include "submit/browse/job_list.h"
#include "submit/browse/target.h"

/* Has a job this action? */
bool page_change_is_known(const char *action);
/* Does an action of the job with this id. `label` takes `note` and `tags`, separated by commas, from the
 * query; an absent one stays as it is. Errors: there is no such job, it has not ended, or it has no folder of
 * results here. */
int page_change(struct job_list *jobs, const char *id, const char *action, const struct target *t,
                struct err *e);

#endif
