#include "agent/access/codec_policy.h"

#include <elf.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

#define LISTED   "1111111111111111111111111111111111111111111111111111111111111111"
#define UNLISTED "2222222222222222222222222222222222222222222222222222222222222222"

static struct err e;

/* An agent on an x86-64 machine with a compiler, one built-in codec and an allowlist. */
struct scene {
    const char *folder;
    struct codec_rules rules;
    char builtin[SHA256_HEX], source[SHA256_HEX]; /* of the built-in codec */
    char ours[128], theirs[128];                  /* objects: for this machine, and for AArch64 */
};

static void put(char path[128], const struct scene *s, const char *name, const void *bytes, size_t len)
{
    snprintf(path, 128, "%s/%s", s->folder, name);
    assert_ok(file_write(path, bytes, len, 0600, &e));
}

static void write_list(struct scene *s, const char *text)
{
    char path[128];

    put(path, s, "codecs.allow", text, strlen(text));
}

static void scene_open(struct scene *s, enum codec_policy policy)
{
    uint8_t head[20] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [16] = ET_DYN, [18] = EM_X86_64};
    uint8_t sum[SHA256_BYTES];
    char path[128];

    *s = (struct scene){
        .folder = unit_folder(),
        .rules = {.policy = policy,
                  .here = {.cell_class = ELFCLASS64, .byte_order = ELFDATA2LSB, .machine = EM_X86_64},
                  .cc = "sh" /* only its existence counts */}};
    snprintf(s->rules.builtin_dir, sizeof s->rules.builtin_dir, "%s/codecs", s->folder);
    snprintf(s->rules.list, sizeof s->rules.list, "%s/codecs.allow", s->folder);
    assert_ok(file_mkdirs(s->rules.builtin_dir, 0700, &e));
    put(path, s, "codecs/fedavg.so", "built in", 8);
    sha256(sum, "built in", 8);
    hex_encode(s->builtin, sum, sizeof sum);
    put(path, s, "codecs/fedavg.c", "its source", 10);
    sha256(sum, "its source", 10);
    hex_encode(s->source, sum, sizeof sum);
    write_list(s, "# of ann's\n\n" LISTED "  mean.c\r\n");
    put(s->ours, s, "ours.so", head, sizeof head);
    head[18] = EM_AARCH64;
    put(s->theirs, s, "theirs.so", head, sizeof head);
}

/* Returns an enum codec_use, or the error. */
static int admit(const struct scene *s, const char *object_hex, const char *source_hex, const char *object)
{
    const struct codec_offer offer = {"mean", object_hex, source_hex, object};
    enum codec_use use = (enum codec_use) - 1; /* neither */
    int rc = codec_admit(&use, &s->rules, &offer, &e);

    return rc < 0 ? rc : (int)use;
}

TEST(each_policy_allows_what_it_states_and_nothing_else)
{
    static const struct {
        enum codec_policy policy;
        bool builtin, listed, unlisted;
    } cases[] = {{CODECS_BUILTIN, true, false, false},
                 {CODECS_ALLOWLIST, true, true, false},
                 {CODECS_ANY, true, true, true}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct scene s;

        scene_open(&s, cases[i].policy);
        assert_int_equal(admit(&s, s.builtin, "", s.ours) == CODEC_LOAD, cases[i].builtin);
        assert_int_equal(admit(&s, LISTED, "", s.ours) == CODEC_LOAD, cases[i].listed);
        assert_int_equal(admit(&s, UNLISTED, "", s.ours) == CODEC_LOAD, cases[i].unlisted);
        /* at a reservation, which has no object yet */
        assert_int_equal(admit(&s, UNLISTED, "", NULL) == CODEC_LOAD, cases[i].unlisted);
        unit_remove(s.folder);
    }
}

