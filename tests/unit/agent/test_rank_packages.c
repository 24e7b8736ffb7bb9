#include "agent/folder/rank_packages.h"

#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "tests/unit/unit.h"

static void write_package(const char *folder, const char *hex, const char *text)
{
    char path[256];
    struct err e;

    snprintf(path, sizeof path, "%s/" JOB_FOLDER_PACKAGES, folder);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/" JOB_FOLDER_PACKAGES "/%s", folder, hex);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

/* Of a job that goes on from a checkpoint the settings are changed, and so stored under another name. */
TEST(settings_that_were_changed_in_the_job_folder_are_refused_also_on_resume)
{
    static const char packed[] = "{\"epochs\":1}", changed[] = "{\"epochs\":9}";
    const struct meeting_point at = {.job = "j-1", .step = 10, .round = 1};
    const struct meeting_point *const points[] = {NULL, &at};
    const char *folder = unit_folder();
    static struct agent_options opt;
    static struct jobs jobs;
    static struct task t;
    char hex[SHA256_HEX], blobs[256];
    json_t *packages;
    struct err e;

    sha256_hex(hex, packed, strlen(packed));
    write_package(folder, hex, changed);
    snprintf(blobs, sizeof blobs, "%s/blobs", folder);
    jobs = (struct jobs){.opt = &opt};
    assert_ok(blob_store_open(&jobs.blobs, blobs, 1 << 20, &e));
    t = (struct task){.jobs = &jobs};
    packages = json_pack("{s:{s:{s:s}}}", "settings", "files", "settings.json", hex);
    for (size_t i = 0; i < N_OF(points); i++) {
        assert_int_equal(rank_packages_take(&t, folder, packages, points[i], &e), ERR_CONFIG);
        assert_error_has("is damaged: its SHA-256 is not its name");
    }
    json_decref(packages);
    blob_store_close(&jobs.blobs);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_that_were_changed_in_the_job_folder_are_refused_also_on_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
