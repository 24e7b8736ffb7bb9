/* resume: what continues a job of a folder that has ended without success. A launcher starts its nodes, so
 * this verb starts none: it says from where the job would go on, and by which command. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/job/job_folder.h"
#include "shared/records/artifacts.h"
#include "shared/records/tensor_file.h"
#include "submit/launch/slurm.h"
#include "submit/results/results.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/slurm_job.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

/* Calls `each` with every checkpoint of the node's attempts, of which the latest may have ended before its
 * first one, until it returns true. Returns whether it has. */
static bool find_checkpoint(const struct submission *s, int node,
                            bool (*each)(void *arg, const struct tensor_file *f), void *arg)
{
    static const enum artifact_id kinds[] = {ARTIFACT_CHECKPOINT, ARTIFACT_PREVIOUS_CHECKPOINT};
    char of_node[JOB_FOLDER_NODE_NAME], jobs[PATH_MAX], path[PATH_MAX], name[NAME_MAX + 64];
    const struct dirent *attempt;
    struct tensor_file f;
    struct err ignored;
    bool is_found = false;
    DIR *d;

    snprintf(name, sizeof name, "%s/jobs", job_folder_node_name(of_node, node));
    if (file_join(jobs, sizeof jobs, s->job_folder, name, &ignored) < 0 || (d = opendir(jobs)) == NULL)
        return false;
    while (!is_found && (attempt = readdir(d)) != NULL)
        for (size_t i = 0; !is_found && i < sizeof kinds / sizeof *kinds; i++) {
            snprintf(name, sizeof name, "%s/run/%s", attempt->d_name, artifact_name(kinds[i]));
            if (file_join(path, sizeof path, jobs, name, &ignored) < 0 || access(path, R_OK) < 0 ||
                tensor_file_open(&f, path, &ignored) < 0)
                continue;
            is_found = each(arg, &f);
            tensor_file_close(&f);
        }
    closedir(d);
    return is_found;
}

struct checkpoint_sought {
    struct checkpoint_position at;
    int node;
};

static bool is_wanted(void *arg, const struct tensor_file *f)
{
    const struct checkpoint_sought *w = arg;

    return checkpoint_is_at(f, &w->at, w->node);
}

struct common_step {
    const struct submission *s;
    long long step; /* -1: none yet */
};

/* Notes the step of a checkpoint of worker 0, if all other nodes have one of the same point. */
static bool note_common(void *arg, const struct tensor_file *f)
{
    struct common_step *c = arg;
    struct checkpoint_sought w;
    long long step;

    checkpoint_position_of(&w.at, f);
    step = strtoll(w.at.step, NULL, 10);
    if (step <= c->step)
        return false;
    for (size_t i = 1; i < c->s->n_nodes; i++) {
        w.node = c->s->nodes[i].at.node;
        if (!find_checkpoint(c->s, w.node, is_wanted, &w))
            return false;
    }
    c->step = step;
    return false;
}

/* The step from which the next attempt goes on; -1: it begins anew. */
static long long next_step(const struct submission *s)
{
    struct common_step c = {.s = s, .step = -1};

    find_checkpoint(s, s->nodes[0].at.node, note_common, &c);
    return c.step;
}

static int check_resumable(const struct submission *s, struct err *e)
{
    struct slurm_state state;
    char id[SLURM_ID];

    if (!s->job_folder[0]) {
        err_set(e, ERR_USAGE, "job %s runs on agents, and resume is for a job folder", s->id);
        return err_hint(e, "job_submit --resume FOLDER continues it from its results.");
    }
    if (s->state == JOB_SUCCEEDED) {
        err_set(e, ERR_CONFLICT, "job %s has succeeded: nothing is left to do", s->id);
        return err_hint(e, "job_submit pack --resume %s/results --epochs N -o DIR trains its model further.",
                        s->job_folder);
    }
    if (submitted_job_is_in_slurm(id, &state, s))
        err_set(e, ERR_CONFLICT, "job %s is Slurm's job %s, which is not over: %s", s->id, id, state.name);
    else if (job_state_is_terminal(s->state) || s->state == JOB_PENDING)
        return 0;
    else
        err_set(e, ERR_CONFLICT, "job %s is %s", s->id, job_state_name(s->state));
    return err_hint(e, "job_submit wait %s follows it to its end, cancel ends it.", s->job_folder);
}

static void show_commands(const struct submission *s, const char *exe_dir, long long step)
{
    if (step >= 0)
        printf("Job %s (%s) is %s; it goes on from step %lld, of the last checkpoints that all of its nodes "
               "have.\n",
               s->id, s->settings.name, job_state_name(s->state), step);
    else
        printf("Job %s (%s) is %s; it begins anew.\n", s->id, s->settings.name, job_state_name(s->state));
    if (slurm_job_is(s->job_folder)) {
        printf("next:\n  sbatch %s/" SLURM_SCRIPT "\n", s->job_folder);
        return;
    }
    printf("next, one of:\n");
    printf("  mpirun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    printf("  srun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    printf("  psgd-run with the same options and -o %s, if it has started the job\n", s->job_folder);
    if (s->settings.trainer[0])
        printf("  PSGD_JOB=%s, and mpirun, srun or torchrun with %s, if these have started it\n",
               s->job_folder, s->settings.trainer);
}

/* The packages and the nodes' folders are of one number of workers. */
static void show_other_number(const struct submission *s)
{
    printf("on another number of workers, in another folder:\n");
    printf("  job_submit collect %s\n", s->job_folder);
    printf("and one of:\n");
    printf("  job_submit pack --resume %s/results --node_count N -o DIR\n", s->job_folder);
    printf("  srun -n N psgd-run --resume %s/results -o DIR\n", s->job_folder);
    printf("  job_submit --slurm \"-n N\" --resume %s/results -o DIR\n", s->job_folder);
}

static int show(const struct submission *s, struct err *e)
{
    const long long step = next_step(s);
    char exe_dir[PATH_MAX];

    if (check_resumable(s, e) < 0 || file_exe_dir(exe_dir, sizeof exe_dir, e) < 0)
        return e->code;
    if (s->opt->json)
        stdout_json(true,
                    json_pack("{s:s, s:s, s:s, s:b, s:o, s:i}", "id", s->id, "state",
                              job_state_name(s->state), "folder", s->job_folder, "from_checkpoint",
                              (int)(step >= 0), "step", step >= 0 ? json_integer(step) : json_null(),
                              "processes", (int)s->n_nodes),
                    NULL, NULL);
    else
        show_commands(s, exe_dir, step);
    if (step >= 0 && !s->opt->json)
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
