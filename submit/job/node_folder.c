#include "submit/job/node_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/job_state.h"
#include "shared/records/artifacts.h"
#include "submit/files/untrusted_folder.h"

enum {
    PART_BYTES = 4 << 20, /* as an agent sends for one `after` */
    COPIED_AT_ONCE = 1 << 20
};

#define JOBS_FOLDER "jobs" /* of a node */

enum { N_CHECKPOINTS = 2 };
static const enum artifact_id checkpoints[N_CHECKPOINTS] = {ARTIFACT_CHECKPOINT,
                                                            ARTIFACT_PREVIOUS_CHECKPOINT};

static const char events_name[] = "journal.jsonl", event_start[] = "{\"seq\":";

/* The node's folder. */
static int name_folder(char path[PATH_MAX], const struct node_folder *f, struct err *e)
{
    char name[JOB_FOLDER_NODE_NAME];

    return file_join(path, PATH_MAX, f->job_folder, job_folder_node_name(name, f->node), e);
}

static json_t *not_started(const char *job)
{
    return json_pack("{s:s, s:s, s:s}", "id", job, "state", job_state_name(JOB_PENDING), "message",
                     "its process has not started yet");
}

/* "ID", of a later attempt "ID.ATTEMPT" */
static void name_attempt(char out[80], const char *job, int attempt)
{
    if (attempt > 1)
        snprintf(out, 80, "%.48s.%d", job, attempt);
    else
        snprintf(out, 80, "%.48s", job);
}

/* Opens the node's folder. ERR_NOT_FOUND: there is none, or it is a link. */
static int open_node(int *dir, const struct node_folder *f, struct err *e)
{
    char name[JOB_FOLDER_NODE_NAME];
    int top, rc;

    if (untrusted_open(&top, f->job_folder, e) < 0)
        return e->code;
    rc = untrusted_enter(dir, top, job_folder_node_name(name, f->node), e);
    close(top);
    return rc;
}

