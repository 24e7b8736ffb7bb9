#include "submit/stages/retry.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/options/retry_on.h"
#include "submit/results/checkpoint_files.h"
#include "submit/results/results.h"
#include "submit/stages/mirror.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"

bool retry_is_due(const struct submission *s)
{
    /* A node that its agent's stop has cancelled is one that failed for that reason. */
    return (s->state == JOB_FAILED || s->state == JOB_CANCELLED) && s->cause >= 0 &&
           s->attempt <= s->opt->retries && !interrupt_signal() &&
           (s->deadline == 0 || clock_now() < s->deadline) &&
           retry_on_has(s->opt->retry_on, s->nodes[s->cause].view.reason);
}

/* Where checkpoints may be, the likeliest first: `path` is of number i. Returns false beyond the last. */
static bool name_place(char path[PATH_MAX], const struct submission *s, int i)
{
    struct err ignored;

    if (i == 0)
        return snprintf(path, PATH_MAX, "%s", s->folder) < PATH_MAX;
    if (i == 1)
        return file_join(path, PATH_MAX, s->folder, MIRROR_FOLDER, &ignored) == 0;
    return i <= s->attempt && results_of_attempt(path, s, s->attempt + 1 - i, &ignored) == 0;
}

/* The place with the latest checkpoints of all nodes; "": none has any. */
static void choose_place(char best[PATH_MAX], const struct submission *s)
{
    char path[PATH_MAX];
    uint64_t step, most = 0;

    best[0] = '\0';
    for (int i = 0; name_place(path, s, i); i++)
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
    bool keeps = s->settings.checkpoint_every > 0;

    choose_place(from, s);
    note_attempt(s);
    console_info("Attempt %d of at most %d %s.", attempt, s->opt->retries + 1,
                 from[0]                ? "goes on from the last checkpoints of all nodes"
                 : s->settings.executor ? "begins anew"
                 : keeps                ? "begins anew: there are no checkpoints of all nodes yet"
                                        : "begins anew: without --checkpoint-every there are no checkpoints");
    return submission_again(s, attempt, from[0] ? from : s->opt->resume, e);
}

static bool stays(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, RESULTS_ATTEMPTS) == 0 ||
           strcmp(name, MIRROR_FOLDER) == 0;
}

static int move(const char *from, const char *to, const char *name, struct err *e)
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
        if (!stays(f->d_name))
            rc = move(s->folder, to, f->d_name, e);
    closedir(d);
    return rc;
}
