/* The functions of shared/base/compat.h on this machine's kernel and on Linux 4.18, and where one call is
 * refused in another way. */
#include "shared/base/compat.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/lib/both_kernels.h"
#include "tests/lib/old_kernel.h"
#include "tests/unit/unit.h"

enum { WAIT_MS = 1000 * UNIT_WAIT_S };

/* No process has such a pid: the kernel's highest is 1 << 22. */
enum { NO_PROCESS = 1 << 29 };

static size_t count_in(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Makes a folder with files, folders and symlinks; returns its descriptor. */
static int make_tree(const char *top)
{
    static const char *const folders[] = {"a", "a/b"};
    static const char *const files[] = {"file", "a/b/file", "..file", "a..b"};
    static const char *const links[][2] = {
        {"/etc/passwd", "far"}, {"file", "near"}, {"a", "way"}, {"..", "a/up"}, {".", "a/b/here"}};
    int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    for (size_t i = 0; i < N_OF(folders); i++)
        assert_int_equal(mkdirat(fd, folders[i], 0700), 0);
    for (size_t i = 0; i < N_OF(files); i++)
        close(openat(fd, files[i], O_WRONLY | O_CREAT, 0600));
    for (size_t i = 0; i < N_OF(links); i++)
        assert_int_equal(symlinkat(links[i][0], fd, links[i][1]), 0);
    return fd;
}

static void expect_open(int dir_fd, const char *path, int why)
{
    int fd = compat_open_beneath(dir_fd, path, O_RDONLY);
    int got = fd < 0 ? errno : 0;

    if (got != why)
        fail_msg("%s: %s, not: %s", path, strerror(got), strerror(why));
    if (fd >= 0) {
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
    }
}

TEST(only_paths_beneath_the_folder_are_opened_and_no_symlinks)
{
    static const struct {
        const char *path;
        int why;
    } cases[] = {
        {"file", 0},
        {"a/b/file", 0},
        {"a//b/./file", 0},
        {"a/b", 0},
        {"a/b/", 0},
        {"..file", 0},
        {"a..b", 0},
        {"", ENOENT},
        {"none", ENOENT},
        {"a/none/file", ENOENT},
        {"file/", ENOTDIR},
        {"file/x", ENOTDIR},
        {"/etc/passwd", EXDEV},
        {"..", EXDEV},
        {"../file", EXDEV},
        {"a/..", EXDEV},
        {"a/../file", EXDEV},
        {"a/b/../../../file", EXDEV},
        {"far", ELOOP},
        {"near", ELOOP},
        {"way", ELOOP},
        {"way/b/file", ELOOP},
        {"a/up/file", ELOOP},
        {"a/b/here/file", ELOOP},
    };
    const char *top = unit_folder();
    int fd = make_tree(top);
    size_t n = count_in("/proc/self/fd");
    char longest[300];

    for (size_t i = 0; i < N_OF(cases); i++)
        expect_open(fd, cases[i].path, cases[i].why);
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    expect_open(fd, longest, ENAMETOOLONG);
    assert_int_equal(count_in("/proc/self/fd"), n);
    close(fd);
    unit_remove(top);
}

TEST(other_file_systems_and_magic_links_of_proc_are_not_entered)
{
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), proc = open("/proc", O_RDONLY | O_CLOEXEC);
    char path[64];

    expect_open(root, "proc", EXDEV);
    expect_open(root, "proc/version", EXDEV);
    expect_open(proc, "version", 0);
    expect_open(proc, "self/stat", ELOOP);
    snprintf(path, sizeof path, "%d/stat", (int)getpid());
    expect_open(proc, path, 0);
    snprintf(path, sizeof path, "%d/cwd", (int)getpid());
    expect_open(proc, path, ELOOP);
    snprintf(path, sizeof path, "%d/root/etc/passwd", (int)getpid());
    expect_open(proc, path, ELOOP);
    snprintf(path, sizeof path, "%d/fd/%d", (int)getpid(), proc);
    expect_open(proc, path, ELOOP);
    close(proc);
    close(root);
}

