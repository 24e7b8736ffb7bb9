#include "page/page.h"

#include <jansson.h>

#include "shared/base/crypto.h"
#include "tests/unit/unit.h"

static char *page_of(enum page_place place, const char *json)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    page_write(out, place, json, strlen(json));
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strlen(text), len);
    return text;
}

static char *part_of(const char *text, const char *begin, const char *end)
{
    const char *from = strstr(text, begin);
    const char *to;

    assert_non_null(from);
    from += strlen(begin);
    assert_non_null(to = strstr(from, end));
    return strndup(from, (size_t)(to - from));
}

TEST(the_page_has_its_data_and_nothing_is_left_of_the_marks)
{
    char *text = page_of(PAGE_SERVED, "{\"mode\":\"browse\"}");
    char *data = part_of(text, "id=\"psgd-data\">", "</script>");

    assert_string_equal(data, "{\"mode\":\"browse\"}");
    assert_null(strstr(text, "/*STYLE*/"));
    assert_null(strstr(text, "/*SCRIPT*/"));
    assert_null(strstr(text, "http-equiv"));
    free(data);
    free(text);
}

TEST(no_text_of_the_data_can_end_its_element)
{
    static const char json[] =
        "{\"name\":\"</script><script>alert(1)</script><!-- &amp; \xe2\x80\xa8 \xe2\x80\xa9 "
        "\xe2\x80\xa6 \xc3\xa9\"}";
    char *text = page_of(PAGE_FILE, json);
    char *data = part_of(text, "id=\"psgd-data\">", "</script>");
    json_t *read;
    json_t *meant;

    assert_null(strpbrk(data, "<>&"));
    assert_null(strstr(data, "\xe2\x80\xa8"));
    assert_null(strstr(data, "\xe2\x80\xa9"));
    assert_non_null(strstr(data, "\xe2\x80\xa6 \xc3\xa9"));
    read = json_loads(data, 0, NULL);
    meant = json_loads(json, 0, NULL);
    assert_true(json_equal(read, meant));
    json_decref(read);
    json_decref(meant);
    free(data);
    free(text);
}

static void assert_allows(const char *policy, const char *text, const char *begin, const char *end)
{
    char *element = part_of(text, begin, end);
    uint8_t sum[SHA256_BYTES];
    char base64[BASE64_TEXT];
    char source[80];

    sha256(sum, element, strlen(element));
    base64url(base64, sum);
    for (char *c = base64; *c; c++)
        *c = (char)(*c == '-' ? '+' : *c == '_' ? '/' : *c);
    snprintf(source, sizeof source, "'sha256-%s='", base64);
    assert_non_null(strstr(policy, source));
    free(element);
}

TEST(the_policy_allows_the_script_and_the_style_by_their_hashes)
{
    static const char *const never[] = {"unsafe", "http:", "https:", "*", NULL};
    char policy[PAGE_POLICY];
    char *text = page_of(PAGE_SERVED, "{}");

    page_policy(policy, PAGE_SERVED);
    assert_allows(policy, text, "<script>", "</script>");
    assert_allows(policy, text, "<style>", "</style>");
    assert_non_null(strstr(policy, "default-src 'none'"));
    assert_non_null(strstr(policy, "frame-ancestors 'none'"));
    assert_non_null(strstr(policy, "connect-src 'self'"));
    for (size_t i = 0; never[i]; i++)
        assert_null(strstr(policy, never[i]));
    free(text);
}

TEST(a_file_has_its_policy_within_and_may_send_no_request)
{
    char policy[PAGE_POLICY];
    char *text = page_of(PAGE_FILE, "{}");
    char *within = part_of(text, "<meta http-equiv=\"Content-Security-Policy\" content=\"", "\">");

    page_policy(policy, PAGE_FILE);
    assert_string_equal(within, policy);
    assert_null(strstr(policy, "connect-src"));
    assert_null(strstr(policy, "'self'"));
    assert_true(strstr(text, "http-equiv") < strstr(text, "<style>"));
    free(within);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_its_data_and_nothing_is_left_of_the_marks),
        cmocka_unit_test(no_text_of_the_data_can_end_its_element),
        cmocka_unit_test(the_policy_allows_the_script_and_the_style_by_their_hashes),
        cmocka_unit_test(a_file_has_its_policy_within_and_may_send_no_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
