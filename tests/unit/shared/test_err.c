#include "shared/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* "ää...", so long that a text that holds it is cut; one byte more or less in front. */
static const char *umlauts(bool odd)
{
    static char text[4096];
    size_t at = odd;

    memset(text, 'x', sizeof text);
    for (; at + 2 < sizeof text; at += 2)
        memcpy(text + at, "\303\244", 2);
    text[at] = '\0';
    return text;
}

static void assert_is_text(const char *text, size_t size)
{
    json_t *v = json_string(text); /* NULL for invalid UTF-8 */

    assert_non_null(v);
    json_decref(v);
    assert_in_range(strlen(text), size - 2, size - 1);
}

TEST(an_overlong_message_is_cut_at_a_character_boundary)
{
    for (int odd = 0; odd < 2; odd++) {
        struct err e = {0};

        err_set(&e, ERR_IO, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
        err_hint(&e, "%s", umlauts(odd));
        assert_is_text(e.hint, sizeof e.hint);
        err_at(&e, "node %d", odd);
        assert_is_text(e.text, sizeof e.text);
        assert_error_has("node ");
        err_at(&e, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
        errno = ENOENT;
        err_errno(&e, ERR_IO, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
    }
}

TEST(context_precedes_the_message_and_the_cause_follows_it)
{
    struct err e = {0};

    errno = ENOSPC;
    assert_int_equal(err_errno(&e, ERR_IO, "file %d", 7), ERR_NOSPACE);
    err_hint(&e, "Make room.");
    assert_int_equal(err_at(&e, "node %d", 2), ERR_NOSPACE);
    assert_string_equal(e.text, "node 2: file 7: No space left on device");
    assert_string_equal(e.hint, "Make room.");
    err_set(&e, ERR_LOST, "gone");
    assert_string_equal(e.hint, "");
}

enum { LEAST_FILES = 16, NOBODY = 65534, STATUS_SKIPPED = 77 };

/* The limit that the process has again after give_files_back(). */
static struct rlimit files_before;

static void take_files(void)
{
    struct rlimit few;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files_before), 0);
    few = files_before;
    few.rlim_cur = LEAST_FILES;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (dup(STDIN_FILENO) >= 0)
        continue;
    assert_int_equal(errno, EMFILE);
}

static void give_files_back(void)
{
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files_before), 0);
    for (int fd = STDERR_FILENO + 1; fd < LEAST_FILES; fd++)
        close(fd);
}

static const char descriptors[] =
    "Too many open files: this process may have 16 open files: ulimit -n, or LimitNOFILE= of a systemd unit, "
    "raises that";

static int fails_by(struct err *e, enum call call, bool has_failed)
{
    return has_failed ? err_call(e, ERR_IO, call, "it") : 0;
}

TEST(every_call_that_needs_a_descriptor_names_the_limit_of_descriptors)
{
    struct err e[6] = {{0}};
    int pair[2];

    take_files();
    fails_by(&e[0], CALL_OTHER, open("/dev/null", O_RDONLY) < 0);
    fails_by(&e[1], CALL_PIPE, pipe2(pair, O_CLOEXEC) < 0);
    fails_by(&e[2], CALL_OTHER, socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0);
    fails_by(&e[3], CALL_OTHER, memfd_create("x", MFD_CLOEXEC) < 0);
    /* inotify has a limit of its own with the same errno: this time it is the other one. */
    fails_by(&e[4], CALL_INOTIFY, inotify_init1(0) < 0);
    errno = EMFILE;
    err_errno(&e[5], ERR_IO, "it");
    give_files_back();
    for (size_t i = 0; i < N_OF(e); i++) {
        assert_int_equal(e[i].code, ERR_IO);
        assert_string_equal(e[i].text + strlen("it: "), descriptors);
    }
}

static void *nothing(void *arg)
{
    return arg;
}

