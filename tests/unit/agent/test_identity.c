/* The agent's key for TLS, and the clients that have joined. */
#include "agent/access/identity.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/access/members.h"
#include "tests/unit/unit.h"

static const char *in(const char *folder, const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

TEST(the_first_start_makes_a_key_that_stays)
{
    const char *folder = unit_folder();
    struct identity first, again;
    struct stat st;
    struct err e;

    umask(0);
    assert_ok(identity_load(&first, folder, &e));
    assert_true(is_base64url(first.pin));
    assert_int_equal(stat(in(folder, "tls.key"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(identity_load(&again, folder, &e));
    assert_string_equal(first.pin, again.pin);
    assert_string_equal(first.key, again.key);
    identity_clear(&first);
    identity_clear(&again);
    /* A key that was removed, or not written after the certificate, is replaced with it. */
    assert_int_equal(unlink(in(folder, "tls.key")), 0);
    assert_ok(identity_load(&first, folder, &e));
    identity_clear(&first);
    unit_remove(folder);
}

TEST(a_key_that_others_can_read_or_of_another_certificate_is_refused)
{
    const char *folder = unit_folder();
    struct identity mine, theirs;
    char other[PATH_MAX];
    struct err e;

    snprintf(other, sizeof other, "%s/other", folder);
    assert_ok(file_mkdirs(other, 0700, &e));
    assert_ok(identity_load(&mine, folder, &e));
    assert_ok(identity_load(&theirs, other, &e));
    assert_string_not_equal(mine.pin, theirs.pin);
    identity_clear(&mine);
    assert_int_equal(chmod(in(folder, "tls.key"), 0640), 0);
    assert_int_equal(identity_load(&mine, folder, &e), ERR_AUTH);
    assert_error_has("can be read by others (mode 640)");
    assert_ok(file_write(in(folder, "tls.key"), theirs.key, strlen(theirs.key), 0600, &e));
    assert_int_equal(identity_load(&mine, folder, &e), ERR_CONFIG);
    assert_error_has("not a key and its certificate");
    assert_ok(file_write(in(folder, "tls.key"), "no key", 6, 0600, &e));
    assert_int_equal(identity_load(&mine, folder, &e), ERR_CONFIG);
    identity_clear(&theirs);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_start_makes_a_key_that_stays),
        cmocka_unit_test(a_key_that_others_can_read_or_of_another_certificate_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
