#include "submit/results/job_index.h"

#include <sys/stat.h>

#include "submit/files/job_id.h"
#include "tests/unit/unit.h"

static struct err e;
static struct options o;

static void begin(struct submission *s, const char *id)
{
    assert_ok(submission_init(s, &o, &e));
    if (id)
        snprintf(s->id, sizeof s->id, "%s", id);
    settings_default(&s->settings);
    s->settings.node_count = 2;
    s->settings.server_count = 1;
    strcpy(s->settings.name, "first");
    strcpy(s->csv_style, "tidy");
    strcpy(s->folder, "/somewhere/out");
    s->n_dense = 3;
    s->workers.nodes = calloc(3, sizeof *s->workers.nodes);
    s->workers.n_workers = 2;
    s->workers.n_servers = 1;
    for (int i = 0; i < 3; i++) {
        struct listed_agent *w = &s->workers.nodes[i];

        w->node = i < 2 ? i : -2;
        w->port = 15387 + i;
        strcpy(w->host, "127.0.0.1");
        snprintf(w->address, sizeof w->address, "127.0.0.1:%d", w->port);
    }
    assert_ok(submission_set_nodes(s, 2, 1, &e));
    json_object_set_new(s->facts, "codec", json_pack("{s:s}", "name", "plain"));
}

static void save(const char *id)
{
    struct submission s;

    begin(&s, id);
    assert_ok(job_index_save(&s, &e));
    submission_clear(&s);
}

static int load(struct submission *s, const char *id)
{
    assert_ok(submission_init(s, &o, &e));
    return job_index_load(s, id, &e);
}

static const char *home(void)
{
    const char *folder = unit_folder();

    setenv("XDG_STATE_HOME", folder, 1);
    memset(&o, 0, sizeof o);
    settings_default(&o.settings);
    return folder;
}

TEST(a_saved_job_is_found_with_its_agents_and_folder)
{
    const char *folder = home();
    struct submission s;

    save("j-1aaaaa");
    assert_ok(load(&s, "j-1aaaaa"));
    assert_string_equal(s.settings.name, "first");
    assert_string_equal(s.folder, "/somewhere/out");
    assert_int_equal(s.n_nodes, 3);
    assert_string_equal(s.nodes[1].at.address, "127.0.0.1:15388");
    assert_int_equal(s.nodes[2].at.node, -2);
    assert_string_equal(json_string_value(json_object_get(json_object_get(s.facts, "codec"), "name")),
                        "plain");
    submission_clear(&s);
    unit_remove(folder);
}

TEST(the_job_that_a_folder_is_for_is_found_unless_it_has_ended)
{
    const char *folder = home();
    char id[JOB_ID_MAX];
    struct submission s;

    save("j-1aaaaa");
    save("j-2aaaaa");
    assert_ok(job_index_in_folder(id, "/somewhere/out", &e));
    assert_string_equal(id, "j-2aaaaa");
    begin(&s, "j-3aaaaa");
    s.state = JOB_FAILED;
    assert_ok(job_index_save(&s, &e));
    submission_clear(&s);
    assert_ok(job_index_in_folder(id, "/somewhere/out", &e)); /* the earlier ones were given up */
    assert_string_equal(id, "");
    assert_ok(job_index_in_folder(id, "/somewhere/else", &e));
    assert_string_equal(id, "");
    unit_remove(folder);
}

TEST(the_reason_of_a_failed_job_is_saved)
{
    const char *folder = home();
    struct submission s;

    begin(&s, "j-1aaaaa");
    s.state = JOB_FAILED;
    s.cause = 2;
    strcpy(s.nodes[2].view.reason, "NodeLost");
    strcpy(s.nodes[2].view.message, "agent does not answer");
    assert_ok(job_index_save(&s, &e));
    submission_clear(&s);
    for (int again = 0; again < 2; again++) { /* also by a command that learns nothing new */
        assert_ok(load(&s, "j-1aaaaa"));
        assert_int_equal(s.state, JOB_FAILED);
        assert_int_equal(s.seen.node, -2);
        assert_string_equal(s.seen.reason, "NodeLost");
        assert_string_equal(s.seen.message, "agent does not answer");
        assert_ok(job_index_save(&s, &e));
        submission_clear(&s);
    }
    unit_remove(folder);
}

