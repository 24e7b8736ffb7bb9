#include "agent/jobs/jobs_open.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/access/data_folders.h"
#include "agent/base/log.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/retention.h"
#include "shared/base/file.h"

enum { MEMORY_PERCENT = 80 };

static int set_codec_rules(struct jobs *jobs, struct err *e)
{
    struct codec_rules *r = &jobs->codecs;

    r->policy = (enum codec_policy)jobs->opt->codecs;
    r->cc = "cc";
    memcpy(r->list, jobs->opt->codec_list, sizeof r->list);
    if (!r->list[0] && file_join(r->list, sizeof r->list, jobs->opt->dir, "codecs.allow", e) < 0)
        return e->code;
    return elf_here(&r->here, e);
}

/* Returns the bytes that jobs may use. The rest is for the system and for other agents on the machine. */
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

/* A damaged list of removed jobs does not keep the agent from starting: only reasons are lost. */
static int open_retention(struct jobs *jobs, struct err *e)
{
    if (retention_open(jobs, e) == 0)
        return 0;
    if (e->code != ERR_CONFIG)
        return e->code;
    log_line(LOG_LEVEL_WARN, "agent", NULL, "jobs: the reasons why jobs were removed are lost: %s", e->text);
    return 0;
}

static int open_blobs(struct jobs *jobs, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, jobs->opt->dir, "blobs", e) < 0)
        return e->code;
    return blob_store_open(&jobs->blobs, path, (uint64_t)jobs->opt->blob_limit_gib << 30, e);
}

int jobs_open(struct jobs *jobs, struct err *e)
{
    jobs->job_memory = job_memory(jobs->opt);
    jobs->job_files = job_files();
    jobs->job_disk = (uint64_t)jobs->opt->job_disk_gib << 30;
    jobs->turns.aging_s = jobs->opt->aging_s;
    process_boot(jobs->boot);
    if (job_read_draining(jobs, e) < 0 || set_codec_rules(jobs, e) < 0 ||
        trainer_rules_set(&jobs->trainers, jobs->opt, e) < 0 ||
        data_folders_set(jobs->data_folders, jobs->opt->data_folders, e) < 0)
        return e->code;
    jobs->dir_fd = open(jobs->opt->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (jobs->dir_fd < 0)
        return err_errno(e, ERR_IO, "%s", jobs->opt->dir);
    return open_retention(jobs, e) < 0 ? e->code : open_blobs(jobs, e);
}

void jobs_close(struct jobs *jobs)
{
    task_close_all(jobs);
    blob_store_close(&jobs->blobs);
    trainer_about_clear(&jobs->trainer_about);
    runner_about_clear(&jobs->runner_about);
    retention_close(jobs);
    if (jobs->dir_fd >= 0)
        close(jobs->dir_fd);
    jobs->dir_fd = -1;
}