/* Reads the state of the attempt that is read. */
static int read_document(json_t **out, struct node_folder *f, const char *job, struct err *e)
{
    char attempt[80], name[128] = JOB_FOLDER_NODE;
    struct stat st;
    int dir, rc;

    if (f->only_attempt > 0) {
        name_attempt(attempt, job, f->only_attempt);
        snprintf(name, sizeof name, JOBS_FOLDER "/%s/" JOB_FOLDER_NODE, attempt);
    }
    if (open_node(&dir, f, e) < 0)
        return e->code;
    rc = untrusted_json(out, dir, name, JOB_FOLDER_NODE_MAX, e);
    if (rc == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        f->process.changed_at = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
    close(dir);
    return rc;
}

static void take_state(struct node_folder *f, const json_t *state)
{
    const json_t *resume = json_object_get(state, "resume");
    double number = json_number_at(state, "attempt", 0);
    int attempt = number >= 1 && number <= JOB_FOLDER_ATTEMPTS_MAX ? (int)number : 0;

    snprintf(f->host, sizeof f->host, "%s", json_text_at(state, "host"));
    f->resume = (struct node_resume){.is_set = json_is_object(resume),
                                     .epoch = json_integer_value(json_object_get(resume, "epoch")),
                                     .step = json_integer_value(json_object_get(resume, "step")),
                                     .round = json_integer_value(json_object_get(resume, "round"))};
    if (f->attempt != attempt) {
        f->attempt = attempt;
        f->n_read = f->last_seq = 0;
    }
}

/* *state: the node's state as GET /v1/jobs/ID has it, with "host", "boot", "process", "written_s" and
 * "resume". */
static int read_state(json_t **state, struct node_folder *f, const char *job, struct err *e)
{
    char folder[PATH_MAX];
    enum job_state now;
    int rc;

    if (name_folder(folder, f, e) < 0)
        return e->code;
    rc = read_document(state, f, job, e);
    f->is_running = rc == 0 && !folder_process_is_gone(&f->process, folder, *state);
    f->has_vanished = false;
    if (rc == ERR_NOT_FOUND) {
        *state = not_started(job);
        return *state ? 0 : err_set(e, ERR_NOMEM, "no memory for a node's state");
    }
    if (rc < 0)
        return err_at(e, "%s", folder);
    take_state(f, *state);
    f->has_vanished = job_state_parse(&now, json_text_at(*state, "state")) && !job_state_is_terminal(now) &&
                      now != JOB_PENDING && !f->is_running;
    if (f->has_vanished)
        folder_process_note_gone(*state);
    return 0;
}

/* Opens the folder of an attempt in that of the node. ERR_NOT_FOUND: the node has none of it. */
static int enter_attempt(int *dir, int node, const char *job, int attempt, struct err *e)
{
    char name[80];
    int jobs, rc;

    if (untrusted_enter(&jobs, node, JOBS_FOLDER, e) < 0)
        return e->code;
    name_attempt(name, job, attempt);
    rc = untrusted_enter(dir, jobs, name, e);
    close(jobs);
    return rc;
}

/* The folder of the attempt that is read. ERR_NOT_FOUND: the node has none yet. */
static int open_attempt(int *dir, struct node_folder *f, const char *job, struct err *e)
{
    json_t *state;
    int node, rc;

    if (read_state(&state, f, job, e) < 0)
        return e->code;
    json_decref(state);
    if (open_node(&node, f, e) < 0)
        return e->code;
    rc = enter_attempt(dir, node, job, f->only_attempt > 0 ? f->only_attempt : f->attempt, e);
    close(node);
    return rc;
}

/* The n-th checkpoint, from the latest one on: an attempt that was killed before its first one had gone on
 * from that of an earlier attempt. */
static int open_checkpoint(int *fd, uint64_t *bytes, const struct node_folder *f, const char *job, int n,
                           struct err *e)
{
    int node, dir;

    if (open_node(&node, f, e) < 0)
        return e->code;
    for (int attempt = f->attempt; attempt > 0; attempt--) {
        if (enter_attempt(&dir, node, job, attempt, e) < 0)
            continue;
        for (int i = 0; i < N_CHECKPOINTS; i++) {
            char path[128];

            snprintf(path, sizeof path, "run/%s", artifact_name(checkpoints[i]));
            if (untrusted_file(fd, bytes, dir, path, e) < 0)
                continue;
            if (n-- == 0) {
                close(dir);
                close(node);
                return 0;
            }
            close(*fd);
        }
        close(dir);
    }
    close(node);
    return err_set(e, ERR_NOT_FOUND, "the node has no such checkpoint");
}

/* A file that the runner has left, or one of the job's packages; `dir`: of the attempt. */
static int open_artifact(int *fd, uint64_t *bytes, const struct node_folder *f, const char *job, int dir,
                         const char *name, struct err *e)
{
    char path[128];

    for (int i = 0; f->only_attempt == 0 && i < N_CHECKPOINTS; i++)
        if (strcmp(name, artifact_name(checkpoints[i])) == 0)
            return open_checkpoint(fd, bytes, f, job, i, e);
    snprintf(path, sizeof path, "run/%.100s", name);
    if (untrusted_file(fd, bytes, dir, path, e) == 0)
        return 0;
    snprintf(path, sizeof path, "packages/%.100s", name);
    return untrusted_file(fd, bytes, dir, path, e);
}

/* Takes the text as the answer. */
static int reply_text(struct http_request *r, char *take_text, struct err *e)
{
    if (!take_text)
        return err_set(e, ERR_NOMEM, "no memory for an answer");
    r->reply = take_text;
    r->reply_len = strlen(take_text);
    r->status = 200;
    return 0;
}

static int reply_json(struct http_request *r, json_t *take_doc, struct err *e)
{
    char *text = take_doc ? json_line(take_doc) : NULL;

    json_decref(take_doc);
    return reply_text(r, text, e);
}

/* Answers with `bytes` bytes of the file from `from` on, at most r->max_reply. */
static int reply_file(struct http_request *r, int fd, uint64_t from, uint64_t bytes, struct err *e)
{
    size_t room = r->reply_fd > 0 ? COPIED_AT_ONCE : (size_t)bytes;
    char *part;
    uint64_t n_done = 0;
    ssize_t n = 1;

    if (bytes > r->max_reply) {
        err_set(&r->err, ERR_PROTOCOL,
                "%s: a file of %" PRIu64 " bytes, and at most %" PRIu64 " are expected", r->peer, bytes,
                r->max_reply);
        return 0;
    }
    part = malloc(room + 1);
    if (!part)
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of a file", room);
    while (n_done < bytes && r->err.code == 0) {
        size_t want = bytes - n_done < room ? (size_t)(bytes - n_done) : room;

        n = pread(fd, r->reply_fd > 0 ? part : part + n_done, want, (off_t)(from + n_done));
        if (n <= 0)
            break;
        if (r->reply_fd > 0)
            file_write_all(r->reply_fd, part, (size_t)n, "a temporary file", &r->err);
        n_done += (uint64_t)n;
    }
    if (n < 0)
        err_errno(&r->err, ERR_IO, "%s", r->peer);
    r->received = n_done;
    r->status = 200;
    if (r->reply_fd > 0) {
        free(part);
        return 0;
    }
    part[n_done] = '\0';
    r->reply = part;
    r->reply_len = (size_t)n_done;
    return 0;
}

static uint64_t after_of(const char *query)
{
    const char *at = query ? strstr(query, "after=") : NULL;

    return at ? strtoull(at + strlen("after="), NULL, 10) : 0;
}

/* Answers with a file of records or a log; one that is missing is empty. */
static int reply_part(struct node_folder *f, struct http_request *r, const char *job, const char *name,
                      const char *query, bool is_whole_lines, struct err *e)
{
    uint64_t bytes, from = after_of(query);
    int dir, fd, rc;

    if (open_attempt(&dir, f, job, e) < 0)
        return e->code == ERR_NOT_FOUND ? reply_text(r, strdup(""), e) : e->code;
    rc = open_artifact(&fd, &bytes, f, job, dir, name, e);
    close(dir);
    if (rc < 0)
        return rc == ERR_NOT_FOUND ? reply_text(r, strdup(""), e) : rc;
    if (is_whole_lines)
        bytes = file_whole_lines(fd, bytes);
    from = from < bytes ? from : bytes;
    bytes -= from;
    if (query && strstr(query, "after=") && bytes > PART_BYTES)
        bytes = PART_BYTES;
    rc = reply_file(r, fd, from, bytes, e);
    close(fd);
    return rc;
}

static int reply_records(struct node_folder *f, struct http_request *r, const char *job, const char *query,
                         struct err *e)
{
    const char *kind = query ? strstr(query, "kind=") : NULL;
    char name[64];

    snprintf(name, sizeof name, "%.*s.csv", kind ? (int)strcspn(kind + 5, "&") : 5,
             kind ? kind + 5 : "train");
    return reply_part(f, r, job, name, query, true, e);
}

static json_t *digest_json(int fd)
{
    char path[FILE_FD_PATH], hex[SHA256_HEX];
    uint8_t digest[SHA256_BYTES];
    struct err ignored;
    uint64_t bytes;

    file_fd_path(path, fd);
    if (sha256_file(digest, &bytes, path, &ignored) < 0)
        return json_null();
    hex_encode(hex, digest, sizeof digest);
    return json_string(hex);
}

static int reply_list(struct node_folder *f, struct http_request *r, const char *job, struct err *e)
{
    json_t *list = json_array(), *state;
    enum job_state now = JOB_PENDING;
    int dir;

    if (read_state(&state, f, job, e) == 0) {
        job_state_parse(&now, json_text_at(state, "state"));
        json_decref(state);
    }
    if (open_attempt(&dir, f, job, e) == 0) {
        for (int i = 0; i < N_ARTIFACTS; i++) {
            bool is_complete = job_state_is_terminal(now);
            uint64_t bytes;
            int fd;

            if (open_artifact(&fd, &bytes, f, job, dir, artifacts[i].name, e) < 0)
                continue;
            json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:b}", "name", artifacts[i].name, "bytes",
                                                  (json_int_t)bytes, "sha256",
                                                  is_complete ? digest_json(fd) : json_null(), "complete",
                                                  (int)is_complete));
            close(fd);
        }
        close(dir);
    }
    *e = (struct err){0};
    return reply_json(r, json_pack("{s:o}", "artifacts", list), e);
}

