#include "submit/browse/page_routes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page/page.h"
#include "shared/base/json.h"
#include "submit/browse/documents.h"
#include "submit/browse/page_changes.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/compare.h"

enum { COMPARED = 100 };

static const char type_json[] = "application/json";
static const char only_changes[] = "only a change of a job, as /cancel, takes POST";

static const struct {
    int status;
    const char *title;
} titles[] = {{400, "Bad request"},  {403, "Refused"},  {404, "Not found"},    {405, "Wrong method"},
              {413, "Too large"},    {409, "Conflict"}, {422, "Damaged file"}, {500, "Internal"},
              {502, "Agent failed"}, {503, "Not now"},  {504, "Timed out"}};

static void set_body(struct page_response *out, int status, const char *type, char *body)
{
    out->status = body ? status : 503;
    out->type = type;
    out->body = body;
    out->len = body ? strlen(body) : 0;
}

void page_routes_problem(struct page_response *out, int status, const char *detail)
{
    const char *title = "Error";
    json_t *o;

    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status)
            title = titles[i].title;
    o = json_pack("{s:s, s:i, s:o}", "title", title, "status", status, "detail", json_text(detail, SIZE_MAX));
    set_body(out, status, "application/problem+json", o ? json_dump(o, JSON_COMPACT) : NULL);
    json_decref(o);
}

static void put_error(struct page_response *out, const struct err *e)
{
    static const struct {
        int code, status;
    } of[] = {{ERR_NOT_FOUND, 404}, {ERR_USAGE, 400},   {ERR_CONFLICT, 409},    {ERR_REFUSED, 502},
              {ERR_AUTH, 502},      {ERR_TIMEOUT, 504}, {ERR_UNREACHABLE, 502}, {ERR_NOMEM, 503},
              {ERR_PROTOCOL, 422},  {ERR_CONFIG, 422}};
    int status = 500;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].code == e->code)
            status = of[i].status;
    page_routes_problem(out, status, e->text);
}

/* Takes ownership. */
static void put_json(struct page_response *out, json_t *doc)
{
    set_body(out, 200, type_json, doc ? json_dump(doc, JSON_COMPACT) : NULL);
    json_decref(doc);
}

static const char *query(const struct page_request *rq, const char *key)
{
    return target_query(&rq->target, key);
}

static int serve_series(struct page_response *out, const struct shown *s, const struct page_request *rq,
                        struct err *e)
{
    const struct series_query q = {.file = query(rq, "file"),
                                   .names = query(rq, "names"),
                                   .x = query(rq, "x"),
                                   .points = query(rq, "points"),
                                   .from = query(rq, "from"),
                                   .to = query(rq, "to")};
    struct series_request r;
    FILE *f;
    int rc;

    if (series_request_set(&r, &q, e) < 0)
        return e->code;
    f = open_memstream(&out->body, &out->len);
    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for the series");
    rc = document_series(f, s, &r, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_set(e, ERR_NOMEM, "no memory for the series");
    if (rc < 0) {
        free(out->body);
        out->body = NULL;
        return rc;
    }
    out->status = 200;
    out->type = type_json;
    return 0;
}

static int serve_peers(struct page_response *out, const struct shown *s, const struct page_request *rq,
                       struct err *e)
{
    json_t *doc;

    (void)rq;
    if (document_peers(&doc, s, e) < 0)
        return e->code;
    put_json(out, doc);
    return 0;
}

static int serve_histogram(struct page_response *out, const struct shown *s, const struct page_request *rq,
                           struct err *e)
{
    const char *name = query(rq, "name");
    json_t *doc;

    if (document_histogram(&doc, s, name ? name : "staleness", e) < 0)
        return e->code;
    put_json(out, doc);
    return 0;
}

static int serve_confusion(struct page_response *out, const struct shown *s, const struct page_request *rq,
                           struct err *e)
{
    json_t *doc;

    (void)rq;
    if (document_confusion(&doc, s, e) < 0)
        return e->code;
    put_json(out, doc);
    return 0;
}

static int serve_samples(struct page_response *out, const struct shown *s, const struct page_request *rq,
                         struct err *e)
{
    json_t *doc;