/* Runs compat_close_from in a child; returns whether the right descriptors are open, marked or closed. */
static bool closes(void (*prepare)(void), bool at_exec)
{
    int status, kept, wanted[] = {20, 21, 40, 63};
    pid_t pid = fork();

    if (pid == 0) {
        bool is_right = true;

        for (size_t i = 0; i < N_OF(wanted); i++)
            is_right = is_right && dup2(STDERR_FILENO, wanted[i]) >= 0;
        kept = dup2(STDERR_FILENO, 19);
        prepare();
        compat_close_from(20, at_exec);
        for (size_t i = 0; i < N_OF(wanted); i++)
            is_right = is_right && (at_exec ? fcntl(wanted[i], F_GETFD) == FD_CLOEXEC : !is_open(wanted[i]));
        _exit(is_right && fcntl(kept, F_GETFD) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

static void as_it_is(void)
{
}

/* More than the kernel lists at a time. */
static void with_many_open(void)
{
    for (int fd = 64; fd < 800; fd++)
        if (dup2(STDERR_FILENO, fd) < 0)
            _exit(EXIT_FAILURE);
}

/* Not even one descriptor is left to open a folder. */
static void with_all_open(void)
{
    const struct rlimit few = {64, 64};

    if (setrlimit(RLIMIT_NOFILE, &few) < 0)
        _exit(EXIT_FAILURE);
    while (dup(STDERR_FILENO) >= 0)
        continue;
}

TEST(descriptors_from_a_number_up_are_closed_or_marked_cloexec)
{
    void (*const states[])(void) = {as_it_is, with_many_open, with_all_open};

    for (size_t i = 0; i < N_OF(states); i++) {
        assert_true(closes(states[i], false));
        assert_true(closes(states[i], true));
    }
}

static void with_a_close_range_that_has_no_flags(void)
{
    if (old_kernel_refuse(CALL_CLOSE_RANGE, EINVAL) < 0)
        _exit(EXIT_FAILURE);
}

static void with_a_filter_of_a_container(void)
{
    if (old_kernel_refuse(CALL_CLOSE_RANGE, EPERM) < 0)
        _exit(EXIT_FAILURE);
}

static bool has_filters(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(old_kernel_begin() == 0 && syscall(CALL_OPENAT2, 0, "", NULL, 0) == -1 && errno == ENOSYS
                  ? EXIT_SUCCESS
                  : EXIT_FAILURE);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

TEST(close_range_falls_back_where_its_flag_is_missing_or_a_container_refuses_it)
{
    if (!has_filters())
        skip();
    assert_true(closes(with_a_close_range_that_has_no_flags, true));
    assert_true(closes(with_a_filter_of_a_container, false));
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process */
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static bool reports_end(int fd, int within_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, within_ms) == 1 && p.revents & POLLIN;
}

TEST(the_descriptor_of_a_child_reports_its_end_and_no_other)
{
    enum { N = 16 };
    pid_t pids[N];
    int fds[N];

    for (int i = 0; i < N; i++) {
        pids[i] = start_sleeper();
        fds[i] = compat_pidfd_open(pids[i]);
        assert_true(fds[i] >= 0);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    }
    for (int k = 0; k < N; k++) {
        int i = k * 5 % N;

        assert_false(reports_end(fds[i], 0));
        kill(pids[i], SIGKILL);
        assert_true(reports_end(fds[i], WAIT_MS));
        assert_int_equal(waitpid(pids[i], NULL, WNOHANG), pids[i]); /* it was left to be reaped here */
        assert_true(reports_end(fds[i], 0));
        close(fds[i]);
    }
}

TEST(a_child_that_has_already_ended_is_reported_at_once)
{
    pid_t pid = start_sleeper();
    siginfo_t info;
    int fd;

    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    fd = compat_pidfd_open(pid);
    assert_true(fd >= 0 && reports_end(fd, 0));
    close(fd);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(compat_pidfd_open(NO_PROCESS), -1);
    assert_int_equal(errno, ESRCH);
}

/* Starts a process between this one and `*pid`. If it is killed, `*pid` becomes an orphan. */
static pid_t start_grandchild(pid_t *pid)
{
    int fds[2];
    pid_t between;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    between = fork();
    if (between == 0) {
        pid_t child = fork();

        alarm(WAIT_MS / 1000 * 2); /* a failing test leaves them no longer than this */
        if (child > 0 && write(fds[1], &child, sizeof child) != sizeof child)
            _exit(EXIT_FAILURE);
        for (;;)
            pause();
    }
    assert_int_equal(read(fds[0], pid, sizeof *pid), sizeof *pid);
    close(fds[0]);
    close(fds[1]);
    return between;
}

/* A process that its parent has not reaped has ended all the same. */
TEST(the_end_of_a_process_that_is_no_child_is_reported)
{
    pid_t pid, between = start_grandchild(&pid);
    int fd = compat_pidfd_open(pid), later;

    assert_true(fd >= 0);
    assert_false(reports_end(fd, 0));
    kill(pid, SIGKILL);
    assert_true(reports_end(fd, WAIT_MS));
    later = compat_pidfd_open(pid);
    assert_true(later >= 0 && reports_end(later, 0));
    close(later);
    close(fd);
    kill(between, SIGKILL);
    assert_int_equal(waitpid(between, NULL, 0), between);
}

TEST(the_end_of_an_orphan_is_reported)
{
    pid_t pid, between = start_grandchild(&pid);
    int fd = compat_pidfd_open(pid);

    assert_true(fd >= 0);
    kill(between, SIGKILL);
    assert_int_equal(waitpid(between, NULL, 0), between);
    assert_false(reports_end(fd, 300));
    kill(pid, SIGKILL);
    assert_true(reports_end(fd, WAIT_MS));
    close(fd);
}

enum { NO_NAMESPACE = 77, NUMBERS_TRIED = 100 };

/* Makes the next process get this pid, if it is free. */
static bool set_next_pid(pid_t pid)
{
    FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "we");

    if (!last)
        return false;
    fprintf(last, "%d", (int)pid - 1);
    return fclose(last) == 0;
}

/* The first process of a pid namespace in which pids can be chosen; its children end with it. */
static int reuse_number(void)
{
    pid_t pid = 0, between, next = 0;
    int fds[2], fd;

    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return NO_NAMESPACE;
    between = fork();
    if (between == 0) {
        pid = fork();
        if (pid > 0 && write(fds[1], &pid, sizeof pid) == sizeof pid)
            waitpid(pid, NULL, 0);
        for (;;)
            pause();
    }
    if (read(fds[0], &pid, sizeof pid) != sizeof pid)
        return EXIT_FAILURE;
    fd = compat_pidfd_open(pid);
    kill(pid, SIGKILL);
    while (kill(pid, 0) == 0) /* until it is reaped */
        poll(NULL, 0, 1);
    for (int i = 0; i < NUMBERS_TRIED && next != pid; i++) {
        if (!set_next_pid(pid))
            return NO_NAMESPACE;
        next = start_sleeper();
    }
    return next != pid ? NO_NAMESPACE : reports_end(fd, WAIT_MS) ? EXIT_SUCCESS : EXIT_FAILURE;
}

TEST(a_process_that_reuses_a_pid_is_not_mistaken_for_the_ended_one)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(WAIT_MS / 1000 * 2);
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 &&
            unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) < 0)
            _exit(NO_NAMESPACE);
        pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(reuse_number());
        }
        _exit(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                              : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        skip();
    assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
}