static int reply_artifact(struct node_folder *f, struct http_request *r, const char *job, const char *name,
                          struct err *e)
{
    uint64_t bytes;
    int dir, fd, rc;

    if (open_attempt(&dir, f, job, e) < 0)
        return e->code;
    rc = open_artifact(&fd, &bytes, f, job, dir, name, e);
    close(dir);
    if (rc < 0)
        return rc;
    rc = reply_file(r, fd, 0, bytes, e);
    close(fd);
    return rc;
}

/* The events of the journal; its other lines are notes of the process itself. */
static void pass_events(struct node_folder *f, char *text, size_t len,
                        void (*line)(void *, const char *, size_t), void *arg)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;

        if (n > sizeof event_start && memcmp(text + at, event_start, sizeof event_start - 1) == 0) {
            f->last_seq = strtoull(text + at + sizeof event_start - 1, NULL, 10);
            line(arg, text + at, n);
        }
        at += n + 1;
    }
}

/* Passes on the end of a node whose process was killed, which is in no journal. */
static void pass_death(struct node_folder *f, const json_t *state, struct http_request *r)
{
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:s}", "seq", (json_int_t)(f->last_seq + 1), "event", "end",
                          "state", json_text_at(state, "state"), "reason", json_text_at(state, "reason"),
                          "message", json_text_at(state, "message"));
    char *text = o ? json_dump(o, JSON_COMPACT) : NULL;

    if (text)
        r->on_line(r->arg, text, strlen(text));
    free(text);
    json_decref(o);
}

