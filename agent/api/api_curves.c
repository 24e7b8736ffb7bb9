/* GET /v1/jobs/{id}/metrics: a job's records as columns for plots. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/curve.h"
#include "agent/jobs/artifact.h"

/* Writes what the answer depends on: the query, and the file as it is now. */
static void identify_answer(char *out, size_t size, const struct series_query *q, const struct task *t,
                            int fd)
{
    const char *const texts[] = {q->file, q->names, q->x, q->points, q->from, q->to};
    struct stat st = {0};
    int n;

    if (fd >= 0)
        fstat(fd, &st);
    n = snprintf(out, size, "%s %d %llu %llu %lld.%09ld", t->job.spec.id, t->job.spec.attempt,
                 (unsigned long long)st.st_ino, (unsigned long long)st.st_size, (long long)st.st_mtim.tv_sec,
                 st.st_mtim.tv_nsec);
    for (size_t i = 0; i < sizeof texts / sizeof *texts && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "|%s", texts[i] ? texts[i] : "");
}

void api_curves(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = api_task(a, rq, rs);
    const struct series_query q = {.file = query_get(rq, "file"),
                                   .names = query_get(rq, "names"),
                                   .x = query_get(rq, "x"),
                                   .points = query_get(rq, "points"),
                                   .from = query_get(rq, "from"),
                                   .to = query_get(rq, "to")};
    char more[TARGET_MAX + 256];
    struct series_request parsed;
    struct err e;
    uint64_t bytes;
    int fd = -1;

    if (!t)
        return;
    if (series_request_set(&parsed, &q, &e) < 0) {
        respond_problem(rs, BAD_REQUEST, e.hint, "%s", e.text);
        return;
    }
    if (artifact_open(&fd, &bytes, a->jobs.dir_fd, task_folder(t),
                      artifact_name((enum artifact_id)parsed.file), &e) < 0) {
        fd = -1;
        if (e.code != ERR_NOT_FOUND) {
            respond_error(rs, &e);
            return;
        }
    }
    identify_answer(more, sizeof more, &q, t, fd);
    curve_ask(&a->curves, &q, fd, more, rq, rs);
}