TEST(a_closed_descriptor_leaves_nothing_behind)
{
    size_t n_threads = count_in("/proc/self/task"), n_fds = count_in("/proc/self/fd");
    pid_t pid, between = start_grandchild(&pid);
    double until = clock_now() + WAIT_MS / 1e3;

    close(compat_pidfd_open(pid));
    while (count_in("/proc/self/task") > n_threads && clock_now() < until)
        poll(NULL, 0, 10);
    assert_int_equal(count_in("/proc/self/task"), n_threads);
    assert_int_equal(count_in("/proc/self/fd"), n_fds);
    kill(pid, SIGKILL);
    kill(between, SIGKILL);
    assert_int_equal(waitpid(between, NULL, 0), between);
}

/* In a child, under a filter of its own. */
static bool is_served(int call, bool (*serves)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(old_kernel_refuse(call, EPERM) == 0 && serves() ? EXIT_SUCCESS : EXIT_FAILURE);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

static bool opens(void)
{
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return compat_open_beneath(root, "etc", O_RDONLY) >= 0 &&
           compat_open_beneath(root, "proc", O_RDONLY) < 0 && errno == EXDEV;
}

static bool watches(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid > 0 && reports_end(compat_pidfd_open(pid), WAIT_MS);
}

TEST(calls_refused_by_the_filter_of_an_old_container_use_the_fallback)
{
    if (!has_filters())
        skip();
    assert_true(is_served(CALL_OPENAT2, opens));
    assert_true(is_served(CALL_PIDFD_OPEN, watches));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_paths_beneath_the_folder_are_opened_and_no_symlinks),
        cmocka_unit_test(other_file_systems_and_magic_links_of_proc_are_not_entered),
        cmocka_unit_test(descriptors_from_a_number_up_are_closed_or_marked_cloexec),
        cmocka_unit_test(close_range_falls_back_where_its_flag_is_missing_or_a_container_refuses_it),
        cmocka_unit_test(the_descriptor_of_a_child_reports_its_end_and_no_other),
        cmocka_unit_test(a_child_that_has_already_ended_is_reported_at_once),
        cmocka_unit_test(the_end_of_a_process_that_is_no_child_is_reported),
        cmocka_unit_test(the_end_of_an_orphan_is_reported),
        cmocka_unit_test(a_process_that_reuses_a_pid_is_not_mistaken_for_the_ended_one),
        cmocka_unit_test(a_closed_descriptor_leaves_nothing_behind),
        cmocka_unit_test(calls_refused_by_the_filter_of_an_old_container_use_the_fallback),
    };

    return run_on_both_kernels(tests);
}
