#include "submit/browse/page_access.h"

#include "tests/unit/unit.h"

static struct door door;
static char cookie[128];

/* A request; what is NULL is not in it, but for the method GET and the path /. */
struct asked {
    const char *method, *path, *token, *host, *cookie, *origin, *site, *own;
};

static enum door_answer ask(struct asked rq, const char *reason)
{
    const struct header all[] = {{"Host", rq.host},
                                 {"cookie", rq.cookie},
                                 {"Origin", rq.origin},
                                 {"Sec-Fetch-Site", rq.site},
                                 {"X-Psgd", rq.own}};
    struct head head = {.method = rq.method ? rq.method : "GET"};
    struct door_refusal refusal = {.why = ""};
    enum door_answer a;

    for (size_t i = 0; i < N_OF(all); i++)
        if (all[i].value)
            head.headers[head.n_headers++] = all[i];
    a = door_check(&door, &head, rq.path ? rq.path : "/", rq.token, &refusal);
    if (reason && !strstr(refusal.why, reason))
        print_error("\"%s\"\n", refusal.why);
    assert_true(!reason || strstr(refusal.why, reason));
    return a;
}

static void open_door(void)
{
    door_open(&door, 8000);
    snprintf(cookie, sizeof cookie, "other=1; psgd-8000=%s; psgd-80=x", door.cookie);
}

#define HERE .host = "127.0.0.1:8000"

TEST(the_token_works_once_and_the_cookie_from_then_on)
{
    open_door();
    assert_int_equal(ask((struct asked){HERE}, "has not opened the address"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = "wrong"}, "token"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = ""}, "token"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = door.token, .path = "/api/jobs"}, "token"),
                     DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = door.token, .method = "POST"}, "token"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = door.token}, NULL), DOOR_WELCOME);
    assert_int_equal(ask((struct asked){HERE, .token = door.token}, "works once"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .token = door.token, .cookie = cookie}, NULL), DOOR_WELCOME);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie}, NULL), DOOR_SERVE);
}

TEST(two_doors_have_other_secrets)
{
    struct door second;

    open_door();
    door_open(&second, 8000);
    assert_string_not_equal(door.token, second.token);
    assert_string_not_equal(door.cookie, second.cookie);
    assert_string_not_equal(door.cookie, door.token);
}

TEST(a_cookie_that_is_not_the_doors_is_refused)
{
    static const char *const wrong[] = {"",    "psgd-8000=", "psgd-8000",  "psgd-8000=x",
                                        ";;;", "=",          "psgd-8001=", NULL};
    char other[256];

    open_door();
    for (size_t i = 0; wrong[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = wrong[i]}, "has not opened"), DOOR_REFUSE);
    snprintf(other, sizeof other, "psgd-8001=%s", door.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), DOOR_REFUSE);
    snprintf(other, sizeof other, "psgd-8000=%sx", door.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), DOOR_REFUSE);
    snprintf(other, sizeof other, "psgd-8000=x;psgd-8000=%s", door.cookie);
    assert_int_equal(ask((struct asked){HERE, .cookie = other}, NULL), DOOR_SERVE);
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

    open_door();
    assert_int_equal(ask((struct asked){.cookie = cookie}, "exactly one Host"), DOOR_REFUSE);
    for (size_t i = 0; wrong[i]; i++)
        assert_int_equal(ask((struct asked){.host = wrong[i], .cookie = cookie}, "address"), DOOR_REFUSE);
    for (size_t i = 0; right[i]; i++)
        assert_int_equal(ask((struct asked){.host = right[i], .cookie = cookie}, NULL), DOOR_SERVE);
}

TEST(what_another_site_makes_the_browser_ask_is_refused)
{
    static const char *const origins[] = {
        "null", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:8001", "", NULL};
    static const char *const sites[] = {"cross-site", "same-site", "", NULL};

    open_door();
    for (size_t i = 0; origins[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .origin = origins[i]}, "other web sites"),
                         DOOR_REFUSE);
    for (size_t i = 0; sites[i]; i++)
        assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .site = sites[i]}, "other web sites"),
                         DOOR_REFUSE);
    assert_int_equal(
        ask((struct asked){HERE, .cookie = cookie, .origin = "http://127.0.0.1:8000", .site = "same-origin"},
            NULL),
        DOOR_SERVE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .site = "none"}, NULL), DOOR_SERVE);
    /* The printed address may be clicked anywhere: its token is what counts. */
    assert_int_equal(ask((struct asked){HERE, .token = door.token, .site = "cross-site"}, NULL),
                     DOOR_WELCOME);
}

TEST(a_change_needs_the_pages_own_header)
{
    open_door();
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST"}, "X-Psgd"), DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST", .own = "2"}, "X-Psgd"),
                     DOOR_REFUSE);
    assert_int_equal(ask((struct asked){HERE, .cookie = cookie, .method = "POST", .own = "1"}, NULL),
                     DOOR_SERVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_token_works_once_and_the_cookie_from_then_on),
        cmocka_unit_test(two_doors_have_other_secrets),
        cmocka_unit_test(a_cookie_that_is_not_the_doors_is_refused),
        cmocka_unit_test(a_host_that_is_not_this_machine_is_refused),
        cmocka_unit_test(what_another_site_makes_the_browser_ask_is_refused),
        cmocka_unit_test(a_change_needs_the_pages_own_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
