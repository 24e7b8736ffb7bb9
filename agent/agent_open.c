#include "agent/agent_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/jobs/job_action.h"
#include "agent/jobs/jobs_open.h"
#include "agent/jobs/retention.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/private.h"

/* One agent per folder, as two would write to the same journals. */
static int lock_folder(struct agent *a, struct err *e)
{
    char path[PATH_MAX], pid[16] = "";
    ssize_t n;

    if (file_join(path, sizeof path, a->opt.dir, "lock", e) < 0)
        return e->code;
    a->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (a->lock_fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (flock(a->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        n = errno == EWOULDBLOCK ? pread(a->lock_fd, pid, sizeof pid - 1, 0) : -1;
        if (n < 0)
            return err_errno(e, ERR_IO, "%s", path);
        err_set(e, ERR_CONFLICT, "another agent (process %.*s) uses %s", (int)strcspn(pid, "\n"), pid,
                a->opt.dir);
        return err_hint(e, "Stop it, or choose another folder with --dir.");
    }
    snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(a->lock_fd, 0) < 0 || pwrite(a->lock_fd, pid, strlen(pid), 0) < 0)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

static int load_id(struct agent *a, struct err *e)
{
    char path[PATH_MAX], *text;
    uint8_t raw[6];
    size_t len;
    int rc;

    if (file_join(path, sizeof path, a->opt.dir, "id", e) < 0)
        return e->code;
    rc = file_read(&text, &len, path, 64, e);
    if (rc == ERR_NOT_FOUND) {
        memcpy(a->id, "a-", 2);
        random_bytes(raw, sizeof raw);
        hex_encode(a->id + 2, raw, sizeof raw);
        return file_write(path, a->id, strlen(a->id), 0600, e);
    }
    if (rc < 0)
        return rc;
    snprintf(a->id, sizeof a->id, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    return 0;
}

/* Runners start in folders of their own, where a relative path would resolve elsewhere. */
static int make_absolute(struct agent *a, struct err *e)
{
    char path[PATH_MAX];

    if (!realpath(a->opt.dir, path))
        return err_errno(e, ERR_IO, "%s", a->opt.dir);
    if (strlen(path) >= sizeof a->opt.dir)
        return err_set(e, ERR_CONFIG, "%s: path too long", path);
    memcpy(a->opt.dir, path, strlen(path) + 1);
    return 0;
}

int agent_open(struct agent *a, const struct agent_options *opt, struct err *e)
{
    const struct inquiry inquiry = {.loop = &a->loop, .n_changes = &a->jobs.n_changes};

    a->opt = *opt;
    a->lock_fd = a->jobs.dir_fd = -1;
    a->jobs.opt = &a->opt;
    a->jobs.loop = a->jobs.notify.loop = &a->loop;
    a->jobs.address = a->address;
    a->jobs.trainer_about = (struct trainer_about){.inquiry = inquiry, .python = a->jobs.trainers.python};
    a->jobs.runner_about = (struct runner_about){.inquiry = inquiry, .exe = a->jobs.runner_exe};
    a->jobs.is_other_child = curve_is_own;
    a->jobs.other_children = &a->curves;
    a->curves = (struct curves){
        .loop = &a->loop, .exe = a->exe, .address = a->address, .n_changes = &a->jobs.n_changes};
    a->since_wall = clock_wall();
    a->since = clock_now();
    if (file_mkdirs(opt->dir, 0700, e) < 0 || make_absolute(a, e) < 0 || private_folder(a->opt.dir, e) < 0 ||
        lock_folder(a, e) < 0)
        goto fail;
    file_remove_temporary(a->opt.dir); /* no other process writes there, as this agent has the lock */
    if (load_id(a, e) < 0 || loop_open(&a->loop, e) < 0 || auth_open(&a->auth, &a->opt, e) < 0 ||
        jobs_open(&a->jobs, e) < 0)
        goto fail;
    return 0;
fail:
    agent_close(a);
    return e->code;
}

int agent_restore(struct agent *a, struct err *e)
{
    if (task_read_all(&a->jobs, e) < 0)
        return e->code;
    job_restore_all(&a->jobs);
    retention_trim(&a->jobs);
    return 0;
}

void agent_close(struct agent *a)
{
    static_document_clear(&a->openapi);
    static_document_clear(&a->page);
    jobs_close(&a->jobs);
    loop_close(&a->loop);
    auth_close(&a->auth);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
}

/* An agent that listens on all addresses is reached by its machine's name. */
int agent_invite(struct agent *a, struct err *e)
{
    char code[BASE64_TEXT], name[256], path[PATH_MAX], line[512];
    struct iovec part;
    bool is_any = strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0;

    if (is_any && gethostname(name, sizeof name) == 0)
        snprintf(line, sizeof line, "%.*s:%d#%s", (int)sizeof name, name, a->opt.port, a->auth.identity.pin);
    else
        snprintf(line, sizeof line, "%s#%s", a->address, a->auth.identity.pin);
    part = (struct iovec){.iov_base = line, .iov_len = strlen(line)};
    if (file_join(path, sizeof path, a->opt.dir, "address", e) < 0 ||
        file_write_parts(path, &part, 1, 0600, false, e) < 0) /* not synced: each start writes it anew */
        return e->code;
    if (a->allows_plain) /* mostly on loopback, where the user needs no invitation */
        return 0;
    if (members_invite(&a->auth.members, SCOPE_SUBMIT, INVITATION_S, code, e) < 0)
        return e->code;
    printf("job_submit join '%s#%s'\n", line, code);
    fflush(stdout);
    explicit_bzero(code, sizeof code);
    return 0;
}
