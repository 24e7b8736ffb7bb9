#include "submit/browse/report_page.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page/page.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/browse/documents.h"
#include "submit/files/job_id.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/job/job_node.h"
#include "submit/results/language.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"

/* Limits of a report: points of a curve and of all its nodes, nodes with a curve, lines of the log, bytes of
 * a document. */
enum { POINTS = 500, POINTS_IN_ALL = 4096, NODES = 64, LOG_LINES = 2000, DOCUMENT_MAX = 2 << 20, PATH = 256 };

struct report_page {
    FILE *out; /* the data of the page */
    const struct shown *s;
    const char *id;
    size_t n; /* documents so far */
};

/* The path of one of the job's documents. */
static const char *job_path(char path[PATH], const struct report_page *r, const char *which)
{
    snprintf(path, PATH, "/api/jobs/%s%s", r->id, which);
    return path;
}

/* Adds a document under its path. A document that is too long is left out. */
static void put_document(struct report_page *r, const char *path, const char *text, size_t len)
{
    if (len > DOCUMENT_MAX)
        return;
    fprintf(r->out, "%s\"%s\":", r->n++ ? "," : "", path);
    fwrite(text, 1, len, r->out);
}

/* Takes ownership. */
static int put_json(struct report_page *r, const char *path, json_t *doc, struct err *e)
{
    char *text = doc ? json_dump(doc, JSON_COMPACT) : NULL;

    json_decref(doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the report");
    put_document(r, path, text, strlen(text));
    free(text);
    return 0;
}

static int put_series(struct report_page *r, const char *file, const char *names, const char *x,
                      struct err *e)
{
    const struct series_query q = {.file = file, .names = names, .x = x};
    struct series_request request;
    char which[160];
    char path[PATH];
    char *text = NULL;
    size_t len = 0;
    FILE *out;
    int rc;

    if (series_request_set(&request, &q, e) < 0)
        return e->code;
    request.points = POINTS;
    request.points_in_all = POINTS_IN_ALL;
    request.nodes_most = NODES;
    out = open_memstream(&text, &len);
    if (!out)
        return err_set(e, ERR_NOMEM, "no memory for the report");
    rc = document_series(out, r->s, &request, e);
    if (fclose(out) != 0 && rc == 0)
        rc = err_set(e, ERR_NOMEM, "no memory for the report");
    snprintf(which, sizeof which, "/series?file=%s%s%s&x=%s", file, names ? "&names=" : "",
             names ? names : "", x);
    if (rc == 0)
        put_document(r, job_path(path, r, which), text, len);
    free(text);
    return rc == ERR_PROTOCOL ? 0 : rc; /* the file is of another version */
}

static int put_curves(struct report_page *r, struct err *e)
{
    static const char *const xs[] = {"step", "epoch", "time", "bytes", "tokens"};
    struct language_results text;
    bool is_of_text;

    language_measure(&text, r->s->run);
    is_of_text = !isnan(text.tokens);
    for (size_t i = 0; i < sizeof xs / sizeof *xs - !is_of_text; i++)
        if (put_series(r, "train", "loss,accuracy", xs[i], e) < 0 ||
            put_series(r, "eval", is_of_text ? "loss,accuracy,perplexity,bits_per_byte" : "loss,accuracy",
                       xs[i], e) < 0)
            return e->code;
    if (put_series(r, "train", "compute_s,encode_s,send_s,wait_s,decode_s,apply_s", "step", e) < 0 ||
        put_series(r, "train", "raw_bytes,sent_bytes,recv_bytes", "step", e) < 0 ||
        put_series(r, "codec", NULL, "step", e) < 0)
        return e->code;
    return put_series(r, "metrics", NULL, "step", e);
}

static int put_of_job(struct report_page *r, const char *which, json_t *doc, struct err *e)
{
    char path[PATH];

    return put_json(r, job_path(path, r, which), doc, e);
}

/* Adds a document unless `rc` says that the job lacks it. */
static int put_if(struct report_page *r, const char *which, int rc, json_t **doc, struct err *e)
{
    if (rc == 0)
        return put_of_job(r, which, *doc, e);
    return rc == ERR_NOT_FOUND || rc == ERR_PROTOCOL ? 0 : rc;
}

static int put_log(struct report_page *r, struct err *e)
{
    const struct log_query q = {.limit = LOG_LINES, .is_tail = true};
    json_t *doc;

    return document_log(&doc, r->s, &q, e) < 0 ? e->code : put_of_job(r, "/log", doc, e);
}

static int put_all(struct report_page *r, const char *folder, struct err *e)
{
    json_t *line = document_line(r->s->run, r->id, folder, false);
    json_t *doc = NULL;

    if (put_json(r, "/api/jobs", line ? json_pack("{s:[O], s:[]}", "jobs", line, "agents") : NULL, e) < 0) {
        json_decref(line);
        return e->code;
    }
    if (put_of_job(r, "", document_job(r->s, line), e) < 0 || put_curves(r, e) < 0 || put_log(r, e) < 0)
        return e->code;
    if (put_if(r, "/peers", document_peers(&doc, r->s, e), &doc, e) < 0 ||
        put_if(r, "/histogram?name=staleness", document_histogram(&doc, r->s, "staleness", e), &doc, e) < 0)
        return e->code;
    if (put_if(r, "/samples", document_samples(&doc, r->s, e), &doc, e) < 0)
        return e->code;
    return put_if(r, "/confusion", document_confusion(&doc, r->s, e), &doc, e);
}

static int make_page(char **out, size_t *len, const char *data, size_t data_len, struct err *e)
{
    FILE *f = open_memstream(out, len);
    bool is_whole;

    if (f)
        page_write(f, PAGE_FILE, data, data_len);
    is_whole = f && !ferror(f);
    if ((!f || fclose(f) == 0) && is_whole)
        return 0;
    if (f)
        free(*out);
    return err_set(e, ERR_NOMEM, "no memory for the report");
}

/* The path relative to the current folder, if it is below it: a report should not contain the machine's
 * paths. */
static const char *from_here(const char *folder)
{
    char here[PATH_MAX];
    size_t len = getcwd(here, sizeof here) ? strlen(here) : 0;

    return len > 0 && strncmp(folder, here, len) == 0 && folder[len] == '/' && folder[len + 1]
               ? folder + len + 1
               : folder;
}

static int write_report(char **out, size_t *len, const struct shown *s, const char *folder, struct err *e)
{
    const char *id = shown_text(s->run, "id");
    struct report_page r = {.s = s, .id = id};
    char *data = NULL;
    size_t data_len = 0;
    bool is_whole;
    int rc;

    if (!id || strlen(id) >= JOB_ID_MAX || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(id))
        return err_set(e, ERR_CONFIG, "%s/run.json has no id of a job", folder);
    r.out = open_memstream(&data, &data_len);
    if (!r.out)
        return err_set(e, ERR_NOMEM, "no memory for the report");
    fputs("{\"mode\":\"report\",\"documents\":{", r.out);
    rc = put_all(&r, from_here(folder), e);
    fputs("}}", r.out);
    is_whole = !ferror(r.out);
    if ((fclose(r.out) != 0 || !is_whole) && rc == 0)
        rc = err_set(e, ERR_NOMEM, "no memory for the report");
    if (rc == 0)
        rc = make_page(out, len, data, data_len, e);
    free(data);
    return rc;
}

int report_page_text(char **out, size_t *len, const char *folder, json_t *run, struct err *e)
{
    struct shown s = {.dir = -1};
    int rc;

    if (run) {
        s.run = json_incref(run);
        rc = untrusted_open(&s.dir, folder, e);
    } else {
        rc = shown_open(&s, folder, e);
    }
    if (rc == 0)
        rc = write_report(out, len, &s, folder, e);
    shown_clear(&s);
    return rc;
}

/* Puts the page with its length and SHA-256 into the list of files. */
static void list_page(json_t *files, const char *text, size_t len)
{
    char hex[SHA256_HEX];
    json_t *file;
    size_t i;

    sha256_hex(hex, text, len);
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));

        if (name && strcmp(name, REPORT_NAME) == 0)
            json_array_remove(files, i--);
    }
    json_array_append_new(
        files, json_pack("{s:s, s:I, s:s}", "name", REPORT_NAME, "bytes", (json_int_t)len, "sha256", hex));
}

int report_page_save(const char *folder, json_t *run, struct err *e)
{
    char path[PATH_MAX];
    size_t len = 0;
    char *text;
    int rc;

    if (file_join(path, sizeof path, folder, REPORT_NAME, e) < 0 ||
        report_page_text(&text, &len, folder, run, e) < 0)
        return e->code;
    rc = file_write(path, text, len, 0644, e);
    if (rc == 0)
        list_page(json_object_get(run, "files"), text, len);
    free(text);
    return rc == 0 ? run_file_save(run, folder, e) : rc;
}

int report_page_add(struct submission *s, struct err *e)
{
    json_t *run = run_json(s);
    char *text;
    size_t len;
    int rc = run ? report_page_text(&text, &len, s->folder, run, e) : err_set(e, ERR_NOMEM, "no memory");

    json_decref(run);
    if (rc < 0)
        return rc;
    rc = results_write(s, REPORT_NAME, text, len, e);
    free(text);
    return rc;
}