static void append_line(void *arg, const char *line, size_t len)
{
    FILE *out = arg;

    fwrite(line, 1, len, out);
    fputc('\n', out);
}

/* All events as the answer, for the records of the job. */
static int reply_all_events(struct node_folder *f, struct http_request *r, char *text, size_t len,
                            struct err *e)
{
    char *out = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&out, &size);

    if (!lines)
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of events", len);
    pass_events(f, text, len, append_line, lines);
    if (fclose(lines) != 0) {
        free(out);
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of events", len);
    }
    if (r->reply_fd > 0) {
        file_write_all(r->reply_fd, out, size, "a temporary file", &r->err);
        free(out);
        r->status = 200;
        return 0;
    }
    return reply_text(r, out, e);
}

/* Reads the journal from `from` on, at most `most` bytes, whole lines of them; of a longer line all that. */
static int read_journal(char **text, size_t *len, int dir, uint64_t from, uint64_t most, struct err *e)
{
    const char *end;
    uint64_t bytes;
    ssize_t n;
    int fd;

    *text = NULL;
    *len = 0;
    if (untrusted_file(&fd, &bytes, dir, events_name, e) < 0)
        return e->code;
    bytes = bytes > from ? bytes - from : 0;
    bytes = bytes < most ? bytes : most;
    *text = malloc(bytes + 1);
    n = *text ? pread(fd, *text, bytes, (off_t)from) : 0;
    close(fd);
    if (!*text)
        return err_set(e, ERR_NOMEM, "no memory for %" PRIu64 " bytes of events", bytes);
    end = n > 0 ? memrchr(*text, '\n', (size_t)n) : NULL;
    *len = end ? (size_t)(end - *text) + 1 : bytes < most ? 0 : (size_t)n;
    return 0;
}

