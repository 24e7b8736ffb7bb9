#include "agent/jobs/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/both_kernels.h"
#include "tests/unit/unit.h"

struct scene {
    const char *folder;
    int dir_fd;
    char run[128];
};

static void scene_open(struct scene *s)
{
    struct err e;

    s->folder = unit_folder();
    snprintf(s->run, sizeof s->run, "%s/jobs/j-abcdef/run", s->folder);
    assert_ok(file_mkdirs(s->run, 0700, &e));
    s->dir_fd = open(s->folder, O_RDONLY | O_DIRECTORY);
}

static void scene_close(struct scene *s)
{
    close(s->dir_fd);
    unit_remove(s->folder);
}

static void path_in(char out[256], const struct scene *s, const char *name)
{
    snprintf(out, 256, "%s/%s", s->run, name);
}

TEST(only_listed_names_are_artifacts)
{
    assert_string_equal(artifact_find("train.csv"), "train.csv");
    assert_null(artifact_find("../../token"));
    assert_null(artifact_find("train.csv.tmp"));
    assert_null(artifact_find(""));
    for (int i = 0; i < N_ARTIFACTS; i++)
        assert_non_null(artifact_type(artifacts[i].name));
}

TEST(a_regular_file_is_opened_with_its_size)
{
    struct scene s;
    char path[256];
    uint64_t bytes;
    struct err e;
    int fd;

    scene_open(&s);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "train.csv", &e), ERR_NOT_FOUND);
    path_in(path, &s, "train.csv");
    assert_ok(file_write(path, "a\nb\nc", 5, 0600, &e));
    assert_ok(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "train.csv", &e));
    assert_int_equal(bytes, 5);
    assert_int_equal(file_whole_lines(fd, bytes), 4);
    assert_int_equal(file_whole_lines(fd, 1), 0);
    assert_int_equal(file_whole_lines(fd, 0), 0);
    close(fd);
    scene_close(&s);
}

TEST(anything_but_a_regular_file_is_refused)
{
    struct scene s;
    char path[256], other[256];
    uint64_t bytes;
    struct err e;
    int fd;

    scene_open(&s);
    path_in(path, &s, "train.csv");
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "train.csv", &e), ERR_REFUSED);
    path_in(other, &s, "other");
    assert_ok(file_write(other, "x", 1, 0600, &e));
    path_in(path, &s, "eval.csv");
    assert_int_equal(symlink("other", path), 0); /* inside the folder, but a symlink */
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "eval.csv", &e), ERR_REFUSED);
    path_in(path, &s, "comm.csv");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "comm.csv", &e), ERR_REFUSED);
    path_in(path, &s, "node.log");
    assert_int_equal(link(other, path), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "node.log", &e), ERR_REFUSED);
    path_in(path, &s, "best.safetensors");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "best.safetensors", &e), ERR_REFUSED);
    scene_close(&s);
}

TEST(the_source_of_a_codec_is_read_from_the_package_even_if_it_is_a_blob)
{
    struct scene s;
    char blob[256], path[256];
    uint64_t bytes;
    struct err e;
    int fd;

    scene_open(&s);
    snprintf(path, sizeof path, "%s/jobs/j-abcdef/packages", s.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(blob, sizeof blob, "%s/blob", s.folder);
    assert_ok(file_write(blob, "int x;", 6, 0400, &e));
    snprintf(path, sizeof path, "%s/jobs/j-abcdef/packages/codec.c", s.folder);
    assert_int_equal(link(blob, path), 0);
    assert_ok(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "codec.c", &e));
    assert_int_equal(bytes, 6);
    close(fd);
    unlink(path);
    assert_int_equal(symlink(blob, path), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "codec.c", &e), ERR_REFUSED);
    scene_close(&s);
}

TEST(a_run_folder_replaced_by_a_symlink_is_not_followed)
{
    struct scene s;
    char elsewhere[256], run[256];
    uint64_t bytes;
    struct err e;
    int fd;

    scene_open(&s);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", s.folder);
    snprintf(run, sizeof run, "%s/jobs/j-abcdef/run", s.folder);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(rmdir(run), 0);
    assert_int_equal(symlink(elsewhere, run), 0);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere/train.csv", s.folder);
    assert_ok(file_write(elsewhere, "x", 1, 0600, &e));
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "train.csv", &e), ERR_REFUSED);
    scene_close(&s);
}

