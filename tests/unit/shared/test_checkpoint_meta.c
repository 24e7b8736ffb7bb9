#include "shared/records/checkpoint_meta.h"

#include "tests/unit/unit.h"

static struct err e;

/* A file without tensors and with this metadata; NULL values are omitted. */
static void write_file(const char *folder, struct tensor_file *f, const char *format, const char *version)
{
    const struct tensor_meta meta[] = {{"node", "-2"},
                                       {"codec_sha256", "00c0dec1"},
                                       {"format", format},
                                       {version ? "version" : NULL, version},
                                       {NULL, NULL}};
    char path[256];

    assert_ok(file_join(path, sizeof path, folder, "f.safetensors", &e));
    assert_ok(tensor_file_write(path, NULL, 0, meta, &e));
    assert_ok(tensor_file_open(f, path, &e));
}

TEST(a_checkpoint_belongs_to_one_node_and_one_codec)
{
    const char *folder = unit_folder();
    struct tensor_file f;

    write_file(folder, &f, CHECKPOINT_FORMAT, CHECKPOINT_VERSION);
    assert_true(checkpoint_meta_is(&f));
    assert_ok(checkpoint_meta_check_node(&f, -2, &e));
    assert_int_equal(checkpoint_meta_check_node(&f, 2, &e), ERR_CONFIG);
    assert_error_has("it belongs to node -2, not to node 2");
    assert_ok(checkpoint_meta_check_codec(&f, "plain", "00c0dec1", &e));
    assert_int_equal(checkpoint_meta_check_codec(&f, "plain", "00c0dec2", &e), ERR_CONFIG);
    assert_error_has("another build of codec plain (SHA-256 00c0dec1, now 00c0dec2)");
    tensor_file_close(&f);
    unit_remove(folder);
}

TEST(another_format_or_version_is_refused)
{
    const char *folder = unit_folder();
    struct tensor_file f;

    write_file(folder, &f, "psgd-model", CHECKPOINT_VERSION);
    assert_false(checkpoint_meta_is(&f));
    assert_int_equal(checkpoint_meta_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("its format is \"psgd-model\", expected psgd-checkpoint");
    tensor_file_close(&f);
    write_file(folder, &f, CHECKPOINT_FORMAT, "1");
    assert_true(checkpoint_meta_is(&f));
    assert_int_equal(checkpoint_meta_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("it has version \"1\", this psgd reads 2");
    tensor_file_close(&f);
    write_file(folder, &f, CHECKPOINT_FORMAT, NULL);
    assert_int_equal(checkpoint_meta_check_node(&f, -2, &e), ERR_CONFIG);
    assert_error_has("its metadata has no \"version\"");
    tensor_file_close(&f);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_belongs_to_one_node_and_one_codec),
        cmocka_unit_test(another_format_or_version_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
