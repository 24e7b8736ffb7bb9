#include "runner/shm/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/memory.h"
#include "tests/lib/old_kernel.h"
#include "tests/lib/sealed_memory.h"
#include "tests/unit/unit.h"

enum { N = 5000, SIZE = 8192, NO_FILTER = 77 };

TEST(memory_written_by_the_owner_is_readable_and_read_only_for_others)
{
    struct sealed mine, theirs;
    unsigned char *bytes;
    struct err e;
    int fd;

    needs_sealed_memory();
    assert_ok(sealed_make(&mine, &fd, &shm_own, N, 2, &e));
    assert_ok(sealed_attach(&theirs, fd, N, N, &e));
    assert_int_equal(mine.size, SIZE);
    assert_int_equal(theirs.size, SIZE);
    bytes = mine.start;
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7);
    assert_memory_equal(theirs.start, mine.start, SIZE);

    assert_int_equal(mprotect(theirs.start, theirs.size, PROT_READ | PROT_WRITE), -1);
    assert_true(mmap(NULL, theirs.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    sealed_clear(&theirs);
    sealed_clear(&mine);
    close(fd);
}

static const int good_seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/* Opens a memfd of this size with these seals, of which the first byte or all is allocated; the error is in
 * *e. */
static void open_memfd(struct err *e, size_t size, int seals, bool is_whole)
{
    struct sealed v;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(fallocate(fd, 0, 0, is_whole ? (off_t)size : 1), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    *e = (struct err){0};
    if (sealed_attach(&v, fd, N, 2 * N, e) == 0)
        sealed_clear(&v);
    else
        assert_null(v.start);
    close(fd);
}

TEST(memory_that_could_shrink_change_owner_or_has_holes_is_refused)
{
    static const int seals[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};
    struct err e;

    needs_sealed_memory();
    open_memfd(&e, SIZE, good_seals, true);
    assert_int_equal(e.code, 0);
    for (size_t i = 0; i < N_OF(seals); i++) {
        open_memfd(&e, SIZE, good_seals & ~seals[i], true);
        assert_int_equal(e.code, ERR_PROTOCOL);
        assert_error_has("not sealed");
    }
    open_memfd(&e, SIZE - 4096, good_seals, true);
    assert_int_equal(e.code, ERR_PROTOCOL);
    assert_error_has("bytes, expected 8192 to 12288");
    open_memfd(&e, 2 * SIZE - 4096, good_seals, true);
    assert_int_equal(e.code, 0);
    open_memfd(&e, 2 * SIZE, good_seals, true);
    assert_error_has("bytes, expected 8192 to 12288");
    open_memfd(&e, SIZE, good_seals, false);
    assert_int_equal(e.code, ERR_PROTOCOL);
    assert_error_has("has holes");
}

TEST(a_file_or_a_pipe_instead_of_memory_is_refused)
{
    struct sealed v;
    struct err e;
    int fds[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(sealed_attach(&v, file, N, N, &e), ERR_PROTOCOL);
    assert_int_equal(sealed_attach(&v, fds[0], N, N, &e), ERR_PROTOCOL);
    assert_int_equal(sealed_attach(&v, -1, N, N, &e), ERR_PROTOCOL);
    close(file);
    close(fds[0]);
    close(fds[1]);
}

TEST(more_memory_than_the_machine_has_is_refused_with_a_message)
{
    static const size_t lengths[] = {0, (size_t)1 << 50, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX};
    struct sealed v;
    struct err e;
    int fd;

    for (size_t i = 0; i < N_OF(lengths); i++) {
        assert_int_equal(sealed_make(&v, &fd, &shm_own, lengths[i], 2, &e), ERR_NOMEM);
        assert_error_has("do not fit into half of the memory that is free");
        assert_int_equal(fd, -1);
        assert_null(v.start);
    }
}

/* So many nodes that each has little. */
TEST(half_of_the_free_memory_stays_free)
{
    enum { EACH = 1 << 20 };
    double all = memory_available();
    struct sealed v;
    struct err e;
    int fd;

    needs_sealed_memory();
    assert_int_equal(sealed_make(&v, &fd, &shm_own, EACH, (int)(0.75 * all / (double)EACH), &e), ERR_NOMEM);
    assert_ok(sealed_make(&v, &fd, &shm_own, EACH, (int)(0.25 * all / (double)EACH), &e));
    sealed_clear(&v);
    close(fd);
}

TEST(an_old_kernel_is_reported_as_the_reason)
{
    struct sealed v;
    struct err e;
    int fd, status;
    pid_t pid = fork();

    if (pid == 0) {
        if (old_kernel_begin() < 0)
            _exit(NO_FILTER);
        _exit(sealed_make(&v, &fd, &shm_own, N, 2, &e) == ERR_IO && fd < 0 && strstr(e.text, "Linux 5.1")
                  ? EXIT_SUCCESS
                  : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER)
        skip();
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_written_by_the_owner_is_readable_and_read_only_for_others),
        cmocka_unit_test(memory_that_could_shrink_change_owner_or_has_holes_is_refused),
        cmocka_unit_test(a_file_or_a_pipe_instead_of_memory_is_refused),
        cmocka_unit_test(more_memory_than_the_machine_has_is_refused_with_a_message),
        cmocka_unit_test(half_of_the_free_memory_stays_free),
        cmocka_unit_test(an_old_kernel_is_reported_as_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
