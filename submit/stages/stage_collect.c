/* collect: downloads the artifacts of all nodes, including failed ones, and writes the result folder. A
 * missing required file makes the results of the job incomplete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/job/reason.h"
#include "submit/browse/report_page.h"
#include "submit/export/export.h"
#include "submit/files/temp.h"
#include "submit/job/stragglers.h"
#include "submit/results/collect.h"
#include "submit/results/run_json.h"
#include "submit/results/trace.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"

/* A listed file of at most SMALL_BYTES is downloaded into memory: a temporary file for each of the six files
 * of a node took a sixth of job_submit's time. What is sent may be somewhat longer than what was listed. */
enum { SMALL_BYTES = 64 << 10, SMALL_MOST_BYTES = 1 << 20 };

enum {
    END_BYTES = 4 << 20, /* largest part of a log that an agent sends for one ?after=BYTES */
    PATH_LEN = 160
};

/* How each kind of artifact is collected. */
static const struct {
    int (*keep)(struct collection *c, const struct artifact *a, struct err *e);
    int (*check)(const struct collection *c, const struct node_files *got,
                 struct err *e); /* of a download; or NULL */
    const char *live;            /* its path while the job still runs; NULL: none */
    const char *from;            /* its path instead of artifacts/NAME; NULL: artifacts/NAME */
} kinds[N_ARTIFACT_KINDS] = {
    [ARTIFACT_IS_RECORDS] = {.keep = collect_records, .live = "records.csv?kind="},
    [ARTIFACT_IS_LOG] = {.keep = collect_logs, .live = "logs"},
    [ARTIFACT_IS_EVENTS] = {.keep = collect_events, .from = "events?after=0"},
    [ARTIFACT_IS_MODEL] = {.keep = collect_model, .check = collect_check_model},
    [ARTIFACT_IS_CHECKPOINT] = {.keep = collect_checkpoints},
    [ARTIFACT_IS_TRACE] = {.keep = trace_collect},
    [ARTIFACT_IS_OF_CODEC] = {.keep = collect_codec},
    [ARTIFACT_IS_OUTPUT] = {.keep = collect_output},
};

static const struct artifact_view *find_listed(const struct node_files *got, const char *name)
{
    for (size_t i = 0; i < got->list.n; i++)
        if (strcmp(got->list.items[i].name, name) == 0)
            return &got->list.items[i];
    return NULL;
}

/* Requests the final state of the job, or the list of artifacts, from all nodes at once. */
static void request_all(struct collection *c, const char *path)
{
    struct err e;

    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (!c->got[i].node->is_lost &&
            node_ask(c->s->http, c->got[i].node, "GET", NULL, 0, &e, "/v1/jobs/%s%s", c->s->id, path) < 0)
            console_error("%s", e.text);
    submission_finish_calls(c->s);
}

static void take_job(struct collection *c, struct node_files *got)
{
    struct job_node *n = got->node;
    struct job_view v;
    struct err e;

    if (n->is_lost) {
        collect_miss(c, n, "everything", "its agent is lost");
        return;
    }
    if (node_answer(n, &e) < 0 || reply_job(&v, n->call.reply, n->call.reply_len, &e) < 0) {
        collect_miss(c, n, "everything", e.text);
        return;
    }
    got->is_received = true;
    n->view = v;
    n->is_ended = job_state_is_terminal(v.state);
    if (strcmp(v.reason, REASON_JOURNAL_FAILED) == 0)
        collect_miss(c, n, "the job's end", v.message);
}

static void take_list(struct collection *c, struct node_files *got)
{
    struct err e;

    if (got->is_received &&
        (node_answer(got->node, &e) < 0 ||
         reply_artifacts(&got->list, got->node->call.reply, got->node->call.reply_len, &e) < 0))
        collect_miss(c, got->node, "the list of its files", e.text);
}

static uint64_t size_limit(const struct submission *s, const struct artifact *a)
{
    return a->max ? a->max : s->model_bytes ? s->model_bytes : (uint64_t)4 << 30;
}

static int map_download(struct node_files *got, struct err *e)
{
    struct stat st;
    void *p;

    if (got->fd == 0) {
        got->bytes = got->node->call.reply ? got->node->call.reply : "";
        got->len = got->node->call.reply_len;
        return 0;
    }
    if (fstat(got->fd, &st) < 0)
        return err_errno(e, ERR_IO, "the downloaded file");
    if (st.st_size == 0) {
        got->bytes = ""; /* mmap refuses empty files */
        return 0;
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, got->fd, 0);
    if (p == MAP_FAILED)
        return err_call(e, ERR_IO, CALL_MAP, "the %lld downloaded bytes cannot be mapped",
                        (long long)st.st_size);
    got->bytes = p;
    got->len = (size_t)st.st_size;
    return 0;
}

