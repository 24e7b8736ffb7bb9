#include "shared/words.h"

#include <string.h>

int words_find(const char *list, const char *word)
{
    size_t n = strlen(word);

    if (n == 0 || strchr(word, '|')) /* "ssgd|asgd" stands in the list, too */
        return -1;
    for (int i = 0; list; i++, list = strchr(list, '|')) {
        list += *list == '|';
        if (strncmp(list, word, n) == 0 && (list[n] == '|' || !list[n]))
            return i;
    }
    return -1;
}

const char *words_at(const char *list, int place, int *n)
{
    for (; place > 0; place--)
        list = strchr(list, '|') + 1;
    *n = (int)strcspn(list, "|");
    return list;
}
