#include <errno.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlong_message_is_cut_at_a_character_boundary),
        cmocka_unit_test(context_precedes_the_message_and_the_cause_follows_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
