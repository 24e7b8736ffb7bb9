#include "agent/access/data_folders.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"

int data_folders_set(char out[DATA_FOLDERS_MAX], const char *const *named, struct err *e)
{
    size_t at = 0;

    out[0] = '\0';
    for (; *named; named++) {
        char path[PATH_MAX];
        struct stat st;
        size_t len;

        if (file_absolute(path, sizeof path, *named, e) < 0)
            return e->code;
        len = strlen(path);
        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            return err_set(e, ERR_USAGE, "--data-folder %s: there is no such folder", *named);
        if (!utf8_is_clean(path) || strchr(path, ':'))
            return err_set(e, ERR_USAGE,
                           "--data-folder: its path is not UTF-8, or has ':' or control characters");
        if (len + 2 > DATA_FOLDERS_MAX - at)
            return err_set(e, ERR_USAGE, "--data-folder: the paths have more than %d bytes together",
                           DATA_FOLDERS_MAX);
        if (at > 0)
            out[at++] = ':';
        memcpy(out + at, path, len + 1);
        at += len;
    }
    return 0;
}
