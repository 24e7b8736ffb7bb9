/* Any text as the document of a job folder, and as the state, the journal and the records of one of its
 * nodes, which a codec may have written. What is accepted has numbers in their ranges, and an id that is part
 * of no other path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/settings.h"
#include "submit/job/node_folder.h"
#include "submit/net/reply.h"
#include "submit/results/job_index.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char job[] = "j-abcdef"; /* of the files of the corpus */
static const char state[] =
    "{\"id\":\"j-abcdef\",\"node\":0,\"attempt\":1,\"state\":\"failed\",\"reason\":\"Internal\","
    "\"message\":\"\",\"host\":\"one\"}";

static void make_folders(void)
{
    static const char *const names[] = {JOB_FOLDER_PACKAGES, "node-0/jobs/j-abcdef/run"};
    char path[128];
    struct err e;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_folder, names[i]);
        must(file_mkdirs(path, 0700, &e) == 0);
    }
}

/* As a process of the job reads it; its reservation, which an agent reads, has fuzz_reserve.c. */
static void as_process(void)
{
    struct settings set;
    json_t *document;
    struct err e = {0};

    if (job_folder_read(&document, fuzz_folder, &e) < 0) {
        must(e.text[0]);
        return;
    }
    if (settings_parse(&set, json_object_get(json_object_get(document, "record"), "settings"), &e) == 0)
        must(set.node_count >= 1);
    json_decref(document);
}

/* As `job_submit status DIR` reads it. */
static void as_record(void)
{
    struct options opt = {0};
    struct submission s;
    struct err e = {0};

    must(submission_init(&s, &opt, &e) == 0);
    if (job_index_load(&s, fuzz_folder, &e) == 0)
        must(job_id_is_valid(s.id) && strncmp(s.folder, fuzz_folder, strlen(fuzz_folder)) == 0);
    else
        must(e.text[0]);
    submission_clear(&s);
}

static void ignore_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    (void)line;
    (void)len;
}

static void ask(struct node_folder *f, const char *path, bool is_stream)
{
    struct http_request r = {
        .method = "GET", .peer = "node", .max_reply = 1 << 20, .on_line = is_stream ? ignore_line : NULL};
    struct job_view v;
    struct err e = {0};

    must(node_folder_answer(f, &r, job, path, &e) == 0);
    must(r.err.code == 0 || r.err.text[0]);
    if (r.reply && strlen(path) == strlen("/v1/jobs/j-abcdef"))
        reply_job(&v, r.reply, r.reply_len, &e);
    free(r.reply);
}

/* As a reader of node 0. */
static void as_node(void)
{
    struct node_folder f = {.job_folder = fuzz_folder};

    ask(&f, "/v1/jobs/j-abcdef", false);
    must(f.attempt >= 0 && f.attempt <= JOB_FOLDER_ATTEMPTS_MAX);
    ask(&f, "/v1/jobs/j-abcdef/events", true);
    ask(&f, "/v1/jobs/j-abcdef/events", false);
    ask(&f, "/v1/jobs/j-abcdef/artifacts", false);
    ask(&f, "/v1/jobs/j-abcdef/records.csv?kind=train&after=1", false);
    f.only_attempt = 1;
    ask(&f, "/v1/jobs/j-abcdef", false);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (fuzz_folder_open("job-folder"))
        make_folders();
    fuzz_folder_write(JOB_FOLDER_DOCUMENT, bytes, len);
    as_process();
    as_record();
    fuzz_folder_write("node-0/" JOB_FOLDER_NODE, bytes, len);
    fuzz_folder_write("node-0/jobs/j-abcdef/" JOB_FOLDER_NODE, bytes, len);
    as_node();
    /* Its journal and its records are read only where its state is valid. */
    fuzz_folder_write("node-0/" JOB_FOLDER_NODE, state, strlen(state));
    fuzz_folder_write("node-0/jobs/j-abcdef/" JOB_FOLDER_NODE, state, strlen(state));
    fuzz_folder_write("node-0/jobs/j-abcdef/journal.jsonl", bytes, len);
    fuzz_folder_write("node-0/jobs/j-abcdef/run/train.csv", bytes, len);
    as_node();
    return 0;
}
