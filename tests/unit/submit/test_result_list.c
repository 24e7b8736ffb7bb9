#include "submit/browse/result_list.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "submit/browse/documents.h"
#include "submit/browse/result_cache.h"
#include "tests/unit/unit.h"

static void put_run(const char *folder, const char *name, const char *id, const char *state)
{
    char path[300];
    char text[200];
    struct err e;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/%s/run.json", folder, name);
    snprintf(text, sizeof text, "{\"id\": \"%s\", \"state\": \"%s\"}", id, state);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

static struct result_list results_of(const char *folder)
{
    static const char *root[1];

    root[0] = folder;
    return (struct result_list){.roots = root, .n_roots = 1};
}

TEST(folders_with_a_run_json_are_found_two_levels_deep_and_no_link_is_followed)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    char path[300];
    struct err e;

    put_run(folder, "one", "j-one", "succeeded");
    put_run(folder, "sweep/two", "j-two", "running");
    put_run(folder, "sweep/deep/three", "j-three", "failed");
    put_run(folder, "wrong", "../../etc", "failed");
    snprintf(path, sizeof path, "%s/latest", folder);
    assert_int_equal(symlink("one", path), 0);
    assert_ok(result_list_scan(&l, &e));
    assert_non_null(result_list_find(&l, "j-one"));
    assert_true(result_list_find(&l, "j-one")->is_settled);
    assert_false(result_list_find(&l, "j-two")->is_settled);
    assert_null(result_list_find(&l, "j-three"));
    assert_null(result_list_find(&l, "j-one~2"));
    assert_null(result_list_find(&l, "../../etc"));
    result_list_clear(&l);
    unit_remove(folder);
}

TEST(runs_of_a_sweep_are_found_and_named_after_it_and_nothing_below_a_result)
{
    static const char *const files[] = {"S/sweep.json", "group/T/sweep.json", "S/runs/lr-1/sub/sweep.json"};
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    char path[300];
    struct err e;

    put_run(folder, "S/runs/lr-1", "j-one", "succeeded");
    put_run(folder, "group/T/runs/lr-2", "j-two", "succeeded");
    put_run(folder, "S/runs/lr-1/sub", "j-below", "succeeded");
    put_run(folder, "plain/sub/deep", "j-deep", "succeeded");
    for (size_t i = 0; i < N_OF(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_ok(file_write(path, "{}", 2, 0600, &e));
    }
    assert_ok(result_list_scan(&l, &e));
    assert_string_equal(shown_text(result_list_find(&l, "j-one")->line, "sweep"), "S");
    assert_string_equal(shown_text(result_list_find(&l, "j-two")->line, "sweep"), "T");
    assert_null(result_list_find(&l, "j-below"));
    assert_null(result_list_find(&l, "j-deep"));
    result_list_clear(&l);
    unit_remove(folder);
}

TEST(a_changed_run_json_is_read_again_and_a_removed_folder_leaves_the_index)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    uint64_t version;
    char path[300];
    struct err e;

    put_run(folder, "one", "j-one", "running");
    assert_ok(result_list_scan(&l, &e));
    assert_string_equal(shown_text(result_list_find(&l, "j-one")->line, "state"), "running");
    version = l.version;
    assert_ok(result_list_scan(&l, &e)); /* nothing is new */
    assert_int_equal(l.version, version);
    put_run(folder, "one", "j-one", "succeeded");
    assert_ok(result_list_scan(&l, &e));
    assert_string_equal(shown_text(result_list_find(&l, "j-one")->line, "state"), "succeeded");
    assert_int_equal(l.n, 1);
    assert_true(l.version > version);
    version = l.version;
    snprintf(path, sizeof path, "%s/one", folder);
    assert_ok(file_remove_tree(path, &e));
    assert_ok(result_list_scan(&l, &e));
    assert_int_equal(l.n, 0);
    assert_true(l.version > version);
    unit_remove(folder);
    assert_ok(result_list_scan(&l, &e)); /* the whole folder is gone */
    result_list_clear(&l);
}

TEST(copies_of_a_folder_are_shown_beside_each_other)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    struct err e;

    put_run(folder, "a", "j-one", "succeeded");
    put_run(folder, "b", "j-one", "succeeded");
    assert_ok(result_list_scan(&l, &e));
    assert_non_null(result_list_find(&l, "j-one"));
    assert_non_null(result_list_find(&l, "j-one~2"));
    put_run(folder, "a", "j-one", "failed");
    assert_ok(result_list_scan(&l, &e)); /* it keeps its id */
    assert_non_null(result_list_find(&l, "j-one"));
    assert_non_null(result_list_find(&l, "j-one~2"));
    result_list_clear(&l);
    unit_remove(folder);
}

