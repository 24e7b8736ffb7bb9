#include "submit/job/node_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* The answer to the request for what lies below the job's URL, which the caller frees. */
static char *ask_for(struct node_folder *f, const char *what)
{
    struct http_request r = {.method = "GET", .peer = "node", .max_reply = 1 << 20};
    char path[64];
    struct err e;

    snprintf(path, sizeof path, "/v1/jobs/j-abcdef%s", what);
    assert_ok(node_folder_answer(f, &r, "j-abcdef", path, &e));
    assert_int_equal(r.err.code, 0);
    return r.reply;
}

/* Of the answer to the request for the job's state. */
static void assert_state_of(struct node_folder *f, const char *state)
{
    char *reply = ask_for(f, "");
    struct err e;
    json_t *o;

    assert_ok(json_parse(&o, reply, strlen(reply), "reply", &e));
    assert_string_equal(json_text_at(o, "state"), state);
    json_decref(o);
    free(reply);
}

static void assert_state(const char *folder, const char *state)
{
    struct node_folder f = {.job_folder = folder};

    assert_state_of(&f, state);
}

static void write_at(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

/* The user who collects a job may be allowed to read what its codec is not. */
TEST(a_state_is_read_through_no_link)
{
    static const char state[] = "{\"id\":\"j-abcdef\",\"state\":\"succeeded\",\"attempt\":1}";
    const char *folder = unit_folder();
    char node[256], file[256], other[256];
    struct err e;

    snprintf(node, sizeof node, "%s/node-0", folder);
    snprintf(file, sizeof file, "%s/node-0/node.json", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    assert_state(folder, "pending");
    assert_ok(file_mkdirs(node, 0700, &e));
    write_at(folder, "node-0/node.json", state);
    assert_state(folder, "succeeded");
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(symlink("../other", file), 0);
    assert_state(folder, "pending");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rename(other, file), 0);
    assert_int_equal(rename(node, other), 0);
    assert_int_equal(symlink("other", node), 0);
    assert_state(folder, "pending");
    unit_remove(folder);
}

/* The clock of the node's machine is apart from this one's; those of the files are of the file system. */
TEST(a_node_on_another_machine_is_gone_when_its_state_is_written_no_more)
{
    static const char state[] = "{\"id\":\"j-abcdef\",\"state\":\"running\",\"attempt\":1,\"host\":\"other\","
                                "\"written_s\":%d}";
    const char *folder = unit_folder();
    struct node_folder f = {.job_folder = folder};
    const struct timespec long_ago[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    char file[256], text[256];
    struct err e;

    snprintf(file, sizeof file, "%s/node-0", folder);
    assert_ok(file_mkdirs(file, 0700, &e));
    snprintf(file, sizeof file, "%s/node-0/node.json", folder);
    snprintf(text, sizeof text, state, 1000);
    write_at(folder, "node-0/node.json", text);
    assert_state_of(&f, "running");
    assert_int_equal(utimensat(AT_FDCWD, file, long_ago, 0), 0);
    assert_state(folder, "failed");
    assert_state_of(&f, "running"); /* it was seen to be written just now */
    f.process.heard_at -= 100;
    assert_state_of(&f, "failed");
    assert_true(f.has_vanished);
    snprintf(text, sizeof text, state, 1001);
    write_at(folder, "node-0/node.json", text);
    assert_state_of(&f, "running");
    assert_false(f.has_vanished);
    unit_remove(folder);
}

static void write_state(const char *folder, const char *in, int attempt)
{
    char path[256], text[128];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", folder, in);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/node.json", in);
    snprintf(text, sizeof text, "{\"id\":\"j-abcdef\",\"state\":\"failed\",\"attempt\":%d}", attempt);
    write_at(folder, path, text);
}

/* A node that an attempt has not reached. */
TEST(an_attempt_that_a_node_has_not_had_is_without_files)
{
    const char *folder = unit_folder();
    struct node_folder f = {.job_folder = folder};
    char path[256], *reply;
    struct err e;

    write_state(folder, "node-0", 3);
    write_state(folder, "node-0/jobs/j-abcdef", 1);
    write_state(folder, "node-0/jobs/j-abcdef.3", 3);
    snprintf(path, sizeof path, "%s/node-0/jobs/j-abcdef.3/run", folder);
    assert_ok(file_mkdirs(path, 0700, &e));
    write_at(folder, "node-0/jobs/j-abcdef.3/run/node.log", "three\n");
    reply = ask_for(&f, "/logs");
    assert_string_equal(reply, "three\n");
    free(reply);
    f.only_attempt = 2;
    assert_state_of(&f, "pending");
    reply = ask_for(&f, "/logs");
    assert_string_equal(reply, "");
    free(reply);
    unit_remove(folder);
}

/* Of a codec that writes what it likes into the folder of its runner. */
TEST(a_large_sparse_file_of_records_is_not_read_whole)
{
    const char *folder = unit_folder();
    struct node_folder f = {.job_folder = folder};
    char path[256], *reply;
    struct err e;

    write_state(folder, "node-0", 1);
    snprintf(path, sizeof path, "%s/node-0/jobs/j-abcdef/run", folder);
    assert_ok(file_mkdirs(path, 0700, &e));
    write_at(folder, "node-0/jobs/j-abcdef/run/train.csv", "step\n");
    snprintf(path, sizeof path, "%s/node-0/jobs/j-abcdef/run/train.csv", folder);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    reply = ask_for(&f, "/records.csv?after=0");
    assert_string_equal(reply, "");
    free(reply);
    write_at(folder, "node-0/jobs/j-abcdef/journal.jsonl", "{\"seq\":1,\"event\":\"end\"}\n");
    snprintf(path, sizeof path, "%s/node-0/jobs/j-abcdef/journal.jsonl", folder);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    reply = ask_for(&f, "/events");
    assert_string_equal(reply, "{\"seq\":1,\"event\":\"end\"}\n");
    free(reply);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_read_through_no_link),
        cmocka_unit_test(a_node_on_another_machine_is_gone_when_its_state_is_written_no_more),
        cmocka_unit_test(an_attempt_that_a_node_has_not_had_is_without_files),
        cmocka_unit_test(a_large_sparse_file_of_records_is_not_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
