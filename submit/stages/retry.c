#include "submit/stages/retry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/artifacts.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

#define COPIES_FOLDER "mirror"

/* Pauses between two copies, and after downloads that were not of the same step. */
static const double PAUSE_S = 2, AGAIN_S = 0.2;

/* FOLDER/mirror/checkpoints/node-0.safetensors and then `ending`, "" or ".new"; `kind`: "", the node's last
 * checkpoint, or CHECKPOINT_PREVIOUS. */
static int name_copy(char path[PATH_MAX], const struct submission *s, const struct job_node *n,
                     const char *kind, const char *ending, struct err *e)
{
    char name[64], below[96];

    checkpoint_file_name(name, n->at.node, kind);
    snprintf(below, sizeof below, COPIES_FOLDER "/%s%s", name, ending);
    return file_join(path, PATH_MAX, s->folder, below, e);
}

/* The last step after which every worker has written a checkpoint: all have done a later one since. */
static uint64_t step_of_all(const struct submission *s)
{
    uint64_t step = settings_steps(&s->settings), apart = settings_checkpoint_steps(&s->settings);

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        if (!node_is_server(n) && (uint64_t)n->view.progress.step < step + 1)
            step = n->view.progress.step > 0 ? (uint64_t)n->view.progress.step - 1 : 0;
    }
    return step - step % apart;
}

static bool can_download(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].is_ended || s->nodes[i].silent_since > 0 || s->nodes[i].call.busy)
            return false;
    return true;
}

static int start_download(int *fd, struct submission *s, struct job_node *n, struct err *e)
{
    const struct artifact *a = &artifacts[ARTIFACT_CHECKPOINT];
    char path[PATH_MAX], from[160];

    snprintf(from, sizeof from, "/v1/jobs/%s/artifacts/%s", s->id, a->name);
    if (name_copy(path, s, n, "", ".new", e) < 0)
        return e->code;
    *fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    return node_download(s->http, n, *fd, a->max, from, e);
}

static int start_copying(struct checkpoint_copies *c, struct submission *s, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, s->folder, COPIES_FOLDER "/checkpoints", e) < 0 ||
        file_mkdirs(path, 0777, e) < 0)
        return e->code;
    c->fds = malloc(s->n_nodes * sizeof *c->fds);
    if (!c->fds)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    for (size_t i = 0; i < s->n_nodes; i++)
        c->fds[i] = -1;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (start_download(&c->fds[i], s, &s->nodes[i], e) < 0)
            return e->code;
    return 0;
}

/* Opens the download of a node as a file of tensors. */
static int open_copy(struct tensor_file *f, const struct submission *s, const struct job_node *n,
                     struct err *e)
{
    char path[PATH_MAX];

    return node_answer(n, e) < 0 || name_copy(path, s, n, "", ".new", e) < 0 ? e->code
                                                                             : tensor_file_open(f, path, e);
}

/* Sets *step if all downloads are of the same point of the job. */
static bool are_of_one_point(uint64_t *step, const struct submission *s)
{
    struct checkpoint_position p = {0};

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct tensor_file f;
        struct err ignored;
        bool is_at;

        if (open_copy(&f, s, &s->nodes[i], &ignored) < 0)
            return false;
        if (i == 0)
            checkpoint_position_of(&p, &f);
        is_at = checkpoint_is_at(&f, &p, s->nodes[i].at.node);
        tensor_file_close(&f);
        if (!is_at)
            return false;
    }
    *step = strtoull(p.step, NULL, 10);
    return true;
}

/* Gives a download its name; the copy before it becomes the node's previous one. If this program ends between
 * two nodes, all nodes have copies of the step before. */
static int place_copy(const struct submission *s, const struct job_node *n, struct err *e)
{
    char new[PATH_MAX], now[PATH_MAX], before[PATH_MAX];

    if (name_copy(new, s, n, "", ".new", e) < 0 || name_copy(now, s, n, "", "", e) < 0 ||
        name_copy(before, s, n, CHECKPOINT_PREVIOUS, "", e) < 0)
        return e->code;
    rename(now, before);
    return rename(new, now) < 0 ? err_errno(e, ERR_IO, "%s", now) : 0;
}

static void finish_copying(struct checkpoint_copies *c, struct submission *s)
{
    uint64_t step;
    struct err e;

    if (!are_of_one_point(&step, s)) {
        c->not_before = clock_now() + AGAIN_S;
    } else if (step > c->step) {
        for (size_t i = 0; i < s->n_nodes; i++)
            if (place_copy(s, &s->nodes[i], &e) < 0)
                console_error("%s", e.text);
        c->step = step;
        console_more("The checkpoints of step %llu are copied.", (unsigned long long)step);
    }
    retry_stop_copying(c, s);
}

void retry_copy_checkpoints(struct checkpoint_copies *c, struct submission *s)
{
    struct err e;

    if (s->opt->retries == 0 || !settings_has_checkpoints(&s->settings))
        return;
    if (c->fds) {
        if (!submission_is_calling(s))
            finish_copying(c, s);
        return;
    }
    if (clock_now() < c->not_before || step_of_all(s) <= c->step || !can_download(s))
        return;
    c->not_before = clock_now() + PAUSE_S;
    if (start_copying(c, s, &e) < 0) {
        console_error("The checkpoints are not copied: %s", e.text);
        retry_stop_copying(c, s);
    }
}

