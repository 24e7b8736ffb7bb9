/* resume: what continues a job of a folder that has ended without success. A launcher starts its nodes, so
 * this verb starts none: it says from where the job would go on, and by which command. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/job/job_folder.h"
#include "shared/records/artifacts.h"
#include "submit/launch/slurm.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/slurm_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

/* Of the node's attempts any: the latest may have ended before its first checkpoint. */
static bool node_has_checkpoint(const char *node_folder)
{
    static const enum artifact_id kinds[] = {ARTIFACT_CHECKPOINT, ARTIFACT_PREVIOUS_CHECKPOINT};
    char jobs[PATH_MAX], path[PATH_MAX], name[NAME_MAX + 64];
    const struct dirent *attempt;
    struct err ignored;
    bool has = false;
    DIR *d;

    if (file_join(jobs, sizeof jobs, node_folder, "jobs", &ignored) < 0 || (d = opendir(jobs)) == NULL)
        return false;
    while (!has && (attempt = readdir(d)) != NULL)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            snprintf(name, sizeof name, "%s/run/%s", attempt->d_name, artifact_name(kinds[i]));
            has |= file_join(path, sizeof path, jobs, name, &ignored) == 0 && access(path, R_OK) == 0;
        }
    closedir(d);
    return has;
}

/* Process 0 may have a checkpoint that another one lacks: which one all have is known when they meet. */
static bool has_checkpoint(const struct submission *s)
{
    char name[JOB_FOLDER_NODE_NAME], folder[PATH_MAX];
    struct err ignored;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (file_join(folder, sizeof folder, s->job_folder, job_folder_node_name(name, s->nodes[i].at.node),
                      &ignored) < 0 ||
            !node_has_checkpoint(folder))
            return false;
    return true;
}

static int check_resumable(const struct submission *s, struct err *e)
{
    if (!s->job_folder[0]) {
        err_set(e, ERR_USAGE, "job %s runs on agents, and resume is for a job folder", s->id);
        return err_hint(e, "job_submit --resume FOLDER continues it from its results.");
    }
    if (s->state == JOB_SUCCEEDED) {
        err_set(e, ERR_CONFLICT, "job %s has succeeded: nothing is left to do", s->id);
        return err_hint(e, "job_submit pack --resume %s/results --epochs N -o DIR trains its model further.",
                        s->job_folder);
    }
    if (job_state_is_terminal(s->state) || s->state == JOB_PENDING)
        return 0;
    err_set(e, ERR_CONFLICT, "job %s is %s", s->id, job_state_name(s->state));
    return err_hint(e, "job_submit wait %s follows it to its end, cancel ends it.", s->job_folder);
}

static void show_commands(const struct submission *s, const char *exe_dir, bool goes_on)
{
    printf("Job %s (%s) is %s; it %s.\n", s->id, s->settings.name, job_state_name(s->state),
           goes_on ? "goes on from the last checkpoints that all of its nodes have" : "begins anew");
    if (slurm_job_is(s->job_folder)) {
        printf("next:\n  sbatch %s/" SLURM_SCRIPT "\n", s->job_folder);
        return;
    }
    printf("next, the command that has started it, or one of:\n");
    printf("  mpirun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    printf("  srun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    if (s->settings.trainer[0])
        printf("  PSGD_JOB=%s, and mpirun, srun or torchrun with %s, if these have started it\n",
               s->job_folder, s->settings.trainer);
}

/* The packages and the nodes' folders are of one number of workers. */
static void show_other_number(const struct submission *s)
{
    printf("on another number of workers, in another folder:\n");
    printf("  job_submit collect %s\n", s->job_folder);
    printf("  job_submit pack --resume %s/results --node_count N -o DIR\n", s->job_folder);
}

static int show(const struct submission *s, struct err *e)
{
    bool goes_on = has_checkpoint(s);
    char exe_dir[PATH_MAX];

    if (check_resumable(s, e) < 0 || file_exe_dir(exe_dir, sizeof exe_dir, e) < 0)
        return e->code;
    if (s->opt->json)
        stdout_json(true,
                    json_pack("{s:s, s:s, s:s, s:b, s:i}", "id", s->id, "state", job_state_name(s->state),
                              "folder", s->job_folder, "from_checkpoint", goes_on, "processes",
                              (int)s->n_nodes),
                    NULL, NULL);
    else
        show_commands(s, exe_dir, goes_on);
    if (goes_on && !s->opt->json)
        show_other_number(s);
    return 0;
}

int verb_resume(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submitted_job_ask(&s, o, submitted_job_operand(o), e);

    if (rc == 0) {
        submitted_job_update(&s);
        rc = show(&s, e);
    }
    if (rc < 0 && e->code == ERR_NOT_FOUND)
        err_hint(e, "job_submit --resume FOLDER continues a job on agents from its results.");
    submission_clear(&s);
    return rc;
}
