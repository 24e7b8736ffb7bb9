#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/log.h"
#include "agent/jobs/drain.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/private.h"

enum { MEMORY_PERCENT = 80 };

/* One agent per folder: two would write to the same journals. */
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

static int set_codec_rules(struct agent *a, struct err *e)
{
    struct codec_rules *r = &a->codecs;

    r->policy = (enum codec_policy)a->opt.codecs;
    r->cc = "cc";
    memcpy(r->list, a->opt.codec_list, sizeof r->list);
    if (!r->list[0] && file_join(r->list, sizeof r->list, a->opt.dir, "codecs.allow", e) < 0)
        return e->code;
    return elf_here(&r->here, e);
}

/* The rest is for the system and for other agents on the machine. */
static uint64_t job_memory(const struct agent_options *o)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    return o->job_memory_gib < 0 ? all / 100 * MEMORY_PERCENT : (uint64_t)o->job_memory_gib << 30;
}

static uint64_t job_files(void)
{
    struct rlimit files = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_max;
}

/* A token file is checked with the folders in which it is. */
static int load_token(struct token *t, const char *file, const char *name, enum scope scope, bool may_make,
                      struct err *e)
{
    char whole[PATH_MAX], *slash;

    *t = (struct token){.name = name, .scope = scope};
    snprintf(t->path, sizeof t->path, "%s", file);
    if (token_load(t, may_make, e) < 0)
        return e->code;
    if (!realpath(file, whole))
        return err_errno(e, ERR_IO, "%s", file);
    slash = strrchr(whole, '/');
    slash[slash == whole] = '\0';
    return private_folder(whole, e) < 0 ? err_at(e, "token file %s", file) : 0;
}

static int load_tokens(struct agent *a, struct err *e)
{
    struct agent_options *o = &a->opt;
    bool may_make = !o->token_file[0];

    if (may_make && file_join(o->token_file, sizeof o->token_file, o->dir, "token", e) < 0)
        return e->code;
    if (!o->no_token && load_token(&a->token, o->token_file, "owner", SCOPE_ADMIN, may_make, e) < 0)
        return e->code;
    return o->cluster_token[0] &&
                   load_token(&a->cluster, o->cluster_token, "cluster", SCOPE_SUBMIT, false, e) < 0
               ? e->code
               : 0;
}

static int load_identity(struct agent *a, struct err *e)
{
    const struct agent_options *o = &a->opt;
    int rc = o->tls_cert[0] ? identity_read(&a->identity, o->tls_cert, o->tls_key, e)
                            : identity_load(&a->identity, o->dir, e);

    return rc == 0 && o->client_ca[0] ? identity_read_client_ca(&a->identity, o->client_ca, e) : rc;
}

void agent_refresh_tokens(struct agent *a)
{
    struct err e;

    if (token_refresh(&a->token, &e) < 0 || token_refresh(&a->cluster, &e) < 0 ||
        members_refresh(&a->members, &e) < 0)
        log_line(LOG_LEVEL_ERROR, "agent", NULL, "tokens: %s", e.text);
}

/* What a damaged list loses is an explanation: no reason to keep the agent from its jobs. */
static int load_forgotten(struct agent *a, struct err *e)
{
    if (forgotten_load(&a->forgotten, a->opt.dir, e) == 0)
        return 0;
    if (e->code != ERR_CONFIG)
        return e->code;
    log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: removed jobs are not explained any more: %s", e->text);
    return 0;
}

int agent_open(struct agent *a, const struct agent_options *opt, struct err *e)
{
    char path[PATH_MAX];

    *a = (struct agent){.opt = *opt, .notify.loop = &a->loop, .dir_fd = -1, .lock_fd = -1};
    a->since_wall = clock_wall();
    a->since = clock_now();
    process_boot(a->boot);
    a->job_memory = job_memory(opt);
    a->job_files = job_files();
    a->job_disk = (uint64_t)opt->job_disk_gib << 30;
    if (file_mkdirs(opt->dir, 0700, e) < 0 || make_absolute(a, e) < 0 || private_folder(a->opt.dir, e) < 0 ||
        lock_folder(a, e) < 0)
        goto fail;
    file_sweep(a->opt.dir); /* nobody else writes there, as this agent has the lock */
    if (load_id(a, e) < 0 || drain_load(a, e) < 0 || set_codec_rules(a, e) < 0 || loop_open(&a->loop, e) < 0)
        goto fail;
    a->dir_fd = open(a->opt.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->dir_fd < 0) {
        err_errno(e, ERR_IO, "%s", opt->dir);
        goto fail;
    }
    if (load_tokens(a, e) < 0)
        goto fail;
    if (load_forgotten(a, e) < 0 || members_open(&a->members, a->opt.dir, e) < 0 || load_identity(a, e) < 0)
        goto fail;
    if (file_join(path, sizeof path, a->opt.dir, "blobs", e) < 0 ||
        blob_store_open(&a->blobs, path, (uint64_t)opt->blob_limit_gib << 30, e) < 0)
        goto fail;
    return 0;
fail:
    agent_close(a);
    return e->code;
}

void agent_close(struct agent *a)
{
    lasting_clear(&a->openapi);
    lasting_clear(&a->page);
    task_close_all(a);
    blob_store_close(&a->blobs);
    loop_close(&a->loop);
    identity_clear(&a->identity);
    members_close(&a->members);
    forgotten_clear(&a->forgotten);
    if (a->dir_fd >= 0)
        close(a->dir_fd);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    *a = (struct agent){.dir_fd = -1, .lock_fd = -1};
}

/* An agent that listens on all addresses is reached by its machine's name. */
int agent_invite(struct agent *a, struct err *e)
{
    char code[BASE64_TEXT], name[256], path[PATH_MAX], line[512];
    bool is_any = strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0;

    if (is_any && gethostname(name, sizeof name) == 0)
        snprintf(line, sizeof line, "%.*s:%d#%s", (int)sizeof name, name, a->opt.port, a->identity.pin);
    else
        snprintf(line, sizeof line, "%s#%s", a->address, a->identity.pin);
    if (file_join(path, sizeof path, a->opt.dir, "address", e) < 0 ||
        file_write(path, line, strlen(line), 0600, e) < 0)
        return e->code;
    if (a->allows_plain) /* mostly for its own user only, who needs none */
        return 0;
    if (members_invite(&a->members, SCOPE_SUBMIT, INVITATION_S, code, e) < 0)
        return e->code;
    printf("job_submit join '%s#%s'\n", line, code);
    fflush(stdout);
    explicit_bzero(code, sizeof code);
    return 0;
}

uint64_t agent_disk_free(const struct agent *a)
{
    struct statvfs v;
    const uint64_t reserve = ((uint64_t)DISK_RESERVE_MIB << 20) + a->blobs.promised;
    uint64_t free_bytes;

    if (fstatvfs(a->dir_fd, &v) < 0)
        return 0;
    free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return free_bytes > reserve ? free_bytes - reserve : 0;
}
