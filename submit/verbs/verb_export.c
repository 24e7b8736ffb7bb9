/* export: writes the results of a job, from their folder, in the format of another program; asks no agent. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/export/export.h"
#include "submit/files/run_file.h"
#include "submit/results/job_index.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

/* The result folder of a job in the index, by its id; NULL: the latest job. */
static int folder_of(char out[PATH_MAX], const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e) < 0 || job_index_load(&s, id, e) < 0 ? e->code : 0;

    if (rc == 0)
        snprintf(out, PATH_MAX, "%s", s.folder);
    submission_clear(&s);
    return rc;
}

static int find_results(char folder[PATH_MAX], const struct options *o, struct err *e)
{
    const char *job = o->args.n_operands > 0 ? o->args.operands[0] : NULL;

    if (!job || access(job, F_OK) < 0)
        return folder_of(folder, o, job, e);
    return file_absolute(folder, PATH_MAX, job, e);
}

static int to_tensorboard(char out[PATH_MAX], const char *folder, const json_t *run, const char *dir,
                          struct err *e)
{
    if (dir[0])
        snprintf(out, PATH_MAX, "%s", dir);
    else if (file_join(out, PATH_MAX, folder, TENSORBOARD_FOLDER, e) < 0)
        return e->code;
    return tensorboard_write(folder, run, out, e);
}

static int to_mlflow(char out[PATH_MAX], const char *folder, const json_t *run, const char *dir,
                     struct err *e)
{
    return mlflow_write(out, folder, run, dir[0] ? dir : "mlruns", e);
}

static int export_run(char out[PATH_MAX], const struct options *o, const char *folder, struct err *e)
{
    json_t *run;
    int rc;

    if (run_file_read(&run, folder, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_hint(e, "The job has no results here yet: job_submit fetch gets them.");
        return e->code;
    }
    rc = (strcmp(o->format, "mlflow") == 0 ? to_mlflow : to_tensorboard)(out, folder, run, o->output, e);
    json_decref(run);
    return rc;
}

int verb_export(const struct options *o, struct err *e)
{
    char folder[PATH_MAX], out[PATH_MAX];

    if (!o->format[0])
        return err_set(e, ERR_USAGE, "export needs --to tensorboard or --to mlflow");
    if (find_results(folder, o, e) < 0 || export_run(out, o, folder, e) < 0)
        return e->code;
    if (o->json)
        stdout_json(true, json_pack("{s:o, s:s}", "folder", json_text(out, SIZE_MAX), "format", o->format),
                    NULL, NULL);
    else
        printf("%s\n", out);
    return 0;
}
