#include "submit/results/predictions.h"

#include <math.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

static const char *folder;
static char tensors[128], table[128];
static struct dataset_warnings warnings; /* of the last table */

static int make(void **state)
{
    (void)state;
    folder = unit_folder();
    snprintf(tensors, sizeof tensors, "%s/predictions.safetensors", folder);
    snprintf(table, sizeof table, "%s/table.csv", folder);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unit_remove(folder);
    dataset_warnings_clear(&warnings);
    return 0;
}

/* The code of predictions_write; *text: the table, or NULL. */
static int write_of(char **text, const struct dataset *d, const char *half, const struct tensor_view *t,
                    size_t n, struct err *e)
{
    struct err ignored;
    struct tensor_file f;
    size_t len;
    int rc;

    *text = NULL;
    dataset_warnings_clear(&warnings);
    assert_true(tensor_file_write(tensors, t, n, NULL, e) == 0 && tensor_file_open(&f, tensors, e) == 0);
    rc = predictions_write(table, d, half, &f, &warnings, e);
    tensor_file_close(&f);
    if (rc == 0)
        assert_int_equal(file_read(text, &len, table, 4096, &ignored), 0);
    return rc;
}

static int32_t labels[3] = {0, 1, 1}, classes[3] = {0, 0, 1};
static float probability[3] = {0.5f, 0.75f, NAN};

static const struct tensor_view of_labels[] = {
    {.name = "class", .type = TENSOR_I32, .n_dims = 1, .shape = {3}, .data = classes},
    {.name = "probability", .n_dims = 1, .shape = {3}, .data = probability},
};

TEST(a_row_has_label_class_and_probability_and_names_where_there_are_some)
{
    static char names[] = "a \"b\", c\0plain";
    struct dataset d = {.n_test = 3, .n_classes = 2, .test_y = labels};
    struct err e = {0};
    char *text;

    assert_ok(write_of(&text, &d, "test", of_labels, 2, &e));
    assert_string_equal(text, "index,label,predicted,probability\n0,0,0,0.5\n1,1,0,0.75\n2,1,1,nan\n");
    assert_non_null(strstr(dataset_warning(&warnings, NULL), "outputs of 1 of 3 samples are not finite"));
    free(text);
    d.class_names = names;
    assert_ok(write_of(&text, &d, "test", of_labels, 1, &e)); /* a model without probabilities */
    assert_null(dataset_warning(&warnings, NULL));
    assert_string_equal(text, "index,label,predicted,probability,label_name,predicted_name\n"
                              "0,0,0,,\"a \"\"b\"\", c\",\"a \"\"b\"\", c\"\n"
                              "1,1,0,,plain,\"a \"\"b\"\", c\"\n2,1,1,,plain,plain\n");
    free(text);
}

TEST(a_row_of_a_regression_has_targets_and_values)
{
    static float targets[4] = {1, 2, 3, 4}, values[4] = {1.5f, 2, 3, -4};
    struct dataset d = {.n_train = 4, .n_targets = 1, .train_t = targets};
    struct tensor_view t = {.name = "values", .n_dims = 2, .shape = {4, 1}, .data = values};
    struct err e = {0};
    char *text;

    assert_ok(write_of(&text, &d, "train", &t, 1, &e));
    assert_string_equal(text, "index,target,predicted\n0,1,1.5\n1,2,2\n2,3,3\n3,4,-4\n");
    free(text);
    d.n_train = t.shape[0] = 2;
    d.n_targets = 2;
    t.shape[1] = 2;
    assert_ok(write_of(&text, &d, "train", &t, 1, &e));
    assert_string_equal(text, "index,target_0,target_1,predicted_0,predicted_1\n0,1,2,1.5,2\n1,3,4,3,-4\n");
    free(text);
}

TEST(predictions_of_other_samples_are_refused)
{
    struct dataset d = {.n_test = 2, .n_classes = 2, .test_y = labels};
    struct err e = {0};
    char *text;

    assert_int_equal(write_of(&text, &d, "test", of_labels, 2, &e),
                     ERR_PROTOCOL); /* two samples, not three */
    d.n_test = 3;
    classes[2] = 2;
    assert_int_equal(write_of(&text, &d, "test", of_labels, 2, &e), ERR_PROTOCOL); /* no class 2 */
    classes[2] = -1;
    assert_int_equal(write_of(&text, &d, "test", of_labels, 2, &e), ERR_PROTOCOL);
    classes[2] = 1;
    assert_int_equal(write_of(&text, &d, "test", of_labels + 1, 1, &e), ERR_PROTOCOL); /* no classes */
    d = (struct dataset){.n_test = 3, .n_targets = 1};
    assert_int_equal(write_of(&text, &d, "test", of_labels, 2, &e), ERR_PROTOCOL); /* no values */
}

TEST(only_a_table_of_predictions_is_replaced)
{
    static const struct {
        const char *name, *text;
        int rc;
    } cases[] = {{"table.csv", "index,label\n", 0},    {"empty.csv", "", 0},   {"new.csv", NULL, 0},
                 {"other.csv", "a,b\n", ERR_CONFLICT}, {"fifo", NULL, ERR_IO}, {".", NULL, ERR_IO}};
    struct err e = {0};
    char path[128];

    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, cases[i].name);
        if (cases[i].text)
            assert_int_equal(file_write(path, cases[i].text, strlen(cases[i].text), 0644, &e), 0);
        assert_int_equal(predictions_check_path(path, &e), cases[i].rc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_row_has_label_class_and_probability_and_names_where_there_are_some,
                                        make, clean),
        cmocka_unit_test_setup_teardown(a_row_of_a_regression_has_targets_and_values, make, clean),
        cmocka_unit_test_setup_teardown(predictions_of_other_samples_are_refused, make, clean),
        cmocka_unit_test_setup_teardown(only_a_table_of_predictions_is_replaced, make, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
