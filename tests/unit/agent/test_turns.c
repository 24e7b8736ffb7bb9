#include "agent/jobs/turns.h"

#include <string.h>

#include "tests/unit/unit.h"

static double stored_use(const void *arg, const char *user, double now)
{
    return turns_used(arg, user, now);
}

static struct turn_waiter *add_waiter(struct turns *t, const char *user)
{
    struct turn_waiter *w = turns_waiter(t, user, "owner");

    snprintf(w->user, sizeof w->user, "%s", user);
    w->n_waiting = 1;
    return w;
}

static bool may_take(const struct turns *t, const char *user, const char *job, int n_free, double now)
{
    const struct turn_claim c = {.user = user, .job = job, .used_s = turns_used(t, user, now)};
    char why[128];

    return turns_may_take(t, &c, n_free, now, stored_use, t, why, sizeof why);
}

static struct turns t;

static void begin_turns(void)
{
    t = (struct turns){.aging_s = 600};
    turns_charge(&t, "ann", 10, 1000);
    turns_charge(&t, "bob", 20, 1000);
    add_waiter(&t, "ann");
    add_waiter(&t, "bob");
    turns_freed(&t, 1000);
}

TEST(a_user_is_named_by_the_token_or_if_several_share_it_by_the_submitter)
{
    char user[TURN_USER];

    turns_user(user, "ann", "eve@laptop");
    assert_string_equal(user, "ann");
    turns_user(user, "owner", "eve@laptop");
    assert_string_equal(user, "eve");
    turns_user(user, "", "eve");
    assert_string_equal(user, "eve");
}

TEST(the_user_who_has_used_the_agent_least_goes_first_unless_she_passes)
{
    begin_turns();
    assert_true(may_take(&t, "ann", NULL, 1, 1000));
    assert_false(may_take(&t, "bob", NULL, 1, 1000));
    assert_true(may_take(&t, "bob", NULL, 2, 1000)); /* a slot for each */
    assert_true(may_take(&t, "eve", NULL, 1, 1000)); /* who has not used it yet */
    turns_waiter(&t, "ann", "owner")->passed = t.n_freed;
    assert_true(may_take(&t, "bob", NULL, 1, 1000));
    turns_freed(&t, 1001);
    assert_false(may_take(&t, "bob", NULL, 1, 1001));
    assert_true(may_take(&t, "bob", NULL, 1, 1001 + TURN_S));
}

TEST(a_use_of_an_hour_ago_counts_half)
{
    begin_turns();
    assert_float_equal(turns_used(&t, "bob", 1000 + HALF_S), 10, 1e-9);
    turns_charge(&t, "bob", 5, 1000 + HALF_S);
    assert_float_equal(turns_used(&t, "bob", 1000 + HALF_S), 15, 1e-9);
}

TEST(a_job_that_waited_long_keeps_the_slots_from_all_others)
{
    struct turn_waiter *w;

    begin_turns();
    w = turns_waiter(&t, "bob", "owner");
    strcpy(w->first, "j-old");
    w->first_seen = 1000;
    w->first_is_possible = true;
    assert_true(may_take(&t, "ann", "j-new", 1, 1599));
    assert_false(may_take(&t, "ann", "j-new", 1, 1600));
    assert_false(may_take(&t, "bob", "j-other", 1, 1600));
    assert_true(may_take(&t, "bob", "j-old", 1, 1600));
    w->first_is_possible = false; /* an agent that it needs does not answer */
    assert_true(may_take(&t, "ann", "j-new", 1, 1600));
}

TEST(only_who_may_see_the_job_for_which_slots_are_kept_is_told_its_id)
{
    struct turn_claim c = {.user = "ann", .job = "j-new", .owner = "token-of-ann"};
    struct turn_waiter *w;
    char why[128];

    begin_turns();
    w = turns_waiter(&t, "bob", "owner");
    strcpy(w->first, "j-old");
    w->first_seen = 1000;
    w->first_is_possible = true;
    assert_false(turns_may_take(&t, &c, 1, 1600, stored_use, &t, why, sizeof why));
    assert_string_equal(why, "its slots are kept for another job of bob");
    c.sees_all = true;
    assert_false(turns_may_take(&t, &c, 1, 1600, stored_use, &t, why, sizeof why));
    assert_string_equal(why, "its slots are kept for j-old of bob");
    c.sees_all = false;
    c.owner = "owner";
    assert_false(turns_may_take(&t, &c, 1, 1600, stored_use, &t, why, sizeof why));
    assert_string_equal(why, "its slots are kept for j-old of bob");
}

TEST(a_watcher_that_is_not_heard_of_is_forgotten)
{
    begin_turns();
    turns_waiter(&t, "ann", "owner")->until = 1010;
    turns_waiter(&t, "bob", "owner")->until = 1020;
    assert_true(turns_expire(&t, 1011));
    assert_int_equal(t.n_waiters, 1);
    assert_string_equal(t.waiters[0].user, "bob");
    turns_waiter(&t, "bob", "owner")->n_open = 1;
    assert_false(turns_expire(&t, 1030));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_is_named_by_the_token_or_if_several_share_it_by_the_submitter),
        cmocka_unit_test(the_user_who_has_used_the_agent_least_goes_first_unless_she_passes),
        cmocka_unit_test(a_use_of_an_hour_ago_counts_half),
        cmocka_unit_test(a_job_that_waited_long_keeps_the_slots_from_all_others),
        cmocka_unit_test(only_who_may_see_the_job_for_which_slots_are_kept_is_told_its_id),
        cmocka_unit_test(a_watcher_that_is_not_heard_of_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
