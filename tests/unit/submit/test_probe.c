#include "submit/codecs/probe.h"

#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

static struct err e;

/* What the process that inspects a codec reports to job_submit. */
struct report {
    struct codec_facts facts;
    struct err e;
};

static int probe(struct codec_facts *f, const char *codec)
{
    char path[512];

    snprintf(path, sizeof path, "%s/tests/codecs/%s.so", test_build_dir(), codec);
    return codec_probe(f, path, "", &e);
}

/* Probes a codec that writes these bytes into the pipe itself and then hangs. */
static int probe_forged(struct codec_facts *f, const struct report *r)
{
    const char *folder = unit_folder();
    char path[512];
    int rc;

    snprintf(path, sizeof path, "%s/report", folder);
    assert_ok(file_write(path, r, sizeof *r, 0600, &e));
    setenv("FORGED_REPORT", path, 1);
    rc = probe(f, "forged");
    unsetenv("FORGED_REPORT");
    unit_remove(folder);
    return rc;
}

TEST(the_description_of_a_codec_reaches_the_submitter)
{
    struct codec_facts f;

    assert_ok(probe(&f, "mumble"));
    assert_string_equal(f.name, "mumble");
    assert_string_equal(f.source, "a test");
    assert_true(f.has_reply && f.has_adopt && f.sends_grads);
    assert_false(f.has_events || f.sends_params || f.per_block);
}

TEST(a_codec_that_hangs_is_killed_once_its_description_is_complete)
{
    struct report r = {.facts = {.name = "forged", .has_events = true}};
    struct codec_facts f;

    assert_ok(probe_forged(&f, &r));
    assert_string_equal(f.name, "forged");
}

TEST(endless_texts_are_cut_off)
{
    struct report r = {.facts = {.name = "forged", .has_events = true}};
    struct codec_facts f;

    memset(r.facts.source, 'x', sizeof r.facts.source);
    memset(r.facts.list, 'x', sizeof r.facts.list);
    assert_ok(probe_forged(&f, &r));
    assert_int_equal(strlen(f.source), sizeof f.source - 1);
    assert_int_equal(strlen(f.list), sizeof f.list - 1);
    memset(r.e.text, 'x', sizeof r.e.text);
    r.e.code = ERR_CONFIG;
    assert_int_equal(probe_forged(&f, &r), ERR_CONFIG);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

TEST(values_unknown_to_job_submit_are_refused)
{
    const struct report good = {.facts = {.name = "forged", .has_events = true}};
    struct report r = good;
    struct codec_facts f;

    r.facts.compression = (enum codec_compression)(CODEC_COMPRESSION_MAX + 1);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    assert_error_has("its own code has written to");
    r = good;
    r.facts.limits = CODEC_LIMITS_MAX + 1;
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    memset(&r.facts.sends_grads, 17, 1);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    memset(r.facts.name, '/', sizeof r.facts.name);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    r.e.code = 1; /* neither a failure nor none */
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    assert_error_has("its own code has written to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_description_of_a_codec_reaches_the_submitter),
        cmocka_unit_test(a_codec_that_hangs_is_killed_once_its_description_is_complete),
        cmocka_unit_test(endless_texts_are_cut_off),
        cmocka_unit_test(values_unknown_to_job_submit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
