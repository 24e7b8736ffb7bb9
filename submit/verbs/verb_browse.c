/* browse: serves the page with all jobs. */
#include <errno.h>
#include <sys/stat.h>

#include "submit/browse/browse.h"
#include "submit/verbs/verbs.h"

int verb_browse(const struct options *o, struct err *e)
{
    const char *dir = o->args.n_operands > 0 ? o->args.operands[0] : "logs";
    struct stat st;

    if (o->args.n_operands > 0 && stat(dir, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", dir);
    if (o->args.n_operands > 0 && !S_ISDIR(st.st_mode))
        return err_set(e, ERR_USAGE, "%s is no folder", dir);
    return browse(o, dir, e);
}
