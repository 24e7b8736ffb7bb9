/* Handlers that serve a job's files, and blobs. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/etag.h"
#include "agent/jobs/artifact.h"
#include "agent/jobs/job_action.h"
#include "shared/base/file.h"

/* Hashing takes a second per 1.5 GB, during which the agent serves no other request. */
#define DIGEST_MAX_BYTES (256ull << 20)

/* Bytes that one request with `after` gets at most: a client that follows a file has a buffer of this
 * size. */
#define PART_BYTES (4ull << 20)

void api_events(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    uint64_t after;

    if (!t || !query_number(&after, rq, rs, "after", 0, 0))
        return;
    rs->is_ndjson = rq->wants_ndjson;
    rs->type = rs->is_ndjson ? "application/x-ndjson" : "text/event-stream";
    if (rq->method == METHOD_HEAD)
        return;
    rs->kind = RESPONSE_STREAM;
    rs->after = after;
    rs->holds = rq->scope != SCOPE_READ;
    memcpy(rs->id, t->job.spec.id, sizeof rs->id);
    rs->attempt = t->job.spec.attempt;
}

/* Which part of the bytes that a file has now is served. */
struct file_part {
    bool is_whole_lines;
    bool may_be_missing; /* a missing file is served as an empty one */
    bool is_bounded;     /* at most PART_BYTES */
    uint64_t after;
};

/* Takes `after` from the query; false: answered with 400. */
static bool take_after(struct file_part *p, const struct request *rq, struct api_response *rs)
{
    p->is_bounded = query_get(rq, "after") != NULL;
    return query_number(&p->after, rq, rs, "after", 0, 0);
}

/* Responds with a file as it is now. */
static void respond_file(const struct task *t, const char *name, const struct file_part *p,
                         const struct request *rq, struct api_response *rs)
{
    struct stat st;
    struct err e;
    int fd;
    uint64_t bytes;

    rs->type = artifact_type(name);
    if (artifact_open(&fd, &bytes, t->jobs->dir_fd, task_folder(t), name, &e) < 0) {
        if (e.code != ERR_NOT_FOUND || !p->may_be_missing)
            respond_error(rs, &e);
        return;
    }
    if (p->is_whole_lines)
        bytes = file_whole_lines(fd, bytes);
    rs->kind = RESPONSE_FILE;
    rs->fd = fd;
    rs->after = p->after < bytes ? p->after : bytes;
    rs->bytes = bytes - rs->after;
    if (p->is_bounded && rs->bytes > PART_BYTES)
        rs->bytes = PART_BYTES;
    if (fstat(fd, &st) == 0)
        etag_by_file(rq, rs, &st);
}

void api_logs(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = api_task(a, rq, rs);
    struct file_part p = {.may_be_missing = true};

    if (t && take_after(&p, rq, rs))
        respond_file(t, artifact_name(ARTIFACT_LOG), &p, rq, rs);
}

/* "train, eval, ..." */
static void list_kinds(char *out, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < N_RECORD_FILES && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%.*s", i > 0 ? ", " : "",
                              (int)strcspn(artifacts[i].name, "."), artifacts[i].name);
}

void api_records(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = api_task(a, rq, rs);
    const char *kind = query_get(rq, "kind"), *name;
    char wanted[QUERY_VALUE_MAX + 8], kinds[128];
    struct file_part p = {.is_whole_lines = true, .may_be_missing = true};

    if (!t || !take_after(&p, rq, rs))
        return;
    snprintf(wanted, sizeof wanted, "%s.csv", kind ? kind : "train");
    name = artifact_find(wanted);
    if (name) {
        respond_file(t, name, &p, rq, rs);
        return;
    }
    list_kinds(kinds, sizeof kinds);
    respond_problem(rs, BAD_REQUEST, NULL, "kind=%s: not one of %s", kind, kinds);
}

/* Hashing blocks the agent's one thread, so each file is hashed once, not once per request. */
static json_t *digest_json(struct file_digest *d, int fd)
{
    uint8_t digest[SHA256_BYTES];
    struct stat st;
    char path[64];
    uint64_t bytes;
    struct err e = {0};

    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size > DIGEST_MAX_BYTES)
        return json_null();
    if (d->hex[0] && d->bytes == (uint64_t)st.st_size && d->changed.tv_sec == st.st_mtim.tv_sec &&
        d->changed.tv_nsec == st.st_mtim.tv_nsec)
        return json_string(d->hex);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (sha256_file(digest, &bytes, path, &e) < 0)
        return json_null();
    *d = (struct file_digest){.bytes = bytes, .changed = st.st_mtim};
    hex_encode(d->hex, digest, sizeof digest);
    return json_string(d->hex);
}

void api_artifacts(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct task *t = api_task(a, rq, rs);
    json_t *list;
    bool complete;

    if (!t)
        return;
    list = json_array();
    complete = job_state_is_terminal(t->job.state);
    for (int i = 0; i < N_ARTIFACTS; i++) {
        uint64_t bytes;
        struct err e;
        int fd;

        if (artifact_open(&fd, &bytes, a->jobs.dir_fd, task_folder(t), artifacts[i].name, &e) < 0)
            continue;
        json_array_append_new(list, json_pack("{s:s,s:I,s:o,s:b}", "name", artifacts[i].name, "bytes",
                                              (json_int_t)bytes, "sha256",
                                              complete ? digest_json(&t->digests[i], fd) : json_null(),
                                              "complete", (int)complete));
        close(fd);
    }
    respond_json(rs, 200, json_pack("{s:o}", "artifacts", list));
    etag_by_body(rq, rs);
}

void api_artifact(struct agent *a, const struct request *rq, struct api_response *rs)
{
    const struct task *t = api_task(a, rq, rs);
    const char *name = artifact_find(rq->arg[1]);

    if (!t)
        return;
    if (!name)
        respond_problem(rs, NOT_FOUND, NULL, "a job has no artifact of this name");
    else
        respond_file(t, name, &(struct file_part){0}, rq, rs);
}

/* Sets only the length: blobs have no GET, and a HEAD sends no body. */
void api_blob_head(struct agent *a, const struct request *rq, struct api_response *rs)
{
    int64_t size = blob_size(&a->jobs.blobs, rq->arg[0]);

    rs->type = "application/octet-stream";
    if (size < 0) {
        respond_problem(rs, NOT_FOUND, NULL, "no blob %s on this agent", rq->arg[0]);
        return;
    }
    rs->kind = RESPONSE_FILE;
    rs->fd = -1;
    rs->bytes = (uint64_t)size;
}

/* Called before the body is read, as a blob that is stored need not be sent. The upload itself is in
 * agent/http/ and blob.c. */
void api_blob_put(struct agent *a, const struct request *rq, struct api_response *rs)
{
    rs->status = blob_size(&a->jobs.blobs, rq->arg[0]) >= 0 ? 200 : 0;
}