static void drop_download(const struct collection *c, struct node_files *got)
{
    if (got->len > 0 && got->fd > 0)
        munmap((void *)(uintptr_t)got->bytes, got->len);
    if (got->fd > 0)
        close(got->fd);
    if (got->is_asked)
        http_clear(c->s->http, &got->node->call);
    got->is_asked = false;
    got->bytes = NULL;
    got->len = 0;
    got->fd = 0;
}

/* Sets the path to download; of an artifact that is too long, only the end. */
static void choose_path(char path[PATH_LEN], const struct collection *c, const struct node_files *got,
                        const struct artifact *a, const struct artifact_view *listed)
{
    const char *live = got->node->is_ended ? NULL : kinds[a->kind].live;
    const char *from = live ? live : kinds[a->kind].from;
    int of_records = a->kind == ARTIFACT_IS_RECORDS ? (int)strcspn(a->name, ".") : 0; /* the kind's letters */
    int node = got->node->at.node;

    if ((a->flags & END_IS_ENOUGH) && listed && listed->bytes > size_limit(c->s, a)) {
        console_info(
            "node(%d): %s has %llu bytes, of which the last %d are fetched; job_submit logs %s --node "
            "%d shows all.",
            node, a->name, (unsigned long long)listed->bytes, END_BYTES, c->s->id, node);
        snprintf(path, PATH_LEN, "/v1/jobs/%s/%s?after=%llu", c->s->id, kinds[a->kind].live,
                 (unsigned long long)listed->bytes - END_BYTES);
    } else if (from) {
        snprintf(path, PATH_LEN, "/v1/jobs/%s/%s%.*s", c->s->id, from, of_records, a->name);
    } else {
        snprintf(path, PATH_LEN, "/v1/jobs/%s/artifacts/%s", c->s->id, a->name);
    }
}

/* Starts the download of one artifact from one node, if it is available. */
static void start_download(struct collection *c, struct node_files *got, const struct artifact *a)
{
    const struct artifact_view *listed = find_listed(got, a->name);
    bool live = !got->node->is_ended && kinds[a->kind].live;
    bool expected = (a->flags & NEEDED) && got->node->view.state == JOB_SUCCEEDED &&
                    artifact_is_of(a, node_is_server(got->node), c->s->settings.executor);
    bool is_small;
    char path[PATH_LEN];
    struct err e;

    if (!got->is_received || (!listed && !live) || (kinds[a->kind].from && !got->node->is_ended)) {
        if (expected)
            collect_miss(c, got->node, a->name, "");
        return;
    }
    is_small = listed && !live && !kinds[a->kind].check && listed->bytes <= SMALL_BYTES;
    choose_path(path, c, got, a, listed);
    got->is_asked = true;
    if ((!is_small && temp_file(&got->fd, c->s->folder, &e) < 0) ||
        node_download(c->s->http, got->node, got->fd, is_small ? SMALL_MOST_BYTES : size_limit(c->s, a), path,
                      &e) < 0) {
        collect_miss(c, got->node, a->name, e.text);
        drop_download(c, got);
    }
}

static int check_sum(const struct node_files *got, const struct artifact *a, struct err *e)
{
    const struct artifact_view *listed = find_listed(got, a->name);
    char path[64];
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    uint64_t bytes;

    if (!got->node->is_ended || kinds[a->kind].from || !listed || !listed->complete || !listed->sha256[0])
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", got->fd);
    if (got->fd == 0)
        sha256(sum, got->node->call.reply, got->node->call.reply_len);
    else if (sha256_file(sum, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, sum, sizeof sum);
    if (strcmp(hex, listed->sha256) != 0)
        return err_set(e, ERR_PROTOCOL, "its SHA-256 differs from the one its agent reports");
    return 0;
}

/* Finishes the download and maps the file; drops an incomplete or damaged one. */
static void take_download(struct collection *c, struct node_files *got, const struct artifact *a)
{
    struct err e;

    if (!got->is_asked)
        return;
    if (node_answer(got->node, &e) == 0 && check_sum(got, a, &e) == 0 &&
        (!kinds[a->kind].check || kinds[a->kind].check(c, got, &e) == 0) && map_download(got, &e) == 0)
        return;
    collect_miss(c, got->node, a->name, e.text);
    /* An agent that delivers a file too slowly or not at all is not asked for further ones: each may take
     * long. */
    if (e.code == ERR_UNREACHABLE || e.code == ERR_CANCELLED)
        got->is_received = false;
    drop_download(c, got);
}

/* Downloads the artifact from all nodes concurrently. */
static void download_all(struct collection *c, const struct artifact *a)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        start_download(c, &c->got[i], a);
    submission_finish_calls(c->s);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        take_download(c, &c->got[i], a);
}

