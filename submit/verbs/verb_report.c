/* report: writes report.html into folders of results; those of earlier versions have none. */
#include <stdio.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/browse/report_page.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/results.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static int write_report(const char *folder, json_t *written, struct err *e)
{
    char path[PATH_MAX];
    json_t *run = NULL;
    int dir;
    int rc;

    if (untrusted_open(&dir, folder, e) < 0)
        return e->code;
    rc = untrusted_json(&run, dir, "run.json", RUN_JSON_MAX, e) < 0 ? err_at(e, "%s", folder)
                                                                    : report_page_save(folder, run, e);
    close(dir);
    if (rc == 0)
        rc = file_join(path, sizeof path, folder, REPORT_NAME, e);
    if (rc == 0)
        json_array_append_new(written, json_text(path, SIZE_MAX));
    json_decref(run);
    return rc;
}

static void show_report(const struct options *o, json_t *written)
{
    json_t *path;
    size_t i;

    if (o->json)
        stdout_json(true, json_pack("{s:O}", "reports", written), NULL, NULL);
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
        show_report(o, written);
    json_decref(written);
    return rc;
}
