#include "agent/jobs/turns.h"

#include <stdio.h>
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

/* A watcher may be wrong, or lie, about the time at which its first job became the first. */
TEST(of_two_jobs_that_waited_long_the_earlier_one_counts_as_far_as_the_agent_has_seen_it)
{
    struct turn_waiter *ann, *bob;

    begin_turns();
    ann = turns_waiter(&t, "ann", "owner");
    bob = turns_waiter(&t, "bob", "owner");
    ann->first_is_possible = bob->first_is_possible = true;
    turns_set_first(ann, "j-ann", 5000, 1000, 5000);
    turns_set_first(bob, "j-bob", 4999, 1003, 5003); /* the first request was late */
    assert_true(may_take(&t, "bob", "j-bob", 1, 1700) && !may_take(&t, "ann", "j-ann", 1, 1700));
    turns_set_first(bob, "j-new", 0, 1010, 5010);
    turns_set_first(bob, "j-new", 0, 1020, 5020); /* reported again */
    assert_true(bob->first_since == 5010 - CLAIM_S);
    assert_true(may_take(&t, "ann", "j-ann", 1, 1700) && !may_take(&t, "bob", "j-new", 1, 1700));
}

TEST(a_slot_that_stays_free_is_kept_for_a_time_and_later_for_twice_that_time)
{
    struct turn_waiter *bob;

    begin_turns();
    bob = turns_waiter(&t, "bob", "owner");
    bob->first_is_possible = true;
    turns_set_first(bob, "j-bob", 5000, 1000, 5000);
    for (double now = 1600; now < 2200; now += 5)
        turns_keep(&t, 1, now);
    assert_false(may_take(&t, "ann", "j-ann", 1, 2200));
    turns_keep(&t, 1, 2200);
    turns_keep(&t, 1, 2205);
    assert_true(may_take(&t, "ann", "j-ann", 1, 2205));
    assert_true(may_take(&t, "ann", "j-ann", 1, 2800));
    for (double now = 2805; now <= 2805 + 1200; now += 5)
        turns_keep(&t, 1, now);
    assert_false(may_take(&t, "ann", "j-ann", 1, 4005));
    turns_keep(&t, 0, 4010); /* the time of a taken slot does not count */
    turns_keep(&t, 1, 9000);
    assert_false(may_take(&t, "ann", "j-ann", 1, 9000));
    turns_keep(&t, 1, 9005);
    assert_true(may_take(&t, "ann", "j-ann", 1, 9005));
}

TEST(slots_that_were_kept_in_vain_are_kept_for_no_other_watcher_for_a_time)
{
    begin_turns();
    for (int i = 0; i < 2; i++) {
        struct turn_waiter *w = add_waiter(&t, i ? "cid" : "bob");

        w->first_is_possible = true;
        turns_set_first(w, i ? "j-cid" : "j-bob", 5000, 1000, 5000);
    }
    for (double now = 1600; now < 2210; now += 5)
        turns_keep(&t, 1, now);
    assert_true(may_take(&t, "ann", "j-ann", 1, 2210));
    assert_true(may_take(&t, "ann", "j-ann", 1, 2800));
    assert_false(may_take(&t, "ann", "j-ann", 1, 2810));
}

TEST(a_token_has_a_few_watchers_and_a_new_one_replaces_the_one_that_was_silent_longest)
{
    char id[16];

    begin_turns();
    for (int i = 0; i < TURNS_OF_TOKEN; i++) {
        snprintf(id, sizeof id, "q-%d", i);
        turns_waiter(&t, id, "eve")->until = i == 3 ? 1000 : 1010;
    }
    assert_non_null(turns_waiter(&t, "q-new", "eve"));
    assert_null(turns_find(&t, "q-3", "eve"));
    assert_int_equal(t.n_waiters, 2 + TURNS_OF_TOKEN);
    for (int i = 0; i < 2 * TURNS_OF_SHARED; i++) { /* several people have this one */
        snprintf(id, sizeof id, "q-%d", i);
        assert_non_null(turns_waiter(&t, id, "owner"));
    }
    assert_int_equal(t.n_waiters, TURNS_OF_TOKEN + TURNS_OF_SHARED);
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
        cmocka_unit_test(of_two_jobs_that_waited_long_the_earlier_one_counts_as_far_as_the_agent_has_seen_it),
        cmocka_unit_test(a_slot_that_stays_free_is_kept_for_a_time_and_later_for_twice_that_time),
        cmocka_unit_test(slots_that_were_kept_in_vain_are_kept_for_no_other_watcher_for_a_time),
        cmocka_unit_test(a_token_has_a_few_watchers_and_a_new_one_replaces_the_one_that_was_silent_longest),
        cmocka_unit_test(a_watcher_that_is_not_heard_of_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
