#include "agent/access/digest_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"

enum { LIST_MAX = 1 << 20 };

/* Returns 1 if `text` has the digest, 0 if not. Modifies `text`. A malformed line is an error, not
 * skipped. */
static int find_in_list(char *text, const char *path, const char *hex, struct err *e)
{
    int number = 1;
    char *next;

    for (char *line = text; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line += strspn(line, " \t\r");
        line[strcspn(line, " \t\r#")] = '\0';
        if (!line[0])
            continue;
        if (!is_sha256_hex(line))
            return err_set(e, ERR_CONFIG, "%s:%d: \"%.80s\" is not a SHA-256 in 64 lower-case hex digits",
                           path, number, line);
        if (strcmp(line, hex) == 0)
            return 1;
    }
    return 0;
}

int digest_list_has(const char *path, const char *hex, struct err *e)
{
    struct stat st;
    char *text;
    size_t len;
    int rc;

    if (file_read(&text, &len, path, LIST_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    if (stat(path, &st) == 0 && (st.st_mode & 022)) {
        rc = err_set(e, ERR_CONFIG, "%s can be written by others (mode %03o)", path,
                     (unsigned)st.st_mode & 0777);
        err_hint(e, "Run chmod go-w %s and check its contents.", path);
    } else {
        rc = find_in_list(text, path, hex, e);
    }
    free(text);
    return rc;
}
