/* The agent's key for TLS, and who has joined it. */
#include "agent/identity.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/members.h"
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
    assert_error_has("no key and its certificate");
    assert_ok(file_write(in(folder, "tls.key"), "no key", 6, 0600, &e));
    assert_int_equal(identity_load(&mine, folder, &e), ERR_CONFIG);
    identity_clear(&theirs);
    unit_remove(folder);
}

TEST(a_code_gives_one_token_that_outlives_a_restart)
{
    const char *folder = unit_folder();
    char code[BASE64_TEXT], next[BASE64_TEXT], token[BASE64_TEXT], unused[BASE64_TEXT];
    struct members m;
    struct stat st;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    assert_int_equal(members_join(&m, "", "nobody", token, &e), ERR_AUTH);
    members_make_code(&m, code);
    assert_ok(members_join(&m, code, "ann@here", token, &e));
    assert_true(is_base64url(token));
    assert_int_equal(members_join(&m, code, "bob@here", unused, &e), ERR_AUTH);
    assert_error_has("not the code");
    members_make_code(&m, code);
    members_make_code(&m, next);
    assert_int_equal(members_join(&m, code, "bob@here", unused, &e), ERR_AUTH);
    assert_ok(members_join(&m, next, "bob@here", unused, &e));
    members_close(&m);
    assert_int_equal(stat(in(folder, "members.json"), &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    assert_ok(members_open(&m, folder, &e));
    assert_int_equal(m.n, 2);
    assert_string_equal(members_find(&m, token)->name, "ann@here");
    assert_null(members_find(&m, code));
    assert_null(members_find(&m, ""));
    assert_int_equal(members_join(&m, next, "eve", unused, &e), ERR_AUTH);
    members_close(&m);
    unit_remove(folder);
}

TEST(a_damaged_list_of_members_is_refused_with_its_place)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "members.json"},
        {"{\"version\":2,\"members\":[]}", "/version"},
        {"{\"version\":1,\"members\":{}}", "/members"},
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"joined_at\":\"\"}]}", "/members/0"},
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"joined_at\":\"\",\"token_sha256\":\"00\"}]}",
         "not 64 hexadecimal digits"},
    };
    const char *folder = unit_folder();
    struct members m;
    struct err e;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_ok(file_write(in(folder, "members.json"), cases[i].text, strlen(cases[i].text), 0600, &e));
        assert_int_equal(members_open(&m, folder, &e), ERR_CONFIG);
        assert_error_has(cases[i].error);
        members_close(&m);
    }
    unit_remove(folder);
}

TEST(a_member_that_cannot_be_written_is_none)
{
    const char *folder = unit_folder();
    char code[BASE64_TEXT], token[BASE64_TEXT];
    struct members m;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    unit_remove(folder);
    members_make_code(&m, code);
    assert_int_equal(members_join(&m, code, "ann", token, &e), ERR_IO);
    assert_int_equal(m.n, 0);
    assert_null(members_find(&m, token));
    members_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_start_makes_a_key_that_stays),
        cmocka_unit_test(a_key_that_others_can_read_or_of_another_certificate_is_refused),
        cmocka_unit_test(a_code_gives_one_token_that_outlives_a_restart),
        cmocka_unit_test(a_damaged_list_of_members_is_refused_with_its_place),
        cmocka_unit_test(a_member_that_cannot_be_written_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
