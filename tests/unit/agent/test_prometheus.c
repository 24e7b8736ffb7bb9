#include "agent/api/prometheus.h"

#include <math.h>

#include "tests/lib/prometheus_check.h"
#include "tests/unit/unit.h"

static struct prometheus_text t;

TEST(labels_of_any_text_are_escaped)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    prometheus_family(f, "m", "gauge", "A gauge.");
    prometheus_sample(f, "m", (struct label[]){{"codec", "a\"b\\c\nd} 7"}, {"job", NULL}, {0}}, 1.5);
    prometheus_sample(f, "m", NULL, INFINITY);
    prometheus_sample(f, "m", (struct label[]){{"job", NULL}, {"x", ""}, {0}}, NAN);
    fclose(f);
    assert_string_equal(text, "# HELP m A gauge.\n# TYPE m gauge\nm{codec=\"a\\\"b\\\\c\\nd} 7\"} 1.5\n"
                              "m +Inf\nm{x=\"\"} NaN\n");
    if (!prometheus_read(&t, text))
        fail_msg("%s", t.why);
    prometheus_text_clear(&t);
    free(text);
}

TEST(a_histogram_is_cumulative)
{
    struct histogram h = {.n = {1, 0, 2}, .sum = 9};
    double bounds[COUNTS_BOUNDS];
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    for (int i = 0; i < COUNTS_BOUNDS; i++)
        bounds[i] = i + 0.5;
    h.n[COUNTS_BOUNDS] = 4;
    prometheus_family(f, "s", "histogram", "Seconds.");
    prometheus_histogram(f, "s", NULL, &h, bounds);
    fclose(f);
    if (!prometheus_read(&t, text))
        fail_msg("%s", t.why);
    assert_true(prometheus_value(&t, "s_bucket{le=\"0.5\"}") == 1);
    assert_true(prometheus_value(&t, "s_bucket{le=\"2.5\"}") == 3);
    assert_true(prometheus_value(&t, "s_bucket{le=\"+Inf\"}") == 7);
    assert_true(prometheus_value(&t, "s_count") == 7);
    assert_true(prometheus_value(&t, "s_sum") == 9);
    prometheus_text_clear(&t);
    free(text);
}

/* So that the check itself can fail. */
TEST(a_text_that_is_not_of_the_format_is_refused)
{
    static const char *const texts[] = {
        "m 1\n",
        "# HELP m x\n# TYPE m gauge\nm 1",
        "# HELP m x\n# TYPE m gauge\nm 1\nm 2\n",
        "# HELP m x\n# TYPE m gauge\nm{a=\"b} 1\n",
        "# HELP m x\n# TYPE m gauge\nn 1\n",
        "# HELP m x\n# TYPE m gauge\nm one\n",
        "# HELP m x\n# TYPE m gauge\n# HELP m x\n",
        "# HELP s x\n# TYPE s histogram\ns_bucket{le=\"1\"} 2\ns_bucket{le=\"+Inf\"} 1\n",
        "# HELP s x\n# TYPE s histogram\ns_bucket{le=\"1\"} 2\ns_count 2\n",
    };

    for (size_t i = 0; i < N_OF(texts); i++) {
        if (prometheus_read(&t, texts[i]))
            fail_msg("%s", texts[i]);
        prometheus_text_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_any_text_are_escaped),
        cmocka_unit_test(a_histogram_is_cumulative),
        cmocka_unit_test(a_text_that_is_not_of_the_format_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
