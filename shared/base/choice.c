#include "shared/base/choice.h"

#include <string.h>

int choice_find(const char *list, const char *text)
{
    size_t n = strlen(text);

    if (n == 0 || strchr(text, '|')) /* "ssgd|asgd" is a substring of the list, too */
        return -1;
    for (int i = 0; list; i++, list = strchr(list, '|')) {
        list += *list == '|';
        if (strncmp(list, text, n) == 0 && (list[n] == '|' || !list[n]))
            return i;
    }
    return -1;
}

const char *choice_at(const char *list, int place, int *n)
{
    for (; place > 0; place--)
        list = strchr(list, '|') + 1;
    *n = (int)strcspn(list, "|");
    return list;
}
