#include "shared/job/job_folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "tests/unit/unit.h"

static int open_lock(const char *node)
{
    char path[256];
    struct err e;
    int fd;

    assert_ok(file_join(path, sizeof path, node, "lock", &e));
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

TEST(a_node_without_a_lock_has_no_process_and_a_lock_is_held_until_its_process_ends)
{
    const char *dir = unit_folder();
    int fd;

    assert_int_equal(job_folder_lock(dir), JOB_FOLDER_NO_LOCK);
    fd = open_lock(dir);
    assert_int_equal(job_folder_lock(dir), JOB_FOLDER_FREE);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(job_folder_lock(dir), JOB_FOLDER_HELD);
    close(fd);
    assert_int_equal(job_folder_lock(dir), JOB_FOLDER_FREE);
    unit_remove(dir);
}

/* Process 0 and `job_submit wait` may look at the same moment. */
TEST(an_observer_of_a_lock_is_not_taken_for_its_holder)
{
    const char *dir = unit_folder();
    int observer = open_lock(dir);

    assert_int_equal(flock(observer, LOCK_SH | LOCK_NB), 0); /* as job_folder_lock() does */
    assert_int_equal(job_folder_lock(dir), JOB_FOLDER_FREE);
    close(observer);
    unit_remove(dir);
}

TEST(a_folder_whose_job_was_refused_says_why)
{
    static const char refused[] = "{\"launch\":\"slurm-4\",\"sentence\":\"unknown model x\"}";
    const char *dir = unit_folder();
    char path[256];
    json_t *document;
    struct err e;

    assert_int_equal(job_folder_read(&document, dir, &e), ERR_NOT_FOUND);
    assert_ok(file_join(path, sizeof path, dir, JOB_FOLDER_REFUSAL, &e));
    assert_ok(file_write(path, refused, sizeof refused - 1, 0600, &e));
    assert_int_equal(job_folder_read(&document, dir, &e), ERR_REFUSED);
    assert_error_has("has no job: it was refused: unknown model x");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_without_a_lock_has_no_process_and_a_lock_is_held_until_its_process_ends),
        cmocka_unit_test(an_observer_of_a_lock_is_not_taken_for_its_holder),
        cmocka_unit_test(a_folder_whose_job_was_refused_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
