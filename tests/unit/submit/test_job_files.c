#include "submit/browse/job_files.h"

#include "tests/unit/unit.h"

enum { PIECE = 100 };

/* Appends a piece to a copy. The length before it, or an error's code. */
static int append(struct job_files *c, const char *id, const char *file, struct err *e)
{
    static const char piece[PIECE];
    off_t had;
    int fd;

    if (job_files_append(&fd, &had, c, id, 0, 1, file, e) < 0)
        return e->code;
    assert_int_equal(write(fd, piece, PIECE), PIECE);
    close(fd);
    job_files_count(c, id, PIECE);
    return (int)had;
}

static bool has(const struct job_files *c, const char *id)
{
    char path[PATH_MAX];

    return job_files_folder(path, sizeof path, c, id);
}

TEST(copies_of_one_job_are_removed_for_those_of_another_that_is_viewed)
{
    struct job_files c;
    struct err e;

    assert_ok(job_files_open(&c, &e));
    c.file_most = 2 * PIECE;
    c.all_most = 4 * PIECE;
    assert_int_equal(append(&c, "j-a", "node.log", &e), 0);
    assert_int_equal(append(&c, "j-a", "node.log", &e), PIECE);
    assert_int_equal(append(&c, "j-a", "node.log", &e), ERR_NOSPACE);
    assert_error_has("node.log of node 0");
    for (int i = 0; i < 2; i++)
        assert_ok(append(&c, "j-b", "records/train.csv", &e));
    assert_ok(append(&c, "j-b", "records/eval.csv", &e));
    assert_false(has(&c, "j-a"));
    assert_ok(append(&c, "j-b", "records/eval.csv", &e));
    assert_int_equal(append(&c, "j-b", "records/codec.csv", &e), ERR_NOSPACE); /* all of it is its own */
    job_files_close(&c);
}

TEST(unused_copies_are_removed)
{
    char id[LISTED_ID];
    struct job_files c;
    struct err e;

    assert_ok(job_files_open(&c, &e));
    assert_ok(append(&c, "j-a", "node.log", &e));
    job_files_drop_unused(&c, c.jobs[0].used_at + 10);
    assert_true(has(&c, "j-a"));
    job_files_drop_unused(&c, c.jobs[0].used_at + 1000);
    assert_false(has(&c, "j-a"));
    for (int i = 0; i <= JOB_FILES_JOBS; i++) {
        snprintf(id, sizeof id, "j-%d", i);
        assert_ok(append(&c, id, "node.log", &e));
    }
    assert_false(has(&c, "j-0"));
    assert_true(has(&c, "j-1"));
    job_files_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_one_job_are_removed_for_those_of_another_that_is_viewed),
        cmocka_unit_test(unused_copies_are_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