TEST(a_listed_source_is_compiled_and_its_object_is_not_loaded)
{
    struct scene s;

    scene_open(&s, CODECS_ALLOWLIST);
    assert_int_equal(admit(&s, UNLISTED, LISTED, s.ours), CODEC_COMPILE);
    assert_int_equal(admit(&s, LISTED, UNLISTED, s.ours), CODEC_LOAD);
    unit_remove(s.folder);
}

TEST(a_builtin_codec_of_another_build_or_machine_is_compiled_under_every_policy)
{
    for (int policy = CODECS_BUILTIN; policy <= CODECS_ANY; policy++) {
        struct scene s;

        scene_open(&s, (enum codec_policy)policy);
        assert_int_equal(admit(&s, UNLISTED, s.source, s.theirs), CODEC_COMPILE);
        assert_int_equal(admit(&s, UNLISTED, s.source, s.ours),
                         policy == CODECS_ANY ? CODEC_LOAD : CODEC_COMPILE);
        assert_int_equal(admit(&s, s.builtin, s.source, s.ours), CODEC_LOAD);
        unit_remove(s.folder);
    }
}

TEST(a_refusal_states_what_to_add_and_where)
{
    struct scene s;

    scene_open(&s, CODECS_ALLOWLIST);
    assert_int_equal(admit(&s, UNLISTED, "", s.ours), ERR_CODEC);
    assert_error_has("codec mean (SHA-256 " UNLISTED ") is neither built into this agent nor on its list");
    assert_non_null(strstr(e.hint, "a line with " UNLISTED " to "));
    assert_non_null(strstr(e.hint, s.rules.list));
    s.rules.list[0] = '\0'; /* a missing list equals an empty one */
    assert_int_equal(admit(&s, LISTED, UNLISTED, s.ours), ERR_CODEC);
    assert_error_has("(SHA-256 " LISTED ", source " UNLISTED ")");
    assert_non_null(strstr(e.hint, "a line with " UNLISTED));
    s.rules.policy = CODECS_BUILTIN;
    assert_int_equal(admit(&s, UNLISTED, "", s.ours), ERR_CODEC);
    assert_error_has("it runs no other (--codecs builtin)");
    unit_remove(s.folder);
}

TEST(an_object_for_another_machine_is_compiled_from_its_source_or_refused)
{
    struct scene s;

    scene_open(&s, CODECS_ANY);
    assert_int_equal(admit(&s, UNLISTED, UNLISTED, s.theirs), CODEC_COMPILE);
    assert_int_equal(admit(&s, UNLISTED, "", s.theirs), ERR_CODEC);
    assert_error_has(
        "codec mean is an object for AArch64, this machine is x86-64, and its source was not sent");
    s.rules.policy = CODECS_ALLOWLIST;
    assert_int_equal(admit(&s, LISTED, UNLISTED, s.theirs), ERR_CODEC);
    assert_error_has("its source (SHA-256 " UNLISTED ") is not on the agent's list");
    unit_remove(s.folder);
}

TEST(a_codec_that_must_be_compiled_is_refused_where_there_is_no_compiler)
{
    struct scene s;

    scene_open(&s, CODECS_ALLOWLIST);
    s.rules.cc = "no-such-compiler";
    assert_int_equal(admit(&s, UNLISTED, LISTED, NULL), ERR_CODEC); /* only its source is on the list */
    assert_error_has(
        "codec mean must be compiled for x86-64 on the agent's machine, which has no no-such-compiler");
    s.rules.policy = CODECS_ANY;
    assert_int_equal(admit(&s, UNLISTED, UNLISTED, s.theirs), ERR_CODEC);
    assert_error_has("must be compiled for x86-64");
    unit_remove(s.folder);
}