    (void)rq;
    if (document_samples(&doc, s, e) < 0)
        return e->code;
    put_json(out, doc);
    return 0;
}

/* The value of a key; NULL: it is missing or empty. */
static const char *nonempty_query(const struct page_request *rq, const char *key)
{
    const char *v = query(rq, key);

    return v && v[0] ? v : NULL;
}

static int serve_log(struct page_response *out, const struct shown *s, const struct page_request *rq,
                     struct err *e)
{
    const char *tail = nonempty_query(rq, "tail"), *limit = tail ? tail : nonempty_query(rq, "limit");
    const struct log_query q = {.node = nonempty_query(rq, "node"),
                                .level = nonempty_query(rq, "level"),
                                .q = nonempty_query(rq, "q"),
                                .after = nonempty_query(rq, "after"),
                                .limit = limit ? strtoull(limit, NULL, 10) : 0,
                                .is_tail = tail != NULL};
    json_t *doc;

    if (document_log(&doc, s, &q, e) < 0)
        return e->code;
    put_json(out, doc);
    return 0;
}

static int serve_file(struct page_response *out, const struct shown *s, const char *path, struct err *e)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    if (s->is_live || s->dir < 0)
        return err_set(e, ERR_NOT_FOUND, "the job's files are there only after its end");
    if (untrusted_file(&out->fd, &out->bytes, s->dir, path, e) < 0) {
        out->fd = -1;
        return e->code;
    }
    out->status = 200;
    out->type = "application/octet-stream";
    snprintf(out->name, sizeof out->name, "%s", name);
    for (char *c = out->name; *c; c++)
        *c = (char)(strchr(plain, *c) ? *c : '_');
    return 0;
}

static const struct {
    const char *name;
    int (*serve)(struct page_response *out, const struct shown *s, const struct page_request *rq,
                 struct err *e);
} parts[] = {{"series", serve_series},       {"peers", serve_peers},     {"histogram", serve_histogram},
             {"confusion", serve_confusion}, {"samples", serve_samples}, {"log", serve_log}};

/* A part of a job, "series" or "files/PATH", or the job itself: "". */
static int serve_part(struct page_response *out, const struct shown *s, json_t *line, const char *part,
                      const struct page_request *rq, struct err *e)
{
    if (!part[0]) {
        put_json(out, document_job(s, json_incref(line)));
        return 0;
    }
    if (strncmp(part, "files/", 6) == 0)
        return serve_file(out, s, part + 6, e);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, part) == 0)
            return parts[i].serve(out, s, rq, e);
    return err_set(e, ERR_NOT_FOUND, "a job has no document %.60s", part);
}

static int serve_job(struct page_response *out, struct job_list *job_list, const char *path,
                     const struct page_request *rq, struct err *e)
{
    size_t len = strcspn(path, "/");
    const char *part = path[len] ? path + len + 1 : "";
    bool is_post = strcmp(rq->method, "POST") == 0;
    char id[LISTED_ID];
    struct shown s;
    json_t *line;
    int rc;

    if (len == 0 || len >= sizeof id)
        return err_set(e, ERR_NOT_FOUND, "there is no such job");
    memcpy(id, path, len);
    id[len] = '\0';
    if (is_post && page_change_is_known(part)) {
        if (page_change(job_list, id, part, &rq->target, e) < 0)
            return e->code;
        set_body(out, strcmp(part, "cancel") == 0 ? 202 : 200, type_json, strdup("{}"));
        return 0;
    }
    if (is_post) {
        page_routes_problem(out, 405, only_changes);
        return 0;
    }
    if (job_list_open_job(&s, &line, job_list, id, e) < 0)
        return e->code;
    rc = serve_part(out, &s, line, part, rq, e);
    json_decref(line);
    shown_clear(&s);
    return rc;
}

/* A job as a run to compare. */
static int take_run(struct run *out, struct job_list *job_list, const char *id, struct err *e)
{
    struct shown s;
    json_t *line;

    if (job_list_open_job(&s, &line, job_list, id, e) < 0)
        return e->code;
    json_decref(line);
    *out = (struct run){.doc = json_incref(s.run)};
    json_object_set_new(out->doc, "id",
                        json_string(id)); /* a copy of a folder has another id here than in run.json */
    snprintf(out->folder, sizeof out->folder, "%s", s.path ? s.path : "");
    shown_clear(&s);
    return 0;
}

