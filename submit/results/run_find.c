#include "submit/results/run_find.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/files/run_file.h"
#include "submit/results/job_index.h"

/* The results of a job of the index; its folder may be another job's by now. */
static int find_job(struct run *r, const char *id, struct err *e)
{
    json_t *record;
    int rc;

    if (job_index_read(&record, id, e) < 0)
        return e->code == ERR_NOT_FOUND && id ? err_at(e, "%s is no folder", id) : e->code;
    rc = file_absolute(r->folder, sizeof r->folder, json_text_at(record, "folder"), e);
    if (rc == 0)
        rc = run_file_read(&r->doc, r->folder, e);
    if (rc == 0 && strcmp(json_text_at(r->doc, "id"), json_text_at(record, "id")) != 0)
        rc = err_set(e, ERR_NOT_FOUND, "%s has the results of another job than %s", r->folder,
                     json_text_at(record, "id"));
    if (rc < 0 && e->code == ERR_NOT_FOUND)
        err_hint(e, "job_submit fetch %s gets what its agents still have.", json_text_at(record, "id"));
    json_decref(record);
    return rc;
}

int run_find(struct run *r, const char *name, struct err *e)
{
    int rc;

    *r = (struct run){0};
    if (!name || access(name, F_OK) < 0)
        rc = find_job(r, name, e);
    else if (file_absolute(r->folder, sizeof r->folder, name, e) < 0 ||
             run_file_read(&r->doc, r->folder, e) < 0)
        rc = e->code == ERR_NOT_FOUND ? err_hint(e, "A run is the folder of a job's results, or a job's id.")
                                      : e->code;
    else
        rc = 0;
    if (rc == 0 && !json_text_at(r->doc, "id")[0])
        rc = err_set(e, ERR_CONFIG, "%s/run.json: no id: it is not that of a job", r->folder);
    if (rc < 0)
        run_clear(r);
    return rc;
}

static bool is_among(const struct run *runs, size_t n, const struct run *r)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(json_text_at(runs[i].doc, "id"), json_text_at(r->doc, "id")) == 0)
            return true;
    return false;
}

int runs_find(struct run **out, size_t *n_out, const char *const *names, size_t n, struct err *e)
{
    struct run *runs = calloc(n ? n : 1, sizeof *runs);
    size_t found = 0;

    if (!runs)
        return err_set(e, ERR_NOMEM, "no memory for %zu runs", n);
    for (size_t i = 0; i < n; i++) {
        if (run_find(&runs[found], names[i], e) < 0) {
            runs_free(runs, found);
            return e->code;
        }
        if (is_among(runs, found, &runs[found]))
            run_clear(&runs[found]);
        else
            found++;
    }
    *out = runs;
    *n_out = found;
    return 0;
}

void run_clear(struct run *r)
{
    json_decref(r->doc);
    *r = (struct run){0};
}

void runs_free(struct run *runs, size_t n)
{
    for (size_t i = 0; runs && i < n; i++)
        run_clear(&runs[i]);
    free(runs);
}
