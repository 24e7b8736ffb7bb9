#include "shared/plugin/isolation.h"

#include "shared/base/choice.h"

static const char *const names[] = {
    [ISOLATION_NONE] = "none",
    [ISOLATION_PROCESS] = "process",
    [ISOLATION_FILES] = "files",
    [ISOLATION_USER] = "user",
};

const char *isolation_name(enum isolation level)
{
    return names[level];
}

bool isolation_parse(enum isolation *out, const char *text)
{
    int found = choice_find(ISOLATION_CHOICES, text);

    if (found >= 0)
        *out = (enum isolation)found;
    return found >= 0;
}
