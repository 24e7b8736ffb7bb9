/* The agreement on which contributions of lost workers count. */
#include "tests/unit/unit.h"

#include "runner/exchange/agreement.h"

enum { N = 10 }; /* workers: a bitmap has two bytes */

static struct agreement a;
static struct agreement_statement s;
static bool has_left[N];
static unsigned char bytes[4];

/* Opens the agreement of worker 0 in `round`, which has lost the workers `lost`. */
static void begin(uint64_t round, const int *lost, int n_lost)
{
    assert_true(agreement_open(&a, N, 0));
    memset(has_left, 0, sizeof has_left);
    for (int i = 0; i < n_lost; i++) {
        agreement_lose(&a, lost[i]);
        has_left[lost[i]] = true;
    }
    agreement_restate(&a, round);
}

/* Worker `from` states that it has lost `lost`, is in `round`, and has closed the previous round with all
 * contributions. */
static void state_of(int from, uint64_t round, int lost)
{
    memset(bytes, 0xff, sizeof bytes);
    bytes[0] = bytes[1] = 0;
    bytes[lost / 8] = (unsigned char)(1 << lost % 8);
    bytes[3] = 3;
    assert_true(agreement_read(&s, &a, from, 5, round, bytes, sizeof bytes));
    agreement_take(&a, from, &s);
}

TEST(agreement_is_reached_once_all_remaining_workers_state_the_same)
{
    begin(5, (const int[]){9}, 1);
    assert_false(agreement_settles(&a, has_left));
    assert_int_equal(agreement_awaits(&a, has_left), 1);
    for (int w = 1; w < 8; w++)
        state_of(w, 5, 9);
    assert_int_equal(agreement_awaits(&a, has_left), 8);
    has_left[8] = true; /* sent its BYE frame: it has closed all rounds */
    assert_true(agreement_settles(&a, has_left));
    assert_false(agreement_settles(&a, has_left)); /* already settled */
    agreement_clear(&a);
}

TEST(a_statement_about_fewer_losses_does_not_count)
{
    begin(5, (const int[]){8, 9}, 2);
    for (int w = 1; w < 8; w++)
        state_of(w, 5, 9);
    assert_int_equal(agreement_awaits(&a, has_left), 1);
    agreement_clear(&a);
}

TEST(a_contribution_of_a_lost_worker_counts_if_a_worker_has_closed_the_round_with_it)
{
    begin(5, (const int[]){9}, 1);
    for (int w = 1; w < 9; w++)
        state_of(w, w == 4 || w == 6 ? 6 : 5, 9);
    assert_true(agreement_settles(&a, has_left));
    assert_true(agreement_counts(&a, 9, 5));
    assert_false(agreement_counts(&a, 9, 6));
    assert_true(agreement_counts(&a, 3, 6)); /* of a remaining worker: in any round */
    assert_int_equal(agreement_relayer(&a, has_left), 4);
    assert_true(agreement_is_behind(&a, 0) && agreement_is_behind(&a, 5) && !agreement_is_behind(&a, 6));
    agreement_clear(&a);
    begin(5, (const int[]){9}, 1);
    for (int w = 1; w < 9; w++)
        state_of(w, 5, 9);
    assert_true(agreement_settles(&a, has_left));
    assert_false(agreement_counts(&a, 9, 5));
    agreement_clear(&a);
}

TEST(further_losses_restart_the_agreement)
{
    begin(5, (const int[]){9}, 1);
    for (int w = 1; w < 9; w++)
        state_of(w, 6, 9);
    assert_true(agreement_settles(&a, has_left));
    for (int w = 1; w < 9; w++)
        agreement_lose(&a, w);
    agreement_lose(&a, 8);
    assert_int_equal(a.n_lost, 9);
    agreement_restate(&a, 5);
    assert_true(agreement_settles(&a, has_left)); /* no worker is left */
    assert_false(agreement_counts(&a, 9, 5));     /* the workers that had closed that round are lost */
    agreement_clear(&a);
}

TEST(a_statement_survives_serialization)
{
    begin(7, (const int[]){3, 8}, 2);
    a.counted[0] = a.counted[9] = true;
    agreement_write(&a, bytes);
    assert_true(agreement_read(&s, &a, 1, 6, 7, bytes, sizeof bytes));
    for (int w = 0; w < N; w++) {
        assert_int_equal(agreement_names_lost(&s, w), w == 3 || w == 8);
        assert_int_equal(s.counted[w / 8] >> w % 8 & 1, w == 0 || w == 9);
    }
    agreement_clear(&a);
}

TEST(a_statement_impossible_in_the_round_is_refused)
{
    static const struct {
        uint64_t own, round;
        int from;
        unsigned char bytes[4];
        size_t len;
        bool is_right;
    } cases[] = {
        {5, 5, 1, {0, 2, 0xff, 3}, 4, true},        {5, 4, 1, {0, 2, 0, 0}, 4, true},
        {5, 3, 1, {0, 2, 0, 0}, 4, false},          {5, 7, 1, {0, 2, 0, 0}, 4, false},
        {0, UINT64_MAX, 1, {0, 2, 0, 0}, 4, false}, {5, 5, 1, {0, 2, 0, 0}, 3, false},
        {5, 5, 1, {0, 0, 0, 0}, 4, false},          {5, 5, 9, {0, 2, 0, 0}, 4, false},
        {5, 5, 1, {0, 6, 0, 0}, 4, false},          {5, 5, 1, {0, 2, 0, 4}, 4, false},
    };

    begin(5, NULL, 0);
    for (size_t k = 0; k < N_OF(cases); k++) {
        unsigned char *exact = unit_copy(cases[k].bytes, cases[k].len);

        assert_int_equal(
            agreement_read(&s, &a, cases[k].from, cases[k].own, cases[k].round, exact, cases[k].len),
            cases[k].is_right);
        free(exact);
    }
    agreement_clear(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agreement_is_reached_once_all_remaining_workers_state_the_same),
        cmocka_unit_test(a_statement_about_fewer_losses_does_not_count),
        cmocka_unit_test(a_contribution_of_a_lost_worker_counts_if_a_worker_has_closed_the_round_with_it),
        cmocka_unit_test(further_losses_restart_the_agreement),
        cmocka_unit_test(a_statement_survives_serialization),
        cmocka_unit_test(a_statement_impossible_in_the_round_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
