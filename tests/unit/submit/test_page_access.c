#include "submit/browse/page_access.h"

#include "tests/unit/unit.h"

static struct page_access page;
static char cookie[128];

/* A request; a member that is NULL is left out; the default method is GET, the default path /. */
struct asked {
    const char *method, *path, *token, *host, *cookie, *origin, *site, *own;
};

static enum page_answer ask(struct asked rq, const char *reason)
{
    const struct header all[] = {{"Host", rq.host},
                                 {"cookie", rq.cookie},
                                 {"Origin", rq.origin},
                                 {"Sec-Fetch-Site", rq.site},
                                 {"X-Psgd", rq.own}};
    struct head head = {.method = rq.method ? rq.method : "GET"};
    struct page_refusal refusal = {.why = ""};
    enum page_answer a;

    for (size_t i = 0; i < N_OF(all); i++)
        if (all[i].value)
            head.headers[head.n_headers++] = all[i];
    a = page_access_check(&page, &head, rq.path ? rq.path : "/", rq.token, &refusal);
    if (reason && !strstr(refusal.why, reason))
        print_error("\"%s\"\n", refusal.why);
    assert_true(!reason || strstr(refusal.why, reason));
    return a;
}

static void open_page(void)
{
    page_access_init(&page, 8000);
    snprintf(cookie, sizeof cookie, "other=1; psgd-8000=%s; psgd-80=x", page.cookie);
}

#define HERE .host = "127.0.0.1:8000"

TEST(the_token_works_once_and_the_cookie_from_then_on)
{
    open_page();
    assert_int_equal(ask((struct asked){HERE}, "has not opened the address"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = "wrong"}, "token"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = ""}, "token"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = page.token, .path = "/api/jobs"}, "token"),
                     PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = page.token, .method = "POST"}, "token"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = page.token}, NULL), PAGE_SET_COOKIE);
    assert_int_equal(ask((struct asked){HERE, .token = page.token}, "works once"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = page.token, .cookie = cookie}, NULL), PAGE_SET_COOKIE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie}, NULL), PAGE_SERVE);
}

TEST(two_pages_have_other_secrets)
{
    struct page_access second;

    open_page();
    page_access_init(&second, 8000);
    assert_string_not_equal(page.token, second.token);
    assert_string_not_equal(page.cookie, second.cookie);
    assert_string_not_equal(page.cookie, page.token);
}

TEST(a_cookie_of_another_page_is_refused)
{
    static const char *const wrong[] = {"",    "psgd-8000=", "psgd-8000",  "psgd-8000=x",
                                        ";;;", "=",          "psgd-8001=", NULL};
    char other[256];

    open_page();
    for (size_t i = 0; wrong[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = wrong[i]}, "has not opened"), PAGE_REFUSE);
    snprintf(other, sizeof other, "psgd-8001=%s", page.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), PAGE_REFUSE);
    snprintf(other, sizeof other, "psgd-8000=%sx", page.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), PAGE_REFUSE);
    snprintf(other, sizeof other, "psgd-8000=x;psgd-8000=%s", page.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), PAGE_SERVE);
}

TEST(a_host_that_is_not_this_machine_is_refused)
{
    static const char *const wrong[] = {"evil.example",
                                        "127.0.0.1.evil.example",
                                        "localhost.evil",
                                        "127.0.0.1:8000@x",
                                        "127.0.0.1:x",
                                        "",
                                        "evil@127.0.0.1:8000",
                                        "127.0.0.2:8000",
                                        NULL};
    static const char *const right[] = {"127.0.0.1", "localhost:8000", "LOCALHOST", "[::1]:1234", NULL};

    open_page();
    assert_int_equal(ask((struct asked){.cookie = cookie}, "exactly one Host"), PAGE_REFUSE);
    for (size_t i = 0; wrong[i]; i++)
        assert_int_equal(ask((struct asked){.host = wrong[i], .cookie = cookie}, "address"), PAGE_REFUSE);
    for (size_t i = 0; right[i]; i++)
        assert_int_equal(ask((struct asked){.host = right[i], .cookie = cookie}, NULL), PAGE_SERVE);
}

TEST(requests_that_another_site_triggers_are_refused)
{
    static const char *const origins[] = {
        "null", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:8001", "", NULL};
    static const char *const sites[] = {"cross-site", "same-site", "", NULL};

    open_page();
    for (size_t i = 0; origins[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .origin = origins[i]}, "other web sites"),
                         PAGE_REFUSE);
    for (size_t i = 0; sites[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .site = sites[i]}, "other web sites"),
                         PAGE_REFUSE);
    assert_int_equal(
        ask((struct asked){HERE, .cookie = cookie, .origin = "http://127.0.0.1:8000", .site = "same-origin"},
            NULL),
        PAGE_SERVE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .site = "none"}, NULL), PAGE_SERVE);
    /* The printed address may be opened from any site: only its token counts. */
    assert_int_equal(ask((struct asked){HERE, .token = page.token, .site = "cross-site"}, NULL),
                     PAGE_SET_COOKIE);
}

TEST(a_change_needs_the_pages_own_header)
{
    open_page();
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST"}, "X-Psgd"), PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST", .own = "2"}, "X-Psgd"),
                     PAGE_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST", .own = "1"}, NULL),
                     PAGE_SERVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_token_works_once_and_the_cookie_from_then_on),
        cmocka_unit_test(two_pages_have_other_secrets),
        cmocka_unit_test(a_cookie_of_another_page_is_refused),
        cmocka_unit_test(a_host_that_is_not_this_machine_is_refused),
        cmocka_unit_test(requests_that_another_site_triggers_are_refused),
        cmocka_unit_test(a_change_needs_the_pages_own_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
