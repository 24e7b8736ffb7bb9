#include "submit/job/node_folder.h"

#include <unistd.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* Of the answer to the request for the job's state. */
static void assert_state(const char *folder, const char *state)
{
    struct node_folder f = {.job_folder = folder};
    struct http_request r = {.method = "GET", .peer = "node", .max_reply = 1 << 20};
    struct err e;
    json_t *o;

    assert_ok(node_folder_answer(&f, &r, "j-abcdef", "/v1/jobs/j-abcdef", &e));
    assert_int_equal(r.err.code, 0);
    assert_ok(json_parse(&o, r.reply, r.reply_len, "reply", &e));
    assert_string_equal(json_text_at(o, "state"), state);
    json_decref(o);
    free(r.reply);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_read_through_no_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