/* Passes on the events that are new. */
static int pass_new_events(struct node_folder *f, struct http_request *r, int dir, struct err *e)
{
    const uint64_t most = artifacts[ARTIFACT_EVENTS].max;
    size_t len = 1;

    while (len > 0 && f->n_read < most) {
        uint64_t left = most - f->n_read;
        char *text;

        if (read_journal(&text, &len, dir, f->n_read, left < PART_BYTES ? left : PART_BYTES, e) < 0)
            return e->code;
        pass_events(f, text, len, r->on_line, r->arg);
        f->n_read += len;
        free(text);
    }
    return 0;
}

static int reply_events(struct node_folder *f, struct http_request *r, const char *job, struct err *e)
{
    json_t *state;
    char *text = NULL;
    size_t len = 0;
    int dir, rc;

    if (read_state(&state, f, job, e) < 0)
        return e->code;
    rc = open_attempt(&dir, f, job, e);
    if (rc == 0) {
        rc = r->on_line ? pass_new_events(f, r, dir, e) : read_journal(&text, &len, dir, 0, r->max_reply, e);
        close(dir);
    }
    if (rc == ERR_NOT_FOUND)
        rc = 0;
    if (rc == 0 && r->on_line) {
        if (strcmp(json_text_at(state, "state"), job_state_name(JOB_FAILED)) == 0)
            pass_death(f, state, r); /* ignored if the journal has had an end */
        r->status = 200;
    } else if (rc == 0) {
        rc = reply_all_events(f, r, text, len, e);
    }
    free(text);
    json_decref(state);
    return rc;
}

/* Each process of the job reads the file and ends its node. */
static int cancel(const struct node_folder *f, struct http_request *r, struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, f->job_folder, JOB_FOLDER_CANCEL, e) < 0 ||
        file_write(path, r->body, r->body_len, 0600, e) < 0) {
        r->err = *e;
        return 0;
    }
    return reply_json(r, json_object(), e);
}

static int refuse(struct http_request *r, const char *path, struct err *e)
{
    int rc = reply_json(r,
                        json_pack("{s:s, s:o}", "code", "NOT_FOUND", "detail",
                                  json_sprintf("a job folder does not answer %.100s", path)),
                        e);

    r->status = 404;
    return rc;
}

static bool begins(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

static int answer(struct node_folder *f, struct http_request *r, const char *job, const char *rest,
                  struct err *e)
{
    const char *query = strchr(rest, '?');
    json_t *state;

    if (strcmp(rest, "/cancel") == 0)
        return cancel(f, r, e);
    if (strcmp(r->method, "GET") != 0)
        return refuse(r, rest, e);
    if (!rest[0])
        return read_state(&state, f, job, e) < 0 ? e->code : reply_json(r, state, e);
    if (strcmp(rest, "/artifacts") == 0)
        return reply_list(f, r, job, e);
    if (begins(rest, "/artifacts/"))
        return reply_artifact(f, r, job, rest + strlen("/artifacts/"), e);
    if (begins(rest, "/logs"))
        return reply_part(f, r, job, artifact_name(ARTIFACT_LOG), query, false, e);
    if (begins(rest, "/records.csv"))
        return reply_records(f, r, job, query, e);
    if (begins(rest, "/events"))
        return reply_events(f, r, job, e);
    return refuse(r, rest, e);
}

int node_folder_answer(struct node_folder *f, struct http_request *r, const char *job, const char *path,
                       struct err *e)
{
    static const char jobs[] = "/v1/jobs/";
    const size_t head = sizeof jobs - 1 + strlen(job);
    struct err why = {0};

    if (strncmp(path, jobs, sizeof jobs - 1) != 0 || strlen(path) < head)
        return refuse(r, path, e);
    if (answer(f, r, job, path + head, &why) == 0)
        return 0;
    if (why.code == ERR_NOMEM) {
        *e = why;
        return e->code;
    }
    r->err = why;
    return 0;
}
