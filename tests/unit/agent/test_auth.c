#include "agent/access/auth.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static bool is(const struct token *t, const char *text)
{
    uint8_t digest[SHA256_BYTES];

    sha256(digest, text, strlen(text));
    return token_is(t, digest);
}

TEST(the_first_start_creates_a_token_readable_by_its_user_only)
{
    const char *folder = unit_folder();
    char path[128], *text, text_again[64];
    struct token t = {0}, again;
    struct stat st;
    struct err e;
    size_t len;

    umask(0);
    snprintf(path, sizeof path, "%s/token", folder);
    snprintf(t.path, sizeof t.path, "%s", path);
    assert_int_equal(token_load(&t, false, &e), ERR_NOT_FOUND);
    assert_ok(token_load(&t, true, &e));
    again = t;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_read(&text, &len, path, 64, &e));
    assert_int_equal(strcspn(text, "\n"), 43);
    assert_int_equal(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
    snprintf(text_again, sizeof text_again, "%.43s", text);
    free(text);
    assert_ok(token_load(&again, true, &e));
    assert_memory_equal(t.digest, again.digest, sizeof t.digest);
    assert_true(is(&t, text_again));
    text_again[42] ^= 1;
    assert_false(is(&t, text_again));
    assert_false(is(&t, ""));
    unit_remove(folder);
}

TEST(a_file_without_a_token_is_an_error)
{
    static const char *const texts[] = {"", "\n", "short", "spaces in it are no token at all", "\xff\xff"};
    const char *folder = unit_folder();
    char path[128];
    struct token t = {0};
    struct err e;

    snprintf(path, sizeof path, "%s/token", folder);
    snprintf(t.path, sizeof t.path, "%s", path);
    for (size_t i = 0; i < N_OF(texts); i++) {
        assert_ok(file_write(path, texts[i], strlen(texts[i]), 0600, &e));
        assert_int_equal(token_load(&t, true, &e), ERR_CONFIG);
        assert_error_has("holds no token");
    }
    assert_ok(file_write(path, "abcdefghijklmnopqrstuvwxyz", 26, 0644, &e));
    assert_int_equal(token_load(&t, true, &e), ERR_AUTH);
    assert_error_has("can be read by others");
    assert_int_equal(chmod(path, 0600), 0);
    assert_ok(token_load(&t, true, &e));
    assert_true(is(&t, "abcdefghijklmnopqrstuvwxyz"));
    /* A change is adopted; a file without a token admits no client. */
    assert_ok(token_refresh(&t, &e));
    assert_ok(file_write(path, "zyxwvutsrqponmlkjihgfedcba", 26, 0600, &e));
    assert_ok(token_refresh(&t, &e));
    assert_true(is(&t, "zyxwvutsrqponmlkjihgfedcba"));
    assert_false(is(&t, "abcdefghijklmnopqrstuvwxyz"));
    assert_ok(file_write(path, "", 0, 0600, &e));
    assert_int_equal(token_refresh(&t, &e), ERR_CONFIG);
    assert_false(is(&t, "zyxwvutsrqponmlkjihgfedcba"));
    assert_ok(token_refresh(&t, &e)); /* said once */
    assert_false(is(&t, "zyxwvutsrqponmlkjihgfedcba"));
    unit_remove(folder);
}

TEST(the_symlink_leads_to_the_token_and_only_its_owner_removes_it)
{
    const char *folder = unit_folder();
    char mine[128], other[128], link[PATH_MAX], pin[PATH_MAX], target[128] = "";
    struct err e;

    snprintf(mine, sizeof mine, "%s/mine", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(link, sizeof link, "%s/psgd/agents/15387.token", folder);
    snprintf(pin, sizeof pin, "%s/psgd/agents/15387.pin", folder);
    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(file_write(mine, "x", 1, 0600, &e));
    assert_ok(file_write(other, "x", 1, 0600, &e));
    assert_ok(token_link(mine, "", 15387, &e));
    assert_int_not_equal(access(pin, F_OK), 0);
    assert_ok(token_link(other, "a pin", 15387, &e)); /* it belongs to the later agent on the port */
    token_unlink(mine, 15387);
    assert_true(readlink(link, target, sizeof target - 1) > 0);
    assert_string_equal(target, other);
    assert_int_equal(access(pin, F_OK), 0);
    token_unlink(other, 15387);
    assert_int_not_equal(access(link, F_OK), 0);
    assert_int_not_equal(access(pin, F_OK), 0);
    token_unlink(other, 15387);
    assert_ok(token_link(mine, "", 15387, &e)); /* of an agent that was killed, ... */
    assert_ok(token_link("", "", 15387, &e));   /* ... and one without a token at its port */
    assert_int_not_equal(access(link, F_OK), 0);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_start_creates_a_token_readable_by_its_user_only),
        cmocka_unit_test(a_file_without_a_token_is_an_error),
        cmocka_unit_test(the_symlink_leads_to_the_token_and_only_its_owner_removes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
