/* Any target of a request to the page: the decoded text has no zero byte, is not longer than the target,
 * and each key of the query is found. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "submit/browse/target.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = malloc(len + 1);
    struct target t;
    struct err e;

    must(text);
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (target_parse(&t, text, &e) == 0) {
        size_t sum = strlen(t.path);

        must(!strstr(text, "%00") && t.n <= TARGET_KEYS);
        for (size_t i = 0; i < t.n; i++) {
            sum += strlen(t.query[i].key) + (t.query[i].value ? strlen(t.query[i].value) : 0);
            for (size_t k = 0; k < t.n; k++)
                if (strcmp(t.query[k].key, t.query[i].key) == 0) {
                    must(target_query(&t, t.query[i].key) == t.query[k].value);
                    break;
                }
        }
        must(sum <= strlen(text));
        target_clear(&t);
    } else {
        must(e.code == ERR_USAGE);
    }
    free(text);
    return 0;
}