void retry_stop_copying(struct checkpoint_copies *c, struct submission *s)
{
    char path[PATH_MAX];
    struct err ignored;

    for (size_t i = 0; c->fds && i < s->n_nodes; i++) {
        if (c->fds[i] < 0)
            continue;
        http_clear(s->http, &s->nodes[i].call);
        close(c->fds[i]);
        if (name_copy(path, s, &s->nodes[i], "", ".new", &ignored) == 0)
            unlink(path);
    }
    free(c->fds);
    c->fds = NULL;
}

void retry_remove_copies(const struct submission *s)
{
    static const char *const kinds[] = {"", CHECKPOINT_PREVIOUS};
    static const char *const folders[] = {COPIES_FOLDER "/checkpoints", COPIES_FOLDER};
    char path[PATH_MAX];
    struct err ignored;

    for (size_t i = 0; i < s->n_nodes; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (name_copy(path, s, &s->nodes[i], kinds[k], "", &ignored) == 0)
                unlink(path);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (file_join(path, sizeof path, s->folder, folders[i], &ignored) == 0)
            rmdir(path);
}

/* Attempts before this one that have run. The number of an attempt says nothing of them: a job of the queue
 * that an agent refuses gets another number, too. */
static int count_tries(const struct submission *s)
{
    return (int)json_array_size(json_object_get(s->facts, "attempts"));
}

bool retry_is_due(const struct submission *s)
{
    /* A node that was cancelled because its agent stops has failed for that reason. */
    return (s->state == JOB_FAILED || s->state == JOB_CANCELLED) && s->cause >= 0 &&
           count_tries(s) < s->opt->retries && !interrupt_signal() &&
           (s->deadline == 0 || clock_now() < s->deadline) &&
           options_retry_on(s->opt, s->nodes[s->cause].view.reason);
}

/* Sets `path` to the i-th folder that may have checkpoints, the likeliest first. Returns false beyond the
 * last. */
static bool name_source(char path[PATH_MAX], const struct submission *s, int i)
{
    struct err ignored;

    if (i == 0)
        return snprintf(path, PATH_MAX, "%s", s->folder) < PATH_MAX;
    if (i == 1)
        return file_join(path, PATH_MAX, s->folder, COPIES_FOLDER, &ignored) == 0;
    return i <= s->attempt && results_of_attempt(path, s, s->attempt + 1 - i, &ignored) == 0;
}

/* The folder with the latest checkpoints of all nodes; "": no folder has checkpoints of all nodes. */
static void choose_source(char best[PATH_MAX], const struct submission *s)
{
    char path[PATH_MAX];
    uint64_t step, most = 0;

    best[0] = '\0';
    for (int i = 0; name_source(path, s, i); i++)
        if (checkpoint_find_common(&step, path, s->nodes, s->n_nodes) && step > most) {
            most = step;
            memcpy(best, path, PATH_MAX);
        }
}

/* {"attempt":1,"state":"failed","node":1,"reason":"NodeLost",...} for run.json. */
static void note_attempt(struct submission *s)
{
    const struct job_node *n = &s->nodes[s->cause];
    json_t *attempts = json_object_get(s->facts, "attempts");
    char folder[48], at[CLOCK_TEXT];

    if (!attempts) {
        attempts = json_array();
        json_object_set_new(s->facts, "attempts", attempts);
    }
    snprintf(folder, sizeof folder, RESULTS_ATTEMPTS "/%d", s->attempt);
    json_array_append_new(attempts, json_pack("{s:i, s:s, s:i, s:s, s:s, s:o, s:s, s:s}", "attempt",
                                              s->attempt, "state", job_state_name(s->state), "node",
                                              n->at.node, "address", n->at.address, "reason", n->view.reason,
                                              "message", json_text(n->view.message, SIZE_MAX), "ended_at",
                                              clock_text(at, clock_wall()), "folder", folder));
}

int retry_begin(struct submission *s, struct err *e)
{
    char from[PATH_MAX];
    int attempt = s->attempt + 1;
    bool keeps = settings_has_checkpoints(&s->settings);

    choose_source(from, s);
    note_attempt(s);
    console_info(
        "Attempt %d of at most %d %s.", count_tries(s) + 1, s->opt->retries + 1,
        from[0]                ? "goes on from the last checkpoints of all nodes"
        : s->settings.executor ? "begins anew"
        : keeps                ? "begins anew: there are no checkpoints of all nodes yet"
                : "begins anew: without --checkpoint-every or --checkpoint-steps there are no checkpoints");
    return submission_again(s, attempt, from[0] ? from : s->opt->resume, e);
}

static bool stays_in_folder(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, RESULTS_ATTEMPTS) == 0 ||
           strcmp(name, COPIES_FOLDER) == 0;
}

static int move_entry(const char *from, const char *to, const char *name, struct err *e)
{
    char old[PATH_MAX], new[PATH_MAX];

    if (file_join(old, sizeof old, from, name, e) < 0 || file_join(new, sizeof new, to, name, e) < 0)
        return e->code;
    return rename(old, new) < 0 ? err_errno(e, ERR_IO, "%s", new) : 0;
}

int retry_set_aside(const struct submission *s, struct err *e)
{
    char to[PATH_MAX];
    const struct dirent *f;
    DIR *d;
    int rc = 0;

    if (results_of_attempt(to, s, s->attempt - 1, e) < 0 || file_mkdirs(to, 0777, e) < 0)
        return e->code;
    d = opendir(s->folder);
    if (!d)
        return err_errno(e, ERR_IO, "%s", s->folder);
    while (rc == 0 && (f = readdir(d)) != NULL)
        if (!stays_in_folder(f->d_name))
            rc = move_entry(s->folder, to, f->d_name, e);
    closedir(d);
    return rc;
}