TEST(an_id_prefix_finds_a_job_and_no_id_the_latest)
{
    const char *folder = home();
    struct submission s;

    save("j-1aaaaa");
    save("j-1abbbb");
    save("j-2ccccc");
    assert_ok(load(&s, "j-1ab"));
    assert_string_equal(s.id, "j-1abbbb");
    submission_clear(&s);
    assert_ok(load(&s, NULL));
    assert_string_equal(s.id, "j-2ccccc");
    submission_clear(&s);
    assert_int_equal(load(&s, "j-1a"), ERR_USAGE);
    assert_error_has("prefix of 2 jobs");
    submission_clear(&s);
    assert_int_equal(load(&s, "j-9"), ERR_NOT_FOUND);
    submission_clear(&s);
    job_index_remove("j-1aaaaa");
    job_index_remove("j-2ccccc");
    assert_int_equal(load(&s, ""), ERR_USAGE); /* there is only one job, and the id is not its */
    assert_error_has("the job's id is empty");
    submission_clear(&s);
    assert_ok(load(&s, NULL));
    assert_string_equal(s.id, "j-1abbbb");
    submission_clear(&s);
    unit_remove(folder);
}

static void save_named(const char *id, const char *name)
{
    struct submission s;

    begin(&s, id);
    strcpy(s.settings.name, name);
    assert_ok(job_index_save(&s, &e));
    submission_clear(&s);
}

TEST(a_name_finds_the_only_job_that_has_it)
{
    const char *folder = home();
    struct submission s;

    save_named("j-1aaaaa", "mnist-slow");
    for (char id[] = "j-1baaaa"; id[7] < 'g'; id[7]++)
        save_named(id, "digits");
    assert_ok(load(&s, "mnist-slow"));
    assert_string_equal(s.id, "j-1aaaaa");
    submission_clear(&s);
    assert_int_equal(load(&s, "digits"), ERR_USAGE);
    assert_error_has("digits is the name of 6 jobs");
    assert_string_equal(e.hint,
                        "Give the id; the latest first: j-1baaaf, j-1baaae, j-1baaad, j-1baaac and more.");
    submission_clear(&s);
    assert_int_equal(load(&s, "mnist-slov"), ERR_NOT_FOUND);
    assert_error_has("no job mnist-slov was submitted from here");
    assert_string_equal(e.hint, "Did you mean mnist-slow?");
    submission_clear(&s);
    unit_remove(folder);
}

TEST(a_result_folder_names_its_job)
{
    const char *folder = home();
    char path[PATH_MAX];
    struct submission s;

    save("j-1aaaaa");
    save("j-1baaaa");
    snprintf(path, sizeof path, "%s/run.json", folder);
    assert_ok(file_write(path, "{\"id\":\"j-1aaaaa\"}", 17, 0600, &e));
    assert_ok(load(&s, folder));
    assert_string_equal(s.id, "j-1aaaaa");
    submission_clear(&s);
    assert_ok(file_write(path, "{\"id\":\"j-1caaaa\"}", 17, 0600, &e));
    assert_int_equal(load(&s, folder), ERR_NOT_FOUND);
    submission_clear(&s);
    unit_remove(folder);
}

TEST(the_job_record_is_private_and_holds_no_token)
{
    const char *folder = home();
    char path[PATH_MAX];
    struct submission s;
    struct stat st;
    size_t len;
    char *text;

    begin(&s, "j-1aaaaa");
    strcpy(s.nodes[0].token, "0123456789-SECRET-0123456789");
    assert_ok(job_index_save(&s, &e));
    submission_clear(&s);
    snprintf(path, sizeof path, "%s/psgd/jobs/j-1aaaaa.json", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    assert_null(strstr(text, "SECRET"));
    free(text);
    unit_remove(folder);
}

TEST(new_ids_differ_and_sort_by_time)
{
    char a[JOB_ID_MAX], b[JOB_ID_MAX];

    job_id_new(a);
    job_id_new(b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 15);
    assert_int_equal(strspn(a + 2, "abcdefghijklmnopqrstuvwxyz0123456789"), 13);
    assert_true(strncmp(a, b, 10) <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_job_is_found_with_its_agents_and_folder),
        cmocka_unit_test(the_job_that_a_folder_is_for_is_found_unless_it_has_ended),
        cmocka_unit_test(the_reason_of_a_failed_job_is_saved),
        cmocka_unit_test(an_id_prefix_finds_a_job_and_no_id_the_latest),
        cmocka_unit_test(a_name_finds_the_only_job_that_has_it),
        cmocka_unit_test(a_result_folder_names_its_job),
        cmocka_unit_test(the_job_record_is_private_and_holds_no_token),
        cmocka_unit_test(new_ids_differ_and_sort_by_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
