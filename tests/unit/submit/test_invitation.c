#include "submit/net/invitation.h"

#include <unistd.h>

#include "tests/unit/unit.h"

#define PIN  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define CODE "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-_"

TEST(an_invitation_is_read_alone_or_as_the_command_that_holds_it)
{
    static const char *const texts[] = {
        "Here:1#" PIN "#" CODE,
        "'here:1#" PIN "#" CODE "'",
        "job_submit join 'here:1#" PIN "#" CODE "'\r\n",
        "  job_submit join \"http://here:1#" PIN "#" CODE "\"  ",
    };
    struct agent_invitation v;
    struct err e;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_ok(invitation_parse(&v, texts[i], &e));
        assert_string_equal(v.address, "here:1");
        assert_string_equal(v.pin, PIN);
        assert_string_equal(v.code, CODE);
    }
    assert_ok(invitation_parse(&v, "[::1]#" PIN "#" CODE, &e));
    assert_string_equal(v.address, "[::1]:15387");
}

TEST(other_texts_are_refused_and_not_repeated)
{
    static const char *const texts[] = {
        "",
        "#",
        "##",
        "here:1",
        "here:1#" PIN,
        "here:1#" PIN "#" CODE "b",
        "here:1#" PIN "a#" CODE,
        "here:1#" PIN "#" CODE "#",
        "here:0#" PIN "#" CODE,
        "a b:1#" PIN "#" CODE "#" CODE,
        "#" PIN "#" CODE,
        "here:1#" PIN "#bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.b",
    };
    struct agent_invitation v = {.address = "before"};
    struct err e;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(invitation_parse(&v, texts[i], &e), ERR_USAGE);
        assert_string_equal(v.address, "before");
        assert_null(strstr(e.text, CODE));
    }
}

/* The line that invitation_read finds in a pipe with these bytes. */
static int read_line(char out[INVITATION_MAX], const char *bytes, size_t len, struct err *e)
{
    int ends[2], rc;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], bytes, len), (ssize_t)len);
    close(ends[1]);
    rc = invitation_read(out, ends[0], e);
    close(ends[0]);
    return rc;
}

TEST(a_line_is_read_up_to_its_end_and_a_long_one_is_refused)
{
    char line[INVITATION_MAX], longer[2 * INVITATION_MAX];
    struct err e;

    assert_ok(read_line(line, "one\ntwo\n", 8, &e));
    assert_string_equal(line, "one");
    assert_ok(read_line(line, "one", 3, &e));
    assert_string_equal(line, "one");
    assert_int_equal(read_line(line, " \n", 2, &e), ERR_USAGE);
    assert_int_equal(read_line(line, "", 0, &e), ERR_USAGE);
    memset(longer, 'x', sizeof longer);
    assert_int_equal(read_line(line, longer, sizeof longer, &e), ERR_USAGE);
    assert_error_has("more than 1023 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_invitation_is_read_alone_or_as_the_command_that_holds_it),
        cmocka_unit_test(other_texts_are_refused_and_not_repeated),
        cmocka_unit_test(a_line_is_read_up_to_its_end_and_a_long_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