/* As a user that has no more processes: root has no such limit. Returns the child's exit status. */
static int in_full_user(int (*test)(void))
{
    const struct rlimit none = {0, 0};
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
            _exit(STATUS_SKIPPED);
        _exit(setrlimit(RLIMIT_NPROC, &none) < 0 ? STATUS_SKIPPED : test());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int says_processes(const struct err *e)
{
    return strstr(e->text, "this user may have 0 processes and threads: ulimit -u, or LimitNPROC= of a "
                           "systemd unit, raises that") != NULL
               ? 0
               : EXIT_FAILURE;
}

static int fork_is_refused(void)
{
    struct err e = {0};
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    fails_by(&e, CALL_FORK, pid < 0);
    return says_processes(&e);
}

static int thread_is_refused(void)
{
    struct err e = {0};
    pthread_t thread;

    errno = pthread_create(&thread, NULL, nothing, NULL);
    fails_by(&e, CALL_THREAD, errno != 0);
    return says_processes(&e);
}

TEST(a_process_or_thread_too_many_names_the_limits_of_both)
{
    int status = in_full_user(fork_is_refused);

    if (status == STATUS_SKIPPED)
        skip();
    assert_int_equal(status, 0);
    assert_int_equal(in_full_user(thread_is_refused), 0);
}

static void assert_says(enum call call, int error, const char *begin, const char *end)
{
    char text[ERR_LIMIT_TEXT];

    err_limit_text(text, call, error);
    if (strncmp(text, begin, strlen(begin)) != 0 || !strstr(text, end))
        fail_msg("\"%s\" is not \"%s...%s\"", text, begin, end);
}

TEST(limits_of_the_machine_are_named_with_their_sysctl)
{
    assert_says(CALL_INOTIFY, EMFILE, "a user may have ", "max_");
    assert_says(CALL_INOTIFY, EMFILE, "a user may have ", " raises that");
    assert_says(CALL_INOTIFY_WATCH, ENOSPC, "a user may have ", "_watches raises that");
    assert_says(CALL_EPOLL_CTL, ENOSPC, "a user may watch ", "sysctl fs.epoll.max_user_watches raises that");
    assert_says(CALL_PIPE, ENFILE, "the pipes of a user ", "sysctl fs.pipe-user-pages-hard raises that");
    assert_says(CALL_MAP, ENOMEM, "free memory and ulimit -v limit that, ",
                "sysctl vm.max_map_count raises the last");
    assert_says(CALL_OTHER, ENFILE, "this machine may have ", "sysctl fs.file-max raises that");
}

TEST(an_error_that_is_no_limit_has_no_such_text)
{
    static const struct {
        enum call call;
        int error;
    } none[] = {{CALL_OTHER, ENOENT}, {CALL_OTHER, ENOSPC}, {CALL_OTHER, EAGAIN},
                {CALL_OTHER, ENOMEM}, {CALL_FORK, ENOSYS},  {CALL_INOTIFY, ENOMEM}};
    char text[ERR_LIMIT_TEXT];

    for (size_t i = 0; i < N_OF(none); i++) {
        err_limit_text(text, none[i].call, none[i].error);
        assert_string_equal(text, "");
    }
}

TEST(a_full_table_of_watches_is_not_a_full_disk)
{
    struct err e = {0};

    errno = ENOSPC;
    assert_int_equal(err_call(&e, ERR_IO, CALL_INOTIFY_WATCH, "it"), ERR_IO);
    errno = ENOSPC;
    assert_int_equal(err_call(&e, ERR_IO, CALL_PIPE, "it"), ERR_NOSPACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlong_message_is_cut_at_a_character_boundary),
        cmocka_unit_test(context_precedes_the_message_and_the_cause_follows_it),
        cmocka_unit_test(every_call_that_needs_a_descriptor_names_the_limit_of_descriptors),
        cmocka_unit_test(a_process_or_thread_too_many_names_the_limits_of_both),
        cmocka_unit_test(limits_of_the_machine_are_named_with_their_sysctl),
        cmocka_unit_test(an_error_that_is_no_limit_has_no_such_text),
        cmocka_unit_test(a_full_table_of_watches_is_not_a_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
