#include "submit/stages/mirror.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/records/artifacts.h"
#include "submit/results/checkpoint_files.h"
#include "submit/terminal/console.h"

/* Between two copies; after a try in which a node was already further than another. */
static const double PAUSE_S = 2, AGAIN_S = 0.2;

/* FOLDER/mirror/checkpoints/node-0.safetensors and then `ending`. */
static int name_copy(char path[PATH_MAX], const struct submission *s, const struct job_node *n,
                     const char *kind, const char *ending, struct err *e)
{
    char name[64], below[96];

    checkpoint_file_name(name, n->at.node, kind);
    snprintf(below, sizeof below, MIRROR_FOLDER "/%s%s", name, ending);
    return file_join(path, PATH_MAX, s->folder, below, e);
}

/* The last epoch of which every worker has written a checkpoint: it computes in a later one. */
static int epoch_of_all(const struct submission *s)
{
    int64_t epoch = s->settings.epochs;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *n = &s->nodes[i];

        if (!node_is_server(n) && n->view.progress.epoch - 1 < epoch)
            epoch = n->view.progress.epoch - 1;
    }
    return (int)(epoch - epoch % s->settings.checkpoint_every);
}

static bool can_ask(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].is_ended || s->nodes[i].silent_since > 0 || s->nodes[i].call.busy)
            return false;
    return true;
}

static int begin_one(int *fd, struct submission *s, struct job_node *n, struct err *e)
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

static int open_mirror(struct mirror *m, struct submission *s, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, s->folder, MIRROR_FOLDER "/checkpoints", e) < 0 ||
        file_mkdirs(path, 0777, e) < 0)
        return e->code;
    m->fds = malloc(s->n_nodes * sizeof *m->fds);
    if (!m->fds)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    for (size_t i = 0; i < s->n_nodes; i++)
        m->fds[i] = -1;
    for (size_t i = 0; i < s->n_nodes; i++)
        if (begin_one(&m->fds[i], s, &s->nodes[i], e) < 0)
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

/* Sets *epoch if all of them are of one point of the job. */
static bool agree(int *epoch, const struct submission *s)
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
    *epoch = atoi(p.epoch);
    return true;
}

/* The copy before becomes the previous one, which all nodes have if this program ends between two of them. */
static int place(const struct submission *s, const struct job_node *n, struct err *e)
{
    char new[PATH_MAX], now[PATH_MAX], before[PATH_MAX];

    if (name_copy(new, s, n, "", ".new", e) < 0 || name_copy(now, s, n, "", "", e) < 0 ||
        name_copy(before, s, n, CHECKPOINT_PREVIOUS, "", e) < 0)
        return e->code;
    rename(now, before);
    return rename(new, now) < 0 ? err_errno(e, ERR_IO, "%s", now) : 0;
}

static void end_round(struct mirror *m, struct submission *s)
{
    int epoch;
    struct err e;

    if (!agree(&epoch, s)) {
        m->not_before = clock_now() + AGAIN_S;
    } else if (epoch > m->epoch) {
        for (size_t i = 0; i < s->n_nodes; i++)
            if (place(s, &s->nodes[i], &e) < 0)
                console_error("%s", e.text);
        m->epoch = epoch;
        console_more("The checkpoints of epoch %d are copied.", epoch);
    }
    mirror_close(m, s);
}

void mirror_look(struct mirror *m, struct submission *s)
{
    struct err e;

    if (s->opt->retries == 0 || s->settings.checkpoint_every == 0)
        return;
    if (m->fds) {
        if (!submission_is_calling(s))
            end_round(m, s);
        return;
    }
    if (clock_now() < m->not_before || epoch_of_all(s) <= m->epoch || !can_ask(s))
        return;
    m->not_before = clock_now() + PAUSE_S;
    if (open_mirror(m, s, &e) < 0) {
        console_error("The checkpoints are not copied: %s", e.text);
        mirror_close(m, s);
    }
}

void mirror_close(struct mirror *m, struct submission *s)
{
    char path[PATH_MAX];
    struct err ignored;

    for (size_t i = 0; m->fds && i < s->n_nodes; i++) {
        if (m->fds[i] < 0)
            continue;
        http_clear(s->http, &s->nodes[i].call);
        close(m->fds[i]);
        if (name_copy(path, s, &s->nodes[i], "", ".new", &ignored) == 0)
            unlink(path);
    }
    free(m->fds);
    m->fds = NULL;
}

void mirror_remove(const struct submission *s)
{
    static const char *const kinds[] = {"", CHECKPOINT_PREVIOUS};
    static const char *const folders[] = {MIRROR_FOLDER "/checkpoints", MIRROR_FOLDER};
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
