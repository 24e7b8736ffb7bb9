#include "submit/browse/report_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "submit/browse/report_page.h"
#include "submit/files/run_file.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"

static void set_line(json_t *files, const char *text, size_t len)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    json_t *file;
    size_t i;

    sha256(sum, text, len);
    hex_encode(hex, sum, sizeof sum);
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));

        if (name && strcmp(name, REPORT_NAME) == 0)
            json_array_remove(files, i--);
    }
    json_array_append_new(
        files, json_pack("{s:s, s:I, s:s}", "name", REPORT_NAME, "bytes", (json_int_t)len, "sha256", hex));
}

int report_file_write(const char *folder, json_t *run, struct err *e)
{
    char path[PATH_MAX];
    size_t len = 0;
    char *text;
    int rc;

    if (file_join(path, sizeof path, folder, REPORT_NAME, e) < 0 ||
        report_text(&text, &len, folder, run, e) < 0)
        return e->code;
    rc = file_write(path, text, len, 0644, e);
    if (rc == 0)
        set_line(json_object_get(run, "files"), text, len);
    free(text);
    return rc == 0 ? run_file_save(run, folder, e) : rc;
}

int report_file_add(struct submission *s, struct err *e)
{
    json_t *run = run_json(s);
    char *text;
    size_t len;
    int rc = run ? report_text(&text, &len, s->folder, run, e) : err_set(e, ERR_NOMEM, "no memory");

    json_decref(run);
    if (rc < 0)
        return rc;
    rc = results_write(s, REPORT_NAME, text, len, e);
    free(text);
    return rc;
}
