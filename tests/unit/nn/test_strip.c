#include "nn/kernels/strip.h"

#include <math.h>

#include "nn/kernels/cpu.h"
#include "tests/unit/unit.h"

enum { MOST = 70, APART = MOST + 3 };

static float a[MOST * APART], b[MOST * APART], c[MOST * APART];

static void fill(float *v, unsigned start)
{
    for (size_t i = 0; i < (size_t)MOST * APART; i++)
        v[i] = (float)((i + start) * 2654435761u >> 8 & 1023) / 1024 - 0.5f;
}

/* Clears what lies above the diagonal of a, or below it. */
static void clear_half(enum strip_part part)
{
    for (size_t i = 0; i < MOST; i++)
        for (size_t p = 0; p < APART; p++)
            if (part == STRIP_A_LOWER ? p > i : part == STRIP_A_UPPER && p < i)
                a[i * APART + p] = 0;
}

static float summed_in_order(size_t i, size_t j, size_t k)
{
    float sum = 0;

    for (size_t p = 0; p < k; p++) {
        float x = a[i * APART + p], y = b[p * APART + j];

        sum = cpu_fuses() ? fmaf(x, y, sum) : sum + x * y;
    }
    return sum;
}

static void assert_product(enum strip_part part, size_t m, size_t n, size_t k)
{
    fill(a, 1);
    fill(b, 7);
    fill(c, 3);
    clear_half(part);
    strip_matmul(part, m, n, k, (struct strip_operand){a, APART, 1}, (struct strip_operand){b, APART, 1}, c,
                 APART);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n && (part != STRIP_C_LOWER || j <= i); j++)
            assert_true(c[i * APART + j] == summed_in_order(i, j, k));
}

/* So the bits do not depend on the form for the processor. */
TEST(each_value_is_summed_from_its_first_product_to_its_last)
{
    const size_t sizes[] = {1, 5, 6, 8, 13, 16, 31, 32, 48, 64, 70};
    const size_t n = sizeof sizes / sizeof *sizes;

    for (int part = STRIP_ALL; part <= STRIP_A_UPPER; part++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                assert_product((enum strip_part)part, sizes[i], sizes[j], sizes[(i + j) % n]);
                assert_product((enum strip_part)part, sizes[i], sizes[j], sizes[i]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_is_summed_from_its_first_product_to_its_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
