#include "agent/folder/folder_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

static const double WRITE_S = 1; /* from one writing of the state to the next, unless it is another one */

static void write_document(struct node_process *f, const char *folder, json_t *take_state)
{
    char path[PATH_MAX];
    struct iovec part = {0};
    struct err e;
    char *text;

    if (take_state)
        json_object_update_new(take_state,
                               json_pack("{s:s, s:s, s:i, s:f}", "host", f->machine, "boot", f->jobs.boot,
                                         "process", (int)getpid(), "written_s", clock_wall()));
    text = take_state ? json_line(take_state) : NULL;
    json_decref(take_state);
    if (!text)
        return;
    part = (struct iovec){.iov_base = text, .iov_len = strlen(text)};
    if (file_join(path, sizeof path, folder, JOB_FOLDER_NODE, &e) < 0 ||
        file_write_parts(path, &part, 1, 0600, false, &e) < 0)
        log_line(LOG_LEVEL_WARN, "node", NULL, "its state cannot be written: %s", e.text);
    free(text);
    f->written_at = clock_now();
}

/* The state, with the point from which this attempt went on. */
static json_t *state_json(const struct node_process *f)
{
    const struct meeting_point *p = &f->meet.resume;
    json_t *o = task_json(f->task);

    if (o && f->meet.resumes)
        json_object_set_new(o, "resume",
                            json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t)p->epoch, "step",
                                      (json_int_t)p->step, "round", (json_int_t)p->round));
    return o;
}

void folder_state_wait(struct node_process *f, const char *message)
{
    const struct task *last = task_find(&f->jobs, f->spec.id);
    json_t *o;

    if (last && last->job.state == JOB_SUCCEEDED)
        return;
    o = last ? task_json(last) : json_pack("{s:s, s:i}", "id", f->spec.id, "node", f->spec.node);
    if (o)
        json_object_update_new(o, json_pack("{s:s, s:n, s:o}", "state", job_state_name(JOB_PENDING), "reason",
                                            "message", json_text(message, MESSAGE_MAX)));
    write_document(f, f->agent.dir, o);
}

void folder_state_write(struct node_process *f)
{
    const double now = clock_now();
    bool is_other = f->task->job.state != f->written_state;
    bool has_changed = f->jobs.n_changes != f->written_change && now - f->written_at > WRITE_S;

    if (!is_other && !has_changed && now - f->written_at < JOB_FOLDER_BEAT_S)
        return;
    f->written_state = f->task->job.state;
    f->written_change = f->jobs.n_changes;
    write_document(f, f->agent.dir, state_json(f));
    if (node_process_is_over(f)) /* a later attempt replaces the other one */
        write_document(f, f->task->dir, state_json(f));
}

static void link_run(const struct node_process *f)
{
    char link[PATH_MAX], fresh[PATH_MAX], to[PATH_MAX];
    struct err ignored;

    if (file_join(link, sizeof link, f->agent.dir, "run", &ignored) < 0 ||
        file_join(fresh, sizeof fresh, f->agent.dir, ".run", &ignored) < 0)
        return;
    snprintf(to, sizeof to, "jobs/%s/run", task_folder(f->task));
    unlink(fresh);
    if (symlink(to, fresh) < 0 || rename(fresh, link) < 0)
        log_line(LOG_LEVEL_WARN, "node", NULL, "%s cannot be linked: %s", link, strerror(errno));
}

void folder_state_begin(struct node_process *f)
{
    link_run(f);
    write_document(f, f->task->dir, state_json(f));
}

/* The state of the node's last attempt, where there was no further one. */
void folder_state_restore(struct node_process *f, const char *message)
{
    const struct task *last = task_find(&f->jobs, f->spec.id);
    char path[PATH_MAX];
    struct err ignored;
    json_t *o;

    if (!last) {
        folder_state_wait(f, message);
        return;
    }
    if (file_join(path, sizeof path, last->dir, JOB_FOLDER_NODE, &ignored) == 0 &&
        json_read(&o, path, JOB_FOLDER_NODE_MAX, &ignored) == 0)
        write_document(f, f->agent.dir, o);
}

void folder_state_write_ended(struct node_process *f, const struct task *t)
{
    json_t *o = task_json(t), *begun = NULL;
    enum job_state state = JOB_PENDING;
    char path[PATH_MAX];
    struct err ignored;

    if (file_join(path, sizeof path, t->dir, JOB_FOLDER_NODE, &ignored) == 0 &&
        json_read(&begun, path, JOB_FOLDER_NODE_MAX, &ignored) == 0)
        job_state_parse(&state, json_text_at(begun, "state"));
    if (o && json_object_get(begun, "resume"))
        json_object_set(o, "resume", json_object_get(begun, "resume"));
    json_decref(begun);
    if (job_state_is_terminal(state))
        json_decref(o);
    else
        write_document(f, t->dir, o);
}
