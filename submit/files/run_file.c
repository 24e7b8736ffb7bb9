#include "submit/files/run_file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/files/job_id.h"
#include "submit/files/untrusted_folder.h"

/* The id becomes a part of paths, and of commands that users copy. A document without an id is accepted: the
 * callers report that. Frees the document on failure. */
static int check_id(json_t *take_run, struct err *e)
{
    const json_t *id = json_object_get(take_run, "id");

    if (!id || job_id_is_valid(json_string_value(id)))
        return 0;
    json_decref(take_run);
    return err_set(e, ERR_CONFIG, "run.json: /id: not the id of a job");
}

int run_file_read(json_t **out, const char *folder, struct err *e)
{
    int dir, rc;

    if (untrusted_open(&dir, folder, e) < 0)
        return e->code;
    rc = untrusted_json(out, dir, "run.json", RUN_JSON_MAX, e);
    close(dir);
    if (rc == 0 && (rc = check_id(*out, e)) < 0)
        *out = NULL;
    return rc < 0 ? err_at(e, "%s", folder) : 0;
}

int run_file_save(const json_t *doc, const char *folder, struct err *e)
{
    char *text = doc ? json_dump(doc, JSON_INDENT(1)) : NULL;
    char path[PATH_MAX];
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for run.json");
    rc = file_join(path, sizeof path, folder, "run.json", e);
    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0644, e);
    free(text);
    return rc;
}
