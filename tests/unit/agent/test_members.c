#include "agent/access/members.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "agent/access/token_verb.h"
#include "shared/base/clock.h"
#include "tests/unit/unit.h"

static const char *in(const char *folder, const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const struct member *find_at(const struct members *m, const char *token, double now)
{
    uint8_t digest[SHA256_BYTES];

    sha256(digest, token, strlen(token));
    return members_find(m, digest, now);
}

static const struct member *find(const struct members *m, const char *token)
{
    return find_at(m, token, clock_wall());
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
    assert_ok(members_invite(&m, SCOPE_SUBMIT, 60, code, &e));
    assert_ok(members_invite(&m, SCOPE_READ, 60, next, &e));
    assert_ok(members_join(&m, code, "ann@here", token, &e));
    assert_true(is_base64url(token));
    assert_int_equal(members_join(&m, code, "bob@here", unused, &e), ERR_AUTH);
    assert_error_has("not a code");
    members_close(&m);
    assert_int_equal(stat(in(folder, "members.json"), &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_join(&m, next, "ann@here", unused, &e)); /* the code is in the file, too */
    assert_int_equal(m.n, 2);
    assert_string_equal(find(&m, token)->name, "ann@here");
    assert_int_equal(find(&m, token)->scope, SCOPE_SUBMIT);
    assert_string_equal(find(&m, unused)->name, "ann@here-2");
    assert_int_equal(find(&m, unused)->scope, SCOPE_READ);
    assert_null(find(&m, code));
    assert_null(find(&m, ""));
    members_close(&m);
    unit_remove(folder);
}

TEST(a_code_is_of_no_use_after_its_time_nor_when_all_are_taken_back)
{
    const char *folder = unit_folder();
    char code[BASE64_TEXT], token[BASE64_TEXT];
    struct members m;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_invite(&m, SCOPE_SUBMIT, -1, code, &e));
    assert_int_equal(members_join(&m, code, "ann", token, &e), ERR_AUTH);
    assert_ok(members_invite(&m, SCOPE_SUBMIT, 60, code, &e));
    assert_ok(members_revoke_invitations(&m, &e));
    assert_int_equal(members_join(&m, code, "ann", token, &e), ERR_AUTH);
    assert_int_equal(m.n, 0);
    members_close(&m);
    unit_remove(folder);
}

/* `tool` is `agent token`, `m` the running agent. */
TEST(another_process_adds_rotates_and_revokes_and_the_agent_follows)
{
    const char *folder = unit_folder();
    char first[BASE64_TEXT], second[BASE64_TEXT], third[BASE64_TEXT];
    struct members m, tool;
    struct err e;
    double now = clock_wall();

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_open(&tool, folder, &e));
    assert_ok(members_add(&tool, "ann", SCOPE_ADMIN, 0, first, &e));
    assert_null(find(&m, first));
    assert_ok(members_refresh(&m, &e));
    assert_int_equal(find(&m, first)->scope, SCOPE_ADMIN);
    assert_int_equal(members_add(&tool, "ann", SCOPE_READ, 0, second, &e), ERR_CONFLICT);
    assert_int_equal(members_add(&tool, "", SCOPE_READ, 0, second, &e), ERR_USAGE);
    assert_int_equal(members_add(&tool, "a\nb", SCOPE_READ, 0, second, &e), ERR_USAGE);
    assert_int_equal(members_rotate(&tool, "bob", 60, second, &e), ERR_NOT_FOUND);
    /* Both are valid for a while, with the same scope. */
    assert_ok(members_rotate(&tool, "ann", 60, second, &e));
    assert_ok(members_refresh(&m, &e));
    assert_non_null(find(&m, first));
    assert_int_equal(find(&m, second)->scope, SCOPE_ADMIN);
    assert_null(find_at(&m, first, now + 3600));
    assert_non_null(find_at(&m, second, now + 3600));
    /* Or only the new one. */
    assert_ok(members_rotate(&tool, "ann", 0, third, &e));
    assert_ok(members_refresh(&m, &e));
    assert_null(find(&m, second));
    assert_non_null(find(&m, third));
    assert_ok(members_revoke(&tool, "ann", &e));
    assert_int_equal(members_revoke(&tool, "ann", &e), ERR_NOT_FOUND);
    assert_ok(members_refresh(&m, &e));
    assert_null(find(&m, third));
    members_close(&m);
    members_close(&tool);
    unit_remove(folder);
}

TEST(a_token_ends_at_its_time)
{
    const char *folder = unit_folder();
    char token[BASE64_TEXT];
    double now = clock_wall();
    struct members m;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_add(&m, "ann", SCOPE_READ, 100, token, &e));
    assert_non_null(find_at(&m, token, now + 99));
    assert_null(find_at(&m, token, now + 102));
    members_close(&m);
    unit_remove(folder);
}

