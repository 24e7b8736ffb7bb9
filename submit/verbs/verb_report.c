/* report: writes report.html again into folders of results, as those of earlier versions have none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/crypto.h"
#include "shared/file.h"
#include "shared/json.h"
#include "submit/browse/folder.h"
#include "submit/browse/report.h"
#include "submit/results/results.h"
#include "submit/text.h"
#include "submit/verbs/verbs.h"

/* run.json lists it, with its length and SHA-256. */
static int note_file(const char *folder, json_t *run, const char *text, size_t len, struct err *e)
{
    json_t *files = json_object_get(run, "files");
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    char path[PATH_MAX];
    char *changed;
    json_t *file;
    size_t i;
    int rc;

    sha256(sum, text, len);
    hex_encode(hex, sum, sizeof sum);
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));

        if (name && strcmp(name, REPORT_NAME) == 0)
            json_array_remove(files, i--);
    }
    if (!json_is_array(files))
        return 0;
    json_array_append_new(
        files, json_pack("{s:s, s:I, s:s}", "name", REPORT_NAME, "bytes", (json_int_t)len, "sha256", hex));
    changed = json_dump(run, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    if (!changed)
        return err_set(e, ERR_NOMEM, "no memory for run.json");
    rc = file_join(path, sizeof path, folder, "run.json", e);
    if (rc == 0)
        rc = file_write(path, changed, strlen(changed), 0644, e);
    free(changed);
    return rc;
}

static int write_report(const char *folder, json_t *written, struct err *e)
{
    char path[PATH_MAX];
    json_t *run = NULL;
    char *text = NULL;
    size_t len = 0;
    int dir;
    int rc;

    if (folder_open(&dir, folder, e) < 0)
        return e->code;
    rc = folder_json(&run, dir, "run.json", RUN_JSON_MAX, e) < 0 ? err_at(e, "%s", folder)
         : file_join(path, sizeof path, folder, REPORT_NAME, e) < 0
             ? e->code
             : report_text(&text, &len, folder, run, e);
    close(dir);
    if (rc == 0)
        rc = file_write(path, text, len, 0644, e);
    if (rc == 0)
        rc = note_file(folder, run, text, len, e);
    if (rc == 0)
        json_array_append_new(written, json_text(path, SIZE_MAX));
    json_decref(run);
    free(text);
    return rc;
}

static void show(const struct options *o, json_t *written)
{
    json_t *path;
    size_t i;

    if (o->json)
        verb_print_json(true, json_pack("{s:O}", "reports", written), NULL, NULL);
    else
        json_array_foreach(written, i, path) text_print("%s\n", json_string_value(path));
}

int verb_report(const struct options *o, struct err *e)
{
    json_t *written;
    int rc = 0;

    if (o->args.n_operands == 0)
        return err_set(e, ERR_USAGE, "report needs a folder of results: logs/latest is that of the last job");
    written = json_array();
    for (int i = 0; i < o->args.n_operands && rc == 0; i++)
        rc = write_report(o->args.operands[i], written, e);
    if (rc == 0 || !o->json)
        show(o, written);
    json_decref(written);
    return rc;
}