TEST(a_file_that_is_no_shared_object_is_refused_under_every_policy)
{
    struct scene s;
    char path[128];

    scene_open(&s, CODECS_ANY);
    put(path, &s, "text.so", "not an object at all", 20);
    assert_int_equal(admit(&s, UNLISTED, "", path), ERR_CODEC);
    assert_error_has("codec mean: ");
    assert_error_has("not an ELF file");
    put(path, &s, "main.o", "\177ELF\2\1\0\0\0\0\0\0\0\0\0\0\1\0\76\0", 20);
    assert_int_equal(admit(&s, UNLISTED, "", path), ERR_CODEC);
    assert_error_has("its object is not a shared object");
    unit_remove(s.folder);
}

TEST(an_untrustworthy_list_allows_nothing)
{
    struct scene s;

    scene_open(&s, CODECS_ALLOWLIST);
    write_list(&s, "# one\nmean.c " LISTED "\n" LISTED "\n");
    assert_int_equal(admit(&s, LISTED, "", s.ours), ERR_CODEC);
    assert_error_has("codecs.allow:2: \"mean.c\" is not a SHA-256");
    write_list(&s, LISTED);
    assert_ok(admit(&s, LISTED, "", s.ours));
    assert_int_equal(chmod(s.rules.list, 0620), 0);
    assert_int_equal(admit(&s, LISTED, "", s.ours), ERR_CODEC);
    assert_error_has("can be written by others (mode 620)");
    unit_remove(s.folder);
}

TEST(a_codec_needs_the_most_of_what_its_agent_and_its_submitter_require)
{
    const struct agent_isolation open = {.required = ISOLATION_FILES},
                                 strict = {.required = ISOLATION_PROCESS, .is_required = true},
                                 allows = {.required = ISOLATION_NONE, .is_required = true};

    assert_int_equal(isolation_for(&open, true, ISOLATION_NONE), ISOLATION_NONE);
    assert_int_equal(isolation_for(&open, false, ISOLATION_NONE), ISOLATION_FILES);
    assert_int_equal(isolation_for(&open, true, ISOLATION_USER), ISOLATION_USER);
    assert_int_equal(isolation_for(&strict, true, ISOLATION_NONE), ISOLATION_PROCESS);
    assert_int_equal(isolation_for(&allows, false, ISOLATION_NONE), ISOLATION_NONE);
    assert_int_equal(isolation_for(&allows, false, ISOLATION_PROCESS), ISOLATION_PROCESS);
}

TEST(a_refusal_states_the_missing_feature_and_the_user_who_can_enable_it)
{
    const struct agent_isolation is = {
        .level = ISOLATION_PROCESS, .required = ISOLATION_FILES, .lacks = "no Landlock"};

    assert_ok(isolation_admit(&is, "mine", true, ISOLATION_NONE, &e));
    assert_int_equal(isolation_admit(&is, "mine", false, ISOLATION_NONE, &e), ERR_REFUSED);
    assert_error_has("codec mine needs isolation files, and this machine has process: no Landlock");
    assert_non_null(strstr(e.hint, "--require-isolation process allows it"));
    assert_int_equal(isolation_admit(&is, "mine", true, ISOLATION_USER, &e), ERR_REFUSED);
    assert_non_null(strstr(e.hint, "a lower --require-isolation"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_allows_what_it_states_and_nothing_else),
        cmocka_unit_test(a_listed_source_is_compiled_and_its_object_is_not_loaded),
        cmocka_unit_test(a_builtin_codec_of_another_build_or_machine_is_compiled_under_every_policy),
        cmocka_unit_test(a_refusal_states_what_to_add_and_where),
        cmocka_unit_test(an_object_for_another_machine_is_compiled_from_its_source_or_refused),
        cmocka_unit_test(a_codec_that_must_be_compiled_is_refused_where_there_is_no_compiler),
        cmocka_unit_test(a_file_that_is_no_shared_object_is_refused_under_every_policy),
        cmocka_unit_test(an_untrustworthy_list_allows_nothing),
        cmocka_unit_test(a_codec_needs_the_most_of_what_its_agent_and_its_submitter_require),
        cmocka_unit_test(a_refusal_states_the_missing_feature_and_the_user_who_can_enable_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
