#include "submit/export/export.h"

#include <string.h>

#include "shared/base/file.h"
#include "submit/compat/classic/classic.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

/* The value of an option when the job was submitted, possibly by an earlier command. */
static const char *submitted_option(const struct submission *s, const char *option)
{
    const char *text = json_string_value(json_object_get(json_object_get(s->facts, "options"), option));

    return text ? text : "";
}

static int write_tensorboard(const struct submission *s, const json_t *run, struct err *e)
{
    char to[PATH_MAX];

    if (!s->opt->tensorboard && strcmp(submitted_option(s, "tensorboard"), "yes") != 0)
        return 0;
    if (file_join(to, sizeof to, s->folder, TENSORBOARD_FOLDER, e) < 0 ||
        tensorboard_write(s->folder, run, to, e) < 0)
        return err_at(e, "--tensorboard");
    console_info("TensorBoard's files are in %s. next: tensorboard --logdir %s", to, to);
    return 0;
}

static int write_mlflow(const struct submission *s, const json_t *run, struct err *e)
{
    const char *dir = s->opt->mlflow[0] ? s->opt->mlflow : submitted_option(s, "mlflow");
    char path[PATH_MAX];

    if (!dir[0])
        return 0;
    if (mlflow_write(path, s->folder, run, dir, e) < 0)
        return err_at(e, "--mlflow");
    console_info("MLflow's run is in %s.", path);
    return 0;
}

int export_prepare(struct submission *s, struct err *e)
{
    if (results_prepare(s, e) < 0)
        return e->code;
    if (classic_prepare(s, e) == 0)
        return 0;
    results_abandon(s);
    return e->code;
}

void export_write(struct submission *s, const json_t *run)
{
    static int (*const writers[])(const struct submission *s, const json_t *run,
                                  struct err *e) = {write_tensorboard, write_mlflow};
    static const char *const names[] = {"tensorboard", "mlflow"};
    struct err e;

    classic_try(s, run);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        if (writers[i](s, run, &e) == 0)
            continue;
        console_error("%s%s", e.text, text_stop(e.text));
        console_info("All other results are complete. next: job_submit export --to %s %s", names[i],
                     s->folder);
        s->is_complete = false;
    }
}