static int take_runs(struct run *runs, size_t *n, struct job_list *job_list, const char *ids, struct err *e)
{
    char id[LISTED_ID];

    for (const char *at = ids; *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");

        if (*n == COMPARED)
            return err_set(e, ERR_USAGE, "ids: more than %d jobs", COMPARED);
        if (len == 0 || len >= sizeof id)
            return err_set(e, ERR_USAGE, "ids: \"%.64s\" is not a list of jobs, separated by commas", ids);
        memcpy(id, at, len);
        id[len] = '\0';
        if (take_run(&runs[*n], job_list, id, e) < 0)
            return e->code;
        ++*n;
        at += len;
    }
    return 0;
}

static int take_sweep(struct run *runs, size_t *n, struct job_list *job_list, const char *folder,
                      struct err *e)
{
    char(*ids)[LISTED_ID];
    size_t n_ids;
    int rc = job_list_find_sweep(&ids, &n_ids, job_list, folder, e);

    if (rc == 0 && n_ids > COMPARE_RUNS)
        rc = err_set(e, ERR_USAGE, "the sweep has %zu runs; at most %d are shown", n_ids, COMPARE_RUNS);
    for (size_t i = 0; rc == 0 && i < n_ids; i++, ++*n)
        if ((rc = take_run(&runs[*n], job_list, ids[i], e)) < 0)
            break;
    free(ids);
    return rc;
}

static void drop_folders(json_t *runs)
{
    json_t *run;
    size_t i;

    json_array_foreach(runs, i, run) json_object_del(run, "folder");
}

static int serve_compare(struct page_response *out, struct job_list *job_list, const struct page_request *rq,
                         struct err *e)
{
    const char *ids = nonempty_query(rq, "ids"), *sweep = nonempty_query(rq, "sweep");
    const char *target = nonempty_query(rq, "target");
    char *end = NULL;
    double accuracy = target ? strtod(target, &end) : NAN;
    struct run *runs = calloc(sweep ? COMPARE_RUNS : COMPARED, sizeof *runs);
    json_t *doc;
    size_t n = 0;
    int rc;

    if (!runs)
        return err_set(e, ERR_NOMEM, "no memory for the runs");
    if (end && (end == target || *end))
        rc = err_set(e, ERR_USAGE, "target=%.40s is not a number", target);
    else if (sweep)
        rc = take_sweep(runs, &n, job_list, sweep, e);
    else
        rc = !ids ? err_set(e, ERR_USAGE, "ids is missing: the jobs to compare, separated by commas")
                  : take_runs(runs, &n, job_list, ids, e);
    if (rc == 0)
        rc = compare_runs(&doc, runs, n, accuracy, e);
    if (rc == 0) {
        drop_folders(json_object_get(doc, "runs")); /* of a running job it is temporary */
        put_json(out, doc);
    }
    runs_free(runs, n);
    return rc;
}

static void serve_page(struct page_response *out)
{
    static const char data[] = "{\"mode\":\"browse\"}";
    FILE *f = open_memstream(&out->body, &out->len);

    if (f)
        page_write(f, PAGE_SERVED, data, sizeof data - 1);
    if (!f || fclose(f) != 0) {
        page_routes_problem(out, 503, "no memory for the page");
        return;
    }
    out->status = 200;
    out->type = "text/html; charset=utf-8";
}

void page_routes_answer(struct page_response *out, struct job_list *s, const struct page_request *rq)
{
    static const char jobs[] = "/api/jobs/";
    struct err e = {0};

    *out = (struct page_response){.fd = -1};
    if (strncmp(rq->target.path, jobs, sizeof jobs - 1) == 0) {
        if (serve_job(out, s, rq->target.path + sizeof jobs - 1, rq, &e) < 0)
            put_error(out, &e);
    } else if (strcmp(rq->method, "POST") == 0) {
        page_routes_problem(out, 405, only_changes);
    } else if (strcmp(rq->target.path, "/") == 0) {
        serve_page(out);
    } else if (strcmp(rq->target.path, "/api/jobs") == 0) {
        set_body(out, 200, type_json, job_list_json(s));
    } else if (strcmp(rq->target.path, "/api/compare") == 0) {
        if (serve_compare(out, s, rq, &e) < 0)
            put_error(out, &e);
    } else if (strcmp(rq->target.path, "/api/events") == 0) {
        *out = (struct page_response){
            .status = 200, .type = "text/event-stream", .fd = -1, .is_events = true};
    } else {
        page_routes_problem(out, 404, "there is no such path");
    }
}

void page_response_clear(struct page_response *out)
{
    free(out->body);
    if (out->fd >= 0)
        close(out->fd);
    *out = (struct page_response){.fd = -1};
}