/* Downloads the artifact from the first worker, or server, that delivers it intact; missing ones of other
 * nodes are then no fault. */
static void download_one(struct collection *c, const struct artifact *a)
{
    bool was_missing = c->is_missing;

    for (size_t i = 0; i < c->s->n_nodes; i++) {
        struct node_files *got = &c->got[i];

        if (node_is_server(got->node) != c->is_of_servers)
            continue;
        start_download(c, got, a);
        submission_finish_calls(c->s);
        take_download(c, got, a);
        if (got->bytes) {
            c->is_missing = was_missing;
            return;
        }
    }
}

static bool is_wanted(const struct submission *s, const struct artifact *a)
{
    return artifact_is_of(a, false, s->settings.executor) &&
           !((a->flags & ONLY_IF_FAILED) && s->state == JOB_SUCCEEDED) &&
           !((a->flags & ONLY_IF_ASKED) && !s->trace[0]);
}

/* Collects one kind of artifact: downloads it and writes the merged result. */
static int collect_artifact(struct collection *c, const struct artifact *a, struct err *e)
{
    int rc;

    if (!is_wanted(c->s, a))
        return 0;
    if (a->flags & ONE_IS_ENOUGH)
        download_one(c, a);
    else
        download_all(c, a);
    rc = kinds[a->kind].keep(c, a, e);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        drop_download(c, &c->got[i]);
    return rc;
}

/* Collects an artifact; of a codec, that of the servers too if it is another one. */
static int collect_of_all(struct collection *c, const struct artifact *a, struct err *e)
{
    int rc = collect_artifact(c, a, e);

    if (rc < 0 || a->kind != ARTIFACT_IS_OF_CODEC || !json_object_get(c->s->facts, "server_codec"))
        return rc;
    c->is_of_servers = true;
    rc = collect_artifact(c, a, e);
    c->is_of_servers = false;
    return rc;
}

static void note_sums(struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct artifact_view *m = find_listed(&c->got[i], artifact_name(ARTIFACT_FINAL_MODEL));

        snprintf(c->got[i].node->model_sha256, sizeof c->got[i].node->model_sha256, "%s", m ? m->sha256 : "");
    }
}

/* NULL: an executor has none, and the record of a job may be an older version's. */
static struct model_spec *read_model(const struct submission *s)
{
    const json_t *doc = json_object_get(json_object_get(s->facts, "model"), "description");
    struct model_spec *m = NULL;
    struct err ignored;

    return doc && model_spec_new(&m, doc, &ignored) == 0 ? m : NULL;
}

static void write_derived(struct submission *s)
{
    json_t *run = run_json(s);

    export_write(s, run);
    json_decref(run);
}

int stage_collect(struct submission *s, struct err *e)
{
    struct collection c = {.s = s, .got = calloc(s->n_nodes, sizeof *c.got)};
    int rc = 0;

    if (!c.got)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);
    json_array_clear(s->files);
    c.model = read_model(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        c.got[i].node = &s->nodes[i];
    request_all(&c, "");
    for (size_t i = 0; i < s->n_nodes; i++)
        take_job(&c, &c.got[i]);
    stragglers_of_all(s);
    request_all(&c, "/artifacts");
    for (size_t i = 0; i < s->n_nodes; i++)
        take_list(&c, &c.got[i]);
    note_sums(&c);
    for (int k = 0; k < N_ARTIFACTS && rc == 0; k++)
        rc = collect_of_all(&c, &artifacts[k], e);
    s->is_complete = rc == 0 && !c.is_missing;
    if (rc == 0)
        rc = report_page_add(s, e) < 0 ? e->code : run_json_write(s, e);
    if (rc == 0)
        write_derived(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        http_clear(s->http, &s->nodes[i].call);
    model_spec_free(c.model);
    free(c.got);
    return rc;
}
