#include "shared/base/memory.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/emulated.h"
#include "tests/unit/unit.h"

enum { LIMIT = 64 << 20, CACHED = 40 << 20, FOLDER = 1536 };

static bool put(const char *folder, const char *file, long number)
{
    char path[2048];
    FILE *f;
    bool is_put;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    f = fopen(path, "we");
    if (!f)
        return false;
    is_put = fprintf(f, "%ld\n", number) > 0;
    return fclose(f) == 0 && is_put;
}

/* Creates a cgroup of this test's own inside its current one, with a limit; false: not permitted. */
static bool make_group(char folder[FOLDER])
{
    char line[PATH_MAX], group[1024];
    FILE *f = fopen("/proc/self/cgroup", "re");
    bool is_made = false;

    while (f && !is_made && fgets(line, sizeof line, f)) {
        const char *limit = NULL;

        if (sscanf(line, "0::%1000s", group) == 1) {
            snprintf(folder, FOLDER, "/sys/fs/cgroup%s/psgd-test-%d", group, getpid());
            limit = "memory.max";
        } else if (sscanf(line, "%*d:memory:%1000s", group) == 1) {
            snprintf(folder, FOLDER, "/sys/fs/cgroup/memory%s/psgd-test-%d", group, getpid());
            limit = "memory.limit_in_bytes";
        }
        if (!limit || mkdir(folder, 0755) < 0)
            continue;
        is_made = put(folder, limit, LIMIT);
        if (!is_made)
            rmdir(folder);
    }
    if (f)
        fclose(f);
    return is_made;
}

/* Writes a file and reads it repeatedly, so that the kernel keeps its pages as active; false: it cannot be
 * created. */
static bool use_file(void)
{
    static char part[1 << 20];
    FILE *f = tmpfile();

    for (size_t i = 0; f && i < CACHED / sizeof part; i++)
        if (fwrite(part, sizeof part, 1, f) != 1)
            return false;
    if (!f || fflush(f) != 0 || fsync(fileno(f)) < 0)
        return false;
    for (int times = 0; times < 4; times++) {
        rewind(f);
        while (fread(part, sizeof part, 1, f) == 1)
            ;
    }
    return true; /* kept open: without its file there would be no pages */
}

/* Whether temporary files are on a disk: pages of files in memory cannot be reclaimed. */
static bool has_disk(void)
{
    struct statfs fs;

    return statfs(P_tmpdir, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC;
}

/* Run by a process in the cgroup. */
static double available_inside(const char *folder, bool with_file)
{
    int ends[2];
    double bytes = 0;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        bytes = put(folder, "cgroup.procs", getpid()) && (!with_file || use_file()) ? memory_available() : -1;
        _exit(write(ends[1], &bytes, sizeof bytes) != (ssize_t)sizeof bytes);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &bytes, sizeof bytes), sizeof bytes);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return bytes;
}

TEST(available_memory_respects_the_limit_of_a_cgroup)
{
    char folder[FOLDER];
    double all = memory_available(), inside, beside_file;

    if (!make_group(folder)) {
        print_message("skipped: this user may not create a control group\n");
        skip();
    }
    inside = available_inside(folder, false);
    beside_file = available_inside(folder, has_disk());
    for (int i = 0; rmdir(folder) < 0 && errno == EBUSY && i < 1000; i++)
        usleep(1000); /* until the kernel has noticed that it is empty */
    assert_true(all > (double)LIMIT);
    assert_true(inside > 0 && inside <= (double)LIMIT);
    assert_true(beside_file > LIMIT - CACHED); /* the kernel reclaims a file's pages */
}

static unsigned long long used_by_this_process(const char *form)
{
    FILE *f = fopen("/proc/self/status", "re");
    unsigned long long kib = 0;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        sscanf(line, form, &kib);
    if (f)
        fclose(f);
    return 1024 * kib;
}

static bool limit_space(void)
{
    return setrlimit(RLIMIT_AS,
                     &(struct rlimit){used_by_this_process("VmSize: %llu kB") + LIMIT, RLIM_INFINITY}) == 0;
}

static bool limit_data(void)
{
    return setrlimit(RLIMIT_DATA,
                     &(struct rlimit){used_by_this_process("VmData: %llu kB") + LIMIT, RLIM_INFINITY}) == 0;
}

/* Memory that a child process sees as available when `limit` leaves it LIMIT bytes beyond its use. */
static double available_beside(bool (*limit)(void))
{
    double *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double bytes;
    pid_t child;

    assert_ptr_not_equal(seen, MAP_FAILED);
    child = fork();
    if (child == 0) {
        *seen = limit() ? memory_available() : -1;
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    bytes = *seen;
    munmap(seen, sizeof *seen);
    return bytes;
}

TEST(available_memory_respects_the_limit_of_the_process)
{
    double space, data;

    if (is_emulated())
        skip();
    space = available_beside(limit_space);
    data = available_beside(limit_data);
    assert_true(space > LIMIT / 2 && space <= LIMIT);
    assert_true(data > LIMIT / 2 && data <= LIMIT);
}

/* Returns the memory that a child process finds, by files that it keeps open, after it has taken `bytes`
 * more. */
static double available_after(size_t bytes, double *before)
{
    double *seen = mmap(NULL, 2 * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double after;
    pid_t child;

    assert_ptr_not_equal(seen, MAP_FAILED);
    child = fork();
    if (child == 0) {
        limit_data();
        memory_keep_open();
        seen[0] = memory_available();
        seen[1] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
                      ? -1
                      : memory_available();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    *before = seen[0];
    after = seen[1];
    munmap(seen, 2 * sizeof *seen);
    return after;
}

TEST(available_memory_is_read_anew_also_from_files_that_stay_open)
{
    double before, after;

    if (is_emulated())
        skip();
    after = available_after(LIMIT / 2, &before);
    assert_true(before > LIMIT / 2 && before <= LIMIT);
    assert_true(after >= 0 && after <= before - LIMIT / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(available_memory_is_read_anew_also_from_files_that_stay_open),
        cmocka_unit_test(available_memory_respects_the_limit_of_the_process),
        cmocka_unit_test(available_memory_respects_the_limit_of_a_cgroup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