TEST(each_of_a_thousand_copies_has_an_id_of_its_own)
{
    enum { COPIES = 1005 };
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    struct err e;
    char id[32];

    for (int i = 0; i < COPIES; i++) {
        snprintf(id, sizeof id, "%d", i);
        put_run(folder, id, "j-one", "succeeded");
    }
    assert_ok(result_list_scan(&l, &e));
    assert_non_null(result_list_find(&l, "j-one"));
    for (int i = 2; i <= COPIES; i++) {
        snprintf(id, sizeof id, "j-one~%d", i);
        assert_non_null(result_list_find(&l, id));
    }
    result_list_clear(&l);
    unit_remove(folder);
}

/* Scans with so many descriptors. */
static void scan_with(struct result_list *l, int n)
{
    struct rlimit most, few;
    struct err e;
    int lowest = dup(0);

    assert_true(lowest >= 0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
    few = (struct rlimit){(rlim_t)(lowest + n), most.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_ok(result_list_scan(l, &e));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
}

TEST(without_descriptors_the_earlier_results_are_kept)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    struct err e;

    put_run(folder, "one", "j-one", "succeeded");
    scan_with(&l, 100);
    for (int n = 0; n < 3; n++)
        scan_with(&l, n);
    assert_non_null(result_list_find(&l, "j-one"));
    put_run(folder, "two", "j-two", "succeeded");
    scan_with(&l, 2); /* its folder is opened, its run.json is not */
    assert_null(result_list_find(&l, "j-two"));
    assert_ok(result_list_scan(&l, &e));
    assert_non_null(result_list_find(&l, "j-two"));
    unit_remove(folder);
    assert_ok(result_list_scan(&l, &e));
    assert_null(result_list_find(&l, "j-one"));
    result_list_clear(&l);
}

TEST(a_folder_of_results_is_a_list_of_one)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder);
    struct err e;

    put_run(folder, ".", "j-one", "succeeded");
    assert_ok(result_list_scan(&l, &e));
    assert_non_null(result_list_find(&l, "j-one"));
    result_list_clear(&l);
    unit_remove(folder);
}

/* The path of the only file in a folder. */
static void only_file(char *out, size_t size, const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *f;

    assert_non_null(d);
    while ((f = readdir(d)) != NULL)
        if (f->d_name[0] != '.')
            snprintf(out, size, "%s/%s", folder, f->d_name);
    closedir(d);
}

TEST(many_results_are_kept_for_the_next_process_and_a_damaged_file_is_not_used)
{
    const char *folder = unit_folder();
    struct result_list l = results_of(folder), next = results_of(folder);
    char path[300], cached[600];
    struct err e;

    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < RESULT_CACHE_LEAST; i++) {
        char name[32], id[32];

        snprintf(name, sizeof name, "all/%d", i);
        snprintf(id, sizeof id, "j-%d", i / 2); /* each twice */
        put_run(folder, name, id, i ? "succeeded" : "running");
    }
    assert_ok(result_list_scan(&l, &e));
    result_cache_save(&l);
    result_cache_load(&next);
    assert_int_equal(next.n, l.n);
    assert_false(result_list_find(&next, "j-0")->is_settled);
    assert_ok(result_list_scan(&next, &e));
    assert_int_equal(next.version, next.saved); /* nothing was read */
    assert_int_equal(next.n, l.n);
    assert_non_null(result_list_find(&next, "j-7~2"));
    snprintf(path, sizeof path, "%s/all/1", folder);
    assert_ok(file_remove_tree(path, &e));
    assert_ok(result_list_scan(&next, &e));
    assert_null(result_list_find(&next, "j-0~2"));
    result_list_clear(&next);

    snprintf(path, sizeof path, "%s/psgd/results", folder);
    only_file(cached, sizeof cached, path);
    for (int i = 0; i < 3; i++) {
        static const char *const damaged[] = {"[1]\n[", "", "\n\n{}\n"};

        assert_ok(file_write(cached, damaged[i], strlen(damaged[i]), 0600, &e));
        next = results_of(folder);
        result_cache_load(&next);
        assert_int_equal(next.n, 0);
        assert_ok(result_list_scan(&next, &e));
        assert_int_equal(next.n, l.n - 1);
        result_list_clear(&next);
    }
    result_list_clear(&l);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_with_a_run_json_are_found_two_levels_deep_and_no_link_is_followed),
        cmocka_unit_test(runs_of_a_sweep_are_found_and_named_after_it_and_nothing_below_a_result),
        cmocka_unit_test(a_changed_run_json_is_read_again_and_a_removed_folder_leaves_the_index),
        cmocka_unit_test(copies_of_a_folder_are_shown_beside_each_other),
        cmocka_unit_test(each_of_a_thousand_copies_has_an_id_of_its_own),
        cmocka_unit_test(without_descriptors_the_earlier_results_are_kept),
        cmocka_unit_test(a_folder_of_results_is_a_list_of_one),
        cmocka_unit_test(many_results_are_kept_for_the_next_process_and_a_damaged_file_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