TEST(a_path_cannot_lead_to_a_parent_folder)
{
    static const char *const ids[] = {"..", "../..", "j-abcdef/..", "../jobs/j-abcdef", "/etc"};
    struct scene s;
    char path[256];
    uint64_t bytes;
    struct err e;
    int fd;

    scene_open(&s);
    snprintf(path, sizeof path, "%s/run", s.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/run/train.csv", s.folder);
    assert_ok(file_write(path, "x", 1, 0600, &e)); /* "jobs/../run/train.csv" */
    path_in(path, &s, "train.csv");
    assert_ok(file_write(path, "x", 1, 0600, &e));
    for (size_t i = 0; i < N_OF(ids); i++)
        assert_int_not_equal(artifact_open(&fd, &bytes, s.dir_fd, ids[i], "train.csv", &e), 0);
    assert_int_equal(artifact_open(&fd, &bytes, s.dir_fd, "..", "train.csv", &e), ERR_REFUSED);
    scene_close(&s);
}

enum { NO_MOUNT = 77, LET_IN = 78 };

/* Runs in a child, where /proc or a file of it is mounted over a run's folder or a file in it, as an
 * ordinary user may do in a user namespace. */
static int on_mount(const struct scene *s, const char *from, const char *to)
{
    uint64_t bytes;
    struct err e;
    int status, fd;
    pid_t pid = fork();

    if (pid == 0) {
        if ((unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
            _exit(NO_MOUNT);
        fd = open(s->folder, O_RDONLY | O_DIRECTORY); /* the scene's descriptor does not see these mounts */
        if (artifact_open(&fd, &bytes, fd, "j-abcdef", "train.csv", &e) == 0)
            _exit(LET_IN);
        _exit(e.code == ERR_REFUSED && strstr(e.text, strerror(EXDEV)) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

TEST(other_file_systems_are_not_entered)
{
    struct scene s;
    char path[256];
    struct err e;
    int as_folder, as_file;

    scene_open(&s);
    path_in(path, &s, "train.csv");
    assert_ok(file_write(path, "x", 1, 0600, &e));
    as_folder = on_mount(&s, "/proc", s.run);
    as_file = on_mount(&s, "/proc/version", path);
    scene_close(&s);
    if (as_folder == NO_MOUNT)
        skip();
    assert_int_equal(as_folder, EXIT_SUCCESS);
    assert_int_equal(as_file, EXIT_SUCCESS);
}

/* Bytes of files that this process has read. */
static unsigned long long bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %llu", &n), 1);
    fclose(f);
    return n;
}

TEST(a_large_sparse_file_is_not_read_whole)
{
    struct scene s;
    char path[256];
    uint64_t bytes;
    unsigned long long before;
    struct err e;
    int fd;

    scene_open(&s);
    path_in(path, &s, "train.csv");
    assert_ok(file_write(path, "a\n", 2, 0600, &e));
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    before = bytes_read();
    assert_ok(artifact_open(&fd, &bytes, s.dir_fd, "j-abcdef", "train.csv", &e));
    assert_int_equal(file_whole_lines(fd, bytes), 0);
    close(fd);
    assert_true(bytes_read() - before < 1 << 20);
    scene_close(&s);
}

static void make_file(const char *folder, const char *name)
{
    char path[320];
    struct err e;

    assert_ok(file_mkdirs(folder, 0700, &e));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_write(path, "", 0, 0600, &e));
}

TEST(the_temporary_files_of_a_killed_training_program_are_removed_and_no_others)
{
    char job[128], folder[256], other[320];
    struct scene s;

    scene_open(&s);
    snprintf(job, sizeof job, "%s/jobs/j-abcdef", s.folder);
    snprintf(folder, sizeof folder, "%s/trainer/program", job);
    make_file(folder, "model.pt");
    snprintf(other, sizeof other, "%s/model.pt", folder);
    snprintf(folder, sizeof folder, "%s/trainer/tmp", job);
    make_file(folder, "part");
    assert_int_equal(artifact_clean_run(job, ""), 0);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_listed_names_are_artifacts),
        cmocka_unit_test(a_regular_file_is_opened_with_its_size),
        cmocka_unit_test(anything_but_a_regular_file_is_refused),
        cmocka_unit_test(the_source_of_a_codec_is_read_from_the_package_even_if_it_is_a_blob),
        cmocka_unit_test(a_run_folder_replaced_by_a_symlink_is_not_followed),
        cmocka_unit_test(a_path_cannot_lead_to_a_parent_folder),
        cmocka_unit_test(other_file_systems_are_not_entered),
        cmocka_unit_test(a_large_sparse_file_is_not_read_whole),
        cmocka_unit_test(the_temporary_files_of_a_killed_training_program_are_removed_and_no_others),
    };

    return run_on_both_kernels(tests);
}
