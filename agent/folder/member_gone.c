#include "agent/folder/member_gone.h"

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

static int name_node(char folder[PATH_MAX], const struct node_process *f, int r, struct err *e)
{
    char name[JOB_FOLDER_NODE_NAME];

    return file_join(folder, PATH_MAX, f->folder, job_folder_node_name(name, f->meet.members[r].node), e);
}

void member_gone_begin(struct node_process *f)
{
    for (int r = 0; r < f->n_nodes; r++) {
        struct meeting_member *k = &f->meet.members[r];
        char folder[PATH_MAX];
        struct err ignored;

        k->has_visible_lock = meeting_is_one_machine(k, &f->meet.members[f->rank]) ||
                              (name_node(folder, f, r, &ignored) == 0 &&
                               job_folder_lock(folder) == JOB_FOLDER_HELD);
    }
}

/* Whether the state was written again within JOB_FOLDER_GONE_S of this machine's clock. */
static bool is_silent(struct meeting_member *k, const char *folder)
{
    char path[PATH_MAX];
    struct err ignored;
    double written;
    json_t *o;

    if (file_join(path, sizeof path, folder, JOB_FOLDER_NODE, &ignored) < 0 ||
        json_read(&o, path, JOB_FOLDER_NODE_MAX, &ignored) < 0)
        return false;
    written = json_number_at(o, "written_s", 0);
    json_decref(o);
    if (k->heard_at == 0 || written != k->written_s) {
        k->written_s = written;
        k->heard_at = clock_now();
    }
    return clock_now() - k->heard_at > JOB_FOLDER_GONE_S;
}

bool member_is_gone(struct node_process *f, int r, bool by_state)
{
    struct meeting_member *k = &f->meet.members[r];
    enum job_folder_lock lock;
    char folder[PATH_MAX];
    struct err ignored;

    if (name_node(folder, f, r, &ignored) < 0)
        return false;
    lock = job_folder_lock(folder);
    if (lock == JOB_FOLDER_HELD)
        return false;
    return (lock == JOB_FOLDER_FREE && k->has_visible_lock) || (by_state && is_silent(k, folder));
}

int member_gone_of_step(struct node_process *f)
{
    const struct meeting_member *members = f->meet.members;

    if (f->rank != 0)
        return members[0].port == 0 && member_is_gone(f, 0, false) ? 0 : -1;
    for (int r = 1; r < f->n_nodes; r++)
        if (members[r].port == 0 && member_is_gone(f, r, false))
            return r;
    return -1;
}
