#include "submit/export/export.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static const float weights[6] = {1, -2.5f, 0x1p-149f, 4, -0.0f, 6e30f};

/* Status of `python3 -c script` with the path as its argument; skips without numpy. */
static void hold_against_numpy(const char *path, const char *script)
{
    char command[2000];
    int status;

    snprintf(command, sizeof command,
             "for p in python3 /usr/bin/python3; do $p -c 'import numpy' 2>/dev/null && exec $p -c '%s' %s; "
             "done; exit 77",
             script, path);
    status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("python3-numpy is not installed\n");
        skip();
    }
    assert_int_equal(status, 0);
}

TEST(numpy_loads_every_type_and_shape_bit_for_bit)
{
    static const uint8_t bytes[3] = {1, 2, 255};
    static const int32_t ints[2] = {-7, 8};
    static const int64_t big[1] = {-9000000000};
    static const uint16_t halves[2] = {0x3c00, 0x0001};
    static const double wide[1] = {0.1};
    const struct tensor_view t[] = {
        {"layer0.dense.weight", TENSOR_F32, 2, {2, 3}, weights},
        {"bytes", TENSOR_U8, 1, {3}, bytes},
        {"ints", TENSOR_I32, 4, {1, 2, 1, 1}, ints},
        {"big", TENSOR_I64, 0, {0}, big},
        {"halves", TENSOR_F16, 1, {2}, halves},
        {"wide", TENSOR_F64, 1, {1}, wide},
        {"empty", TENSOR_F32, 2, {0, 5}, NULL},
    };
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "m.npz", &e));
    assert_ok(npz_write(path, t, N_OF(t), &e));
    hold_against_numpy(
        path, "import sys, zipfile, numpy as np\n"
              "assert zipfile.ZipFile(sys.argv[1]).testzip() is None\n"
              "z = np.load(sys.argv[1], allow_pickle=False)\n"
              "assert len(z.files) == 7, z.files\n"
              "w = z[\"layer0.dense.weight\"]\n"
              "assert w.dtype == np.float32 and w.shape == (2, 3)\n"
              "assert w.tobytes() == np.array([1, -2.5, 2**-149, 4, -0.0, 6e30], \"<f4\").tobytes(), w\n"
              "assert z[\"bytes\"].tolist() == [1, 2, 255] and z[\"ints\"].shape == (1, 2, 1, 1)\n"
              "assert z[\"big\"] == -9000000000 and z[\"big\"].shape == ()\n"
              "assert z[\"halves\"].tolist() == [1, 2**-24] and z[\"wide\"].tolist() == [0.1]\n"
              "assert z[\"empty\"].shape == (0, 5)\n");
    unit_remove(dir);
}

TEST(equal_tensors_produce_equal_files)
{
    const struct tensor_view t = {"w", TENSOR_F32, 1, {6}, weights};
    const char *dir = unit_folder();
    char path[256];
    char *bytes[2];
    size_t len[2];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "m.npz", &e));
    for (int i = 0; i < 2; i++) {
        assert_ok(npz_write(path, &t, 1, &e));
        assert_ok(file_read(&bytes[i], &len[i], path, 10000, &e));
    }
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(bytes[0], bytes[1], len[0]);
    free(bytes[0]);
    free(bytes[1]);
    unit_remove(dir);
}

TEST(the_longest_name_and_shape_fit)
{
    struct tensor_view t = {.type = TENSOR_F32, .n_dims = TENSOR_DIMS};
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    memset(t.name, 'n', TENSOR_NAME - 1);
    for (int i = 0; i < TENSOR_DIMS; i++)
        t.shape[i] = i ? (size_t)1 << 62 : 0;
    assert_ok(file_join(path, sizeof path, dir, "m.npz", &e));
    assert_ok(npz_write(path, &t, 1, &e));
    hold_against_numpy(path, "import sys, zipfile\n"
                             "z = zipfile.ZipFile(sys.argv[1])\n"
                             "assert z.testzip() is None and z.namelist() == [\"n\" * 135 + \".npy\"]\n");
    unit_remove(dir);
}

TEST(tensors_that_numpy_or_zip_cannot_represent_are_refused)
{
    static const uint16_t half = 0x3f80;
    const struct tensor_view brain = {"b", TENSOR_BF16, 0, {0}, &half};
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "m.npz", &e));
    assert_int_equal(npz_write(path, &brain, 1, &e), ERR_CONFIG);
    assert_error_has("tensor \"b\" is BF16, a type that numpy does not have");
    assert_int_equal(access(path, F_OK), -1);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numpy_loads_every_type_and_shape_bit_for_bit),
        cmocka_unit_test(equal_tensors_produce_equal_files),
        cmocka_unit_test(the_longest_name_and_shape_fit),
        cmocka_unit_test(tensors_that_numpy_or_zip_cannot_represent_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
