#include "agent/access/own_isolation.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/sandbox/sandbox.h"
#include "tests/lib/old_kernel.h"
#include "tests/unit/unit.h"

static struct err e;

enum { CALL_LANDLOCK_CREATE = 444 };

static int run_in_child(int (*work)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(work());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct sandbox entered;

static int enter(void)
{
    return sandbox_enter(&entered, -1, ISOLATION_NONE, &e) < 0 ? 99 : (int)entered.level;
}

TEST(the_level_is_that_of_a_sandbox_and_the_process_itself_is_not_confined)
{
    struct agent_isolation is;
    int fd;

    assert_ok(own_isolation_find(&is, -1, &e));
    assert_int_equal(is.level, run_in_child(enter));
    assert_int_equal(is.required, ISOLATION_FILES);
    assert_false(is.is_required);
    assert_true(is.lacks[0] || is.level == ISOLATION_USER);
    fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
}

enum { NOT_HERE = 77 };

/* 0: the level is as expected where the kernel has no Landlock. */
static int find_without_landlock(void)
{
    struct agent_isolation is;

    if (IS_SANITIZED || old_kernel_refuse(CALL_LANDLOCK_CREATE, ENOSYS) < 0)
        return NOT_HERE;
    if (own_isolation_find(&is, ISOLATION_PROCESS, &e) < 0 || is.level != ISOLATION_PROCESS ||
        is.landlock_abi)
        return 1;
    if (own_isolation_find(&is, ISOLATION_FILES, &e) != ERR_AUTH)
        return 2;
    return strstr(e.text,
                  "level process here, less than --require-isolation files: this kernel has no Landlock")
               ? 0
               : 3;
}

TEST(an_agent_that_requires_more_than_its_kernel_has_does_not_start)
{
    int rc = run_in_child(find_without_landlock);

    if (rc == NOT_HERE)
        skip();
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_level_is_that_of_a_sandbox_and_the_process_itself_is_not_confined),
        cmocka_unit_test(an_agent_that_requires_more_than_its_kernel_has_does_not_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
