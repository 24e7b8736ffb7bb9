/* browse: serves the page with all jobs. */
#include <errno.h>
#include <sys/stat.h>

#include "submit/browse/browse.h"
#include "submit/verbs/verbs.h"

static int check_folder(const char *dir, struct err *e)
{
    struct stat st;

    if (stat(dir, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", dir);
    return S_ISDIR(st.st_mode) ? 0 : err_set(e, ERR_USAGE, "%s is no folder", dir);
}

int verb_browse(const struct options *o, struct err *e)
{
    static const char *const usual[] = {"logs"};
    const int n = o->args.n_operands;

    for (int i = 0; i < n; i++)
        if (check_folder(o->args.operands[i], e) < 0)
            return e->code;
    return browse(o, n > 0 ? o->args.operands : usual, n > 0 ? (size_t)n : 1, e);
}
