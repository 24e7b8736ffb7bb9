#include "submit/data/data_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int data_folder(char *out, size_t size, const char *set, const char *chosen, struct err *e)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int len = (int)strcspn(set, ":/");
    int n;

    if (chosen[0])
        n = snprintf(out, size, "%s", chosen);
    else if (cache && cache[0] == '/')
        n = snprintf(out, size, "%s/psgd/%.*s", cache, len, set);
    else
        n = snprintf(out, size, "%s/.cache/psgd/%.*s", home && home[0] == '/' ? home : ".", len, set);
    return n < (int)size ? 0 : err_set(e, ERR_CONFIG, "the data folder's path is too long");
}
