/* Which words of lost workers count: what is stated, and what follows from it. */
#include "tests/unit/unit.h"

#include "agent/runner/exchange/agreement.h"

enum { N = 10 }; /* workers: a list is two bytes */

static struct agreement a;
static struct agreement_statement s;
static bool has_left[N];
static unsigned char bytes[4];

/* Of worker 0 in `round`, to whom `lost` are lost. */
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

/* Worker `from` states that it has lost `lost`, is in `round`, and has closed the one before with all
 * words. */
static void state_of(int from, uint64_t round, int lost)
{
    memset(bytes, 0xff, sizeof bytes);
    bytes[0] = bytes[1] = 0;
    bytes[lost / 8] = (unsigned char)(1 << lost % 8);
    bytes[3] = 3;
    assert_true(agreement_read(&s, &a, from, 5, round, bytes, sizeof bytes));
    agreement_take(&a, from, &s);
}

TEST(it_is_settled_when_everybody_who_is_left_has_stated_the_same)
{
    begin(5, (const int[]){9}, 1);
    assert_false(agreement_settles(&a, has_left));
    assert_int_equal(agreement_awaits(&a, has_left), 1);
    for (int w = 1; w < 8; w++)
        state_of(w, 5, 9);
    assert_int_equal(agreement_awaits(&a, has_left), 8);
    has_left[8] = true; /* with a good-bye: it has closed all rounds */
    assert_true(agreement_settles(&a, has_left));
    assert_false(agreement_settles(&a, has_left)); /* it has been, already */
    agreement_clear(&a);
}

TEST(a_statement_about_fewer_does_not_count)
{
    begin(5, (const int[]){8, 9}, 2);
    for (int w = 1; w < 8; w++)
        state_of(w, 5, 9);
    assert_int_equal(agreement_awaits(&a, has_left), 1);
    agreement_clear(&a);
}

TEST(a_word_of_a_lost_worker_counts_where_somebody_has_closed_the_round_with_it)
{
    begin(5, (const int[]){9}, 1);
    for (int w = 1; w < 9; w++)
        state_of(w, w == 4 || w == 6 ? 6 : 5, 9);
    assert_true(agreement_settles(&a, has_left));
    assert_true(agreement_counts(&a, 9, 5));
    assert_false(agreement_counts(&a, 9, 6));
    assert_true(agreement_counts(&a, 3, 6)); /* of one who is left: in any round */
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

TEST(more_losses_begin_it_anew)
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
    assert_true(agreement_settles(&a, has_left)); /* nobody is left */
    assert_false(agreement_counts(&a, 9, 5));     /* who had closed that round is gone */
    agreement_clear(&a);
}

TEST(what_is_written_is_read_back)
{
    begin(7, (const int[]){3, 8}, 2);
    a.counted[0] = a.counted[9] = true;
    agreement_write(&a, bytes);
    assert_true(agreement_read(&s, &a, 1, 6, 7, bytes, sizeof bytes));
    for (int w = 0; w < N; w++) {
        assert_int_equal(agreement_says_lost(&s, w), w == 3 || w == 8);
        assert_int_equal(s.counted[w / 8] >> w % 8 & 1, w == 0 || w == 9);
    }
    agreement_clear(&a);
}

TEST(what_nobody_in_the_same_round_could_state_is_refused)
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
        cmocka_unit_test(it_is_settled_when_everybody_who_is_left_has_stated_the_same),
        cmocka_unit_test(a_statement_about_fewer_does_not_count),
        cmocka_unit_test(a_word_of_a_lost_worker_counts_where_somebody_has_closed_the_round_with_it),
        cmocka_unit_test(more_losses_begin_it_anew),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_nobody_in_the_same_round_could_state_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
