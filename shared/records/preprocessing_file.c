#include "shared/records/preprocessing_file.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"

int preprocessing_file_read(char **out, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    size_t len;

    *out = NULL;
    if (file_join(path, sizeof path, folder, PREPROCESSING_FILE, e) < 0)
        return e->code;
    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(out, &len, path, PREPROCESSING_MAX, e) < 0)
        return e->code;
    if (utf8_is_all(*out))
        return 0;
    free(*out);
    *out = NULL;
    return err_set(e, ERR_CONFIG, "%s: not UTF-8", path);
}