TEST(an_agent_does_not_wait_for_a_process_that_changes_the_list)
{
    const char *folder = unit_folder();
    char code[BASE64_TEXT], token[BASE64_TEXT];
    struct members m;
    struct err e;
    int other;

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_invite(&m, SCOPE_SUBMIT, 60, code, &e));
    other = open(m.lock_path, O_RDWR | O_CLOEXEC); /* another open file: as of another process */
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(members_join(&m, code, "ann", token, &e), ERR_CONFLICT);
    assert_error_has("another process is changing");
    close(other);
    assert_ok(members_join(&m, code, "ann", token, &e)); /* the code was not used up */
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
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"since\":\"\"}]}", "/members/0/scope"},
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"scope\":\"root\"}]}", "not one of read|submit|admin"},
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"scope\":\"read\",\"since\":\"now\"}]}", "not a time"},
        {"{\"version\":1,\"members\":[{\"name\":\"a\",\"scope\":\"read\","
         "\"since\":\"2026-11-21T10:28:00.123Z\",\"token_sha256\":\"00\"}]}",
         "not 64 hexadecimal digits"},
        {"{\"version\":1,\"members\":[],\"invitations\":[{\"scope\":\"read\",\"code_sha256\":\"\"}]}",
         "/invitations/0/until"},
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

TEST(a_list_of_an_agent_before_tokens_had_scopes_is_read)
{
    static const char text[] =
        "{\"version\": 1, \"members\": [{\"name\": \"ann@here\", \"joined_at\": "
        "\"2026-01-02T03:04:05.000Z\", "
        "\"token_sha256\": \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}";
    const char *folder = unit_folder();
    struct members m;
    struct err e;

    assert_ok(file_write(in(folder, "members.json"), text, strlen(text), 0600, &e));
    assert_ok(members_open(&m, folder, &e));
    assert_string_equal(find(&m, "abc")->name, "ann@here");
    assert_int_equal(find(&m, "abc")->scope, SCOPE_SUBMIT);
    assert_ok(members_revoke(&m, "ann@here", &e));
    assert_null(find(&m, "abc"));
    members_close(&m);
    unit_remove(folder);
}

TEST(a_list_of_members_that_is_damaged_later_admits_no_member)
{
    const char *folder = unit_folder();
    char token[BASE64_TEXT];
    struct members m;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_add(&m, "ann", SCOPE_READ, 0, token, &e));
    assert_ok(file_write(in(folder, "members.json"), "{", 1, 0600, &e));
    assert_int_equal(members_refresh(&m, &e), ERR_CONFIG);
    assert_null(find(&m, token));
    members_close(&m);
    unit_remove(folder);
}

TEST(a_member_that_cannot_be_written_is_not_admitted)
{
    const char *folder = unit_folder();
    char code[BASE64_TEXT], token[BASE64_TEXT];
    struct members m;
    struct err e;

    assert_ok(members_open(&m, folder, &e));
    assert_ok(members_invite(&m, SCOPE_SUBMIT, 60, code, &e));
    unit_remove(folder);
    assert_int_equal(members_join(&m, code, "ann", token, &e), ERR_IO);
    assert_int_equal(m.n, 0);
    assert_null(find(&m, token));
    members_close(&m);
}

TEST(durations_have_a_unit)
{
    static const char *const wrong[] = {"30", "d", "1w", "-1d", "1.5h", "1dd", "123456789s", " 1d"};
    double s;
    struct err e;

    assert_ok(token_duration(&s, "30d", 0, &e));
    assert_true(s == 30 * 86400.0);
    assert_ok(token_duration(&s, "0s", 7, &e));
    assert_true(s == 0);
    assert_ok(token_duration(&s, "", 7, &e));
    assert_true(s == 7);
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_int_equal(token_duration(&s, wrong[i], 0, &e), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_gives_one_token_that_outlives_a_restart),
        cmocka_unit_test(a_code_is_of_no_use_after_its_time_nor_when_all_are_taken_back),
        cmocka_unit_test(another_process_adds_rotates_and_revokes_and_the_agent_follows),
        cmocka_unit_test(a_token_ends_at_its_time),
        cmocka_unit_test(an_agent_does_not_wait_for_a_process_that_changes_the_list),
        cmocka_unit_test(a_damaged_list_of_members_is_refused_with_its_place),
        cmocka_unit_test(a_list_of_an_agent_before_tokens_had_scopes_is_read),
        cmocka_unit_test(a_list_of_members_that_is_damaged_later_admits_no_member),
        cmocka_unit_test(a_member_that_cannot_be_written_is_not_admitted),
        cmocka_unit_test(durations_have_a_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
