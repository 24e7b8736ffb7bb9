#include "submit/net/joined_agents.h"

#include <limits.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

static struct access some(char pin, const char *address, const char *token)
{
    struct access a = {.agent = "a-1"};

    memset(a.pin, pin, BASE64_TEXT - 1);
    snprintf(a.address, sizeof a.address, "%s", address);
    snprintf(a.token, sizeof a.token, "%s", token);
    return a;
}

TEST(what_join_keeps_is_found_by_address)
{
    const char *folder = unit_folder();
    struct access a = some('a', "here:1", "one"), b = some('b', "[::1]:2", "two"), found;
    struct err e;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_int_equal(access_find(&found, "here:1", &e), ERR_NOT_FOUND);
    assert_ok(access_save(&a, &e));
    assert_ok(access_save(&b, &e));
    assert_ok(access_find(&found, "here:1", &e));
    assert_string_equal(found.token, "one");
    assert_ok(access_find(&found, "[::1]:2", &e));
    assert_string_equal(found.pin, b.pin);
    assert_int_equal(access_find(&found, "here:2", &e), ERR_NOT_FOUND);
    unit_remove(folder);
}

TEST(a_new_agent_at_an_address_replaces_the_former_one)
{
    const char *folder = unit_folder();
    struct access a = some('a', "here:1", "one"), b = some('b', "here:1", "two"), found;
    struct err e;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(access_save(&a, &e));
    assert_ok(access_save(&b, &e));
    assert_ok(access_find(&found, "here:1", &e));
    assert_string_equal(found.token, "two");
    /* The same agent at another address, too. */
    snprintf(b.address, sizeof b.address, "there:1");
    assert_ok(access_save(&b, &e));
    assert_ok(access_find(&found, "here:1", &e));
    assert_ok(access_find(&found, "there:1", &e));
    assert_string_equal(found.pin, b.pin);
    unit_remove(folder);
}

TEST(files_that_others_can_read_and_damaged_ones_are_refused)
{
    const char *folder = unit_folder();
    struct access a = some('a', "here:1", "one"), found;
    char path[PATH_MAX], name[BASE64_TEXT];
    uint8_t digest[SHA256_BYTES];
    struct err e;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(access_save(&a, &e));
    sha256(digest, a.address, strlen(a.address));
    base64url(name, digest);
    snprintf(path, sizeof path, "%s/psgd/joined/%s.json", folder, name);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(access_find(&found, "here:1", &e), ERR_AUTH);
    assert_error_has("can be read by others");
    assert_ok(file_write(path, "{}", 2, 0600, &e));
    assert_int_equal(access_find(&found, "here:1", &e), ERR_CONFIG);
    assert_error_has(path);
    assert_int_equal(access_find(&found, "there:1", &e), ERR_NOT_FOUND); /* others are not affected */
    unit_remove(folder);
}

TEST(all_that_were_joined_are_listed_by_address_and_one_can_be_forgotten)
{
    const char *folder = unit_folder();
    struct access a = some('a', "b:1", "one"), b = some('b', "a:1", "two"), found;
    struct access_list l;
    char path[PATH_MAX];
    struct err e;

    setenv("XDG_STATE_HOME", folder, 1);
    assert_ok(access_list_read(&l, &e));
    assert_int_equal(l.n, 0);
    a.joined_at = 1e9;
    assert_ok(access_save(&a, &e));
    assert_ok(access_save(&b, &e));
    snprintf(path, sizeof path, "%s/psgd/joined/damaged.json", folder);
    assert_ok(file_write(path, "{}", 2, 0600, &e));
    assert_ok(access_list_read(&l, &e));
    assert_int_equal(l.n, 2);
    assert_string_equal(l.items[0].address, "a:1");
    assert_true(l.items[0].joined_at == 0);
    assert_true(l.items[1].joined_at == 1e9);
    assert_int_equal(l.bad.code, ERR_CONFIG);
    access_list_clear(&l);
    assert_ok(access_remove("a:1", &e));
    assert_int_equal(access_remove("a:1", &e), ERR_NOT_FOUND);
    assert_int_equal(access_find(&found, "a:1", &e), ERR_NOT_FOUND);
    assert_ok(access_find(&found, "b:1", &e));
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_join_keeps_is_found_by_address),
        cmocka_unit_test(a_new_agent_at_an_address_replaces_the_former_one),
        cmocka_unit_test(all_that_were_joined_are_listed_by_address_and_one_can_be_forgotten),
        cmocka_unit_test(files_that_others_can_read_and_damaged_ones_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
