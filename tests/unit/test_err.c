#include <errno.h>

#include "shared/json.h"
#include "tests/unit/unit.h"

/* "ää...", as long that a text which holds it is cut, one byte more or less in front. */
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
    json_t *v = json_string(text); /* NULL for what is no UTF-8 */

    assert_non_null(v);
    json_decref(v);
    assert_in_range(strlen(text), size - 2, size - 1);
}

TEST(a_sentence_that_is_too_long_ends_with_a_whole_character)
{
    for (int odd = 0; odd < 2; odd++) {
        struct err e = {0};

        err_set(&e, ERR_IO, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
        err_hint(&e, "%s", umlauts(odd));
        assert_is_text(e.hint, sizeof e.hint);
        err_at(&e, "node %d", odd);
        assert_is_text(e.text, sizeof e.text);
        assert_says("node ");
        err_at(&e, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
        errno = ENOENT;
        err_errno(&e, ERR_IO, "%s", umlauts(odd));
        assert_is_text(e.text, sizeof e.text);
    }
}

TEST(context_stands_before_the_sentence_and_the_cause_behind_it)
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
        cmocka_unit_test(a_sentence_that_is_too_long_ends_with_a_whole_character),
        cmocka_unit_test(context_stands_before_the_sentence_and_the_cause_behind_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
