/* The programs are scripts, and this program itself, which speaks the records of trainer_wire.h by hand. */
#include "submit/trainer/trainer_describe.h"

#include <math.h>
#include <sys/mman.h>

#include "shared/base/fd_pass.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_wire.h"
#include "submit/terminal/console.h"
#include "tests/unit/unit.h"

static struct err e;

/* ---- the program ---- */

static uint64_t n_sent;

static void say(struct trainer_record r)
{
    r.version = TRAINER_VERSION;
    r.sequence = n_sent++;
    if (fd_pass_send(TRAINER_FD, &r, sizeof r, -1, 0) != (ssize_t)sizeof r)
        _exit(90);
}

static struct trainer_record hear(enum trainer_kind kind, int *fd)
{
    struct trainer_record r;

    if (fd_pass_receive(TRAINER_FD, &r, sizeof r, fd, 0) != (ssize_t)sizeof r)
        _exit(91);
    if (r.kind != (uint32_t)kind) {
        printf("%s\n", r.u.of.text);
        exit(92);
    }
    return r;
}

static void announce(const char *name, int n_dims, uint64_t rows, uint64_t columns, unsigned flags)
{
    struct trainer_record r = {.kind = TRAINER_TENSOR, .n_dims = n_dims, .flags = flags};

    r.u.of.shape[0] = rows;
    r.u.of.shape[1] = columns;
    snprintf(r.u.of.text, sizeof r.u.of.text, "%s", name);
    say(r);
}

static float *map_params(const struct trainer_record *r, int fd)
{
    void *map = mmap(NULL, r->u.accepted.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (map == MAP_FAILED || !(r->flags & TRAINER_DESCRIBES) || r->u.accepted.n_params != 9)
        _exit(93);
    return map;
}

/* W (2, 3), a statistic (2) and a number: 0, 1, 2, ... in their order in the vector. */
static int be_program(const char *how)
{
    bool is_twice = strcmp(how, "twice") == 0;
    struct trainer_record r;
    float *params;
    int fd;

    if (strcmp(how, "early") == 0)
        say((struct trainer_record){.kind = TRAINER_READY});
    say((struct trainer_record){.kind = TRAINER_OPEN, .n = strcmp(how, "frozen") == 0 ? 4 : 3});
    if (strcmp(how, "frozen") == 0)
        say((struct trainer_record){.kind = TRAINER_TENSOR,
                                    .flags = TRAINER_FROZEN,
                                    .n = UINT32_MAX,
                                    .u.of.text = "base.\"weight\""});
    announce("W", 2, 2, 3, 0);
    announce("mean", 1, 2, 0, TRAINER_STATISTIC);
    announce(is_twice ? "W" : "scale", 0, 0, 0, 0);
    r = hear(TRAINER_ACCEPTED, &fd);
    if (r.flags != (TRAINER_DESCRIBES | TRAINER_TAKES_GRADIENTS))
        return 1;
    params = map_params(&r, fd);
    for (int i = 0; i < 9; i++)
        params[i] = strcmp(how, "nan") == 0 && i == 7 ? NAN : (float)i;
    say((struct trainer_record){.kind = TRAINER_VALUES});
    if (strcmp(how, "gives-up") == 0) {
        r = (struct trainer_record){.kind = TRAINER_FAILED};
        snprintf(r.u.of.text, sizeof r.u.of.text, "there is no data");
        say(r);
        return 1;
    }
    if (strcmp(how, "shard") == 0) {
        say((struct trainer_record){.kind = TRAINER_SHARD, .n = 100});
        r = hear(TRAINER_SHARDED, &fd);
    }
    say((struct trainer_record){.kind = TRAINER_READY, .n = strcmp(how, "shard") == 0 ? r.n : 12});
    r = hear(TRAINER_STOP, &fd);
    printf("the loop has not run\n");
    return 5; /* such a program may fail after a loop without a step */
}

/* ---- the tests ---- */

static int describe(struct trainer_description *d, const char *folder, const char *file,
                    const char *arguments)
{
    struct trainer_main main = {.is_python = file_has_ending(file, ".py")};
    struct settings set;
    const struct describe_how how = {.folder = folder,
                                     .temp = folder,
                                     .main = &main,
                                     .python = "/none/python",
                                     .set = &set,
                                     .flags = TRAINER_TAKES_GRADIENTS};

    settings_default(&set);
    set.node_count = 4;
    snprintf(main.file, sizeof main.file, "%s", file);
    snprintf(set.arguments, sizeof set.arguments, "%s", arguments);
    return trainer_describe(d, &how, &e);
}

/* This program as a trainer. */
static int describe_own(struct trainer_description *d, const char *arguments)
{
    const char *dir = unit_folder();
    char exe[4096], path[128];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    int rc;

    assert_true(n > 0);
    exe[n] = '\0';
    snprintf(path, sizeof path, "%s/program", dir);
    assert_int_equal(symlink(exe, path), 0);
    rc = describe(d, dir, "program", arguments);
    unit_remove(dir);
    return rc;
}

static int describe_script(const char *text)
{
    const char *dir = unit_folder();
    struct trainer_description d;
    char path[128];
    int rc;

    snprintf(path, sizeof path, "%s/program", dir);
    assert_ok(file_write(path, text, strlen(text), 0755, &e));
    rc = describe(&d, dir, "program", "");
    unit_remove(dir);
    return rc;
}

TEST(a_program_is_asked_for_tensors_values_and_batches)
{
    struct trainer_description d;

    assert_ok(describe_own(&d, "plain\n"));
    assert_int_equal(d.n_batches, 12);
    assert_int_equal(d.spec.n_tensors, 3);
    assert_int_equal(d.spec.n_params, 9);
    assert_int_equal(d.spec.n_trained, 7);
    assert_string_equal(d.spec.name, "program");
    assert_string_equal(d.spec.tensors[0].name, "W");
    assert_int_equal(d.spec.tensors[1].offset, 7); /* a statistic, behind all others */
    assert_int_equal(d.spec.tensors[2].n_dims, 0);
    for (int i = 0; i < 9; i++)
        assert_true(d.values[i] == (float)i);
    trainer_description_clear(&d);
}

TEST(frozen_tensors_are_in_the_models_document)
{
    struct trainer_description d;
    struct model_spec again;

    assert_ok(describe_own(&d, "frozen\n"));
    assert_int_equal(d.spec.n_tensors, 3);
    assert_int_equal(d.spec.n_params, 9);
    assert_ok(model_spec_parse(&again, d.model, &e));
    assert_int_equal(again.n_frozen, 1);
    assert_string_equal(again.frozen[0].name, "base.\"weight\"");
    assert_true(again.frozen[0].checksum == UINT32_MAX);
    model_spec_clear(&again);
    trainer_description_clear(&d);
}

TEST(a_program_gets_its_rows_of_worker_0)
{
    struct trainer_description d;

    assert_ok(describe_own(&d, "shard\n"));
    assert_int_equal(d.n_batches, 25);
    trainer_description_clear(&d);
}

TEST(what_a_program_announces_is_checked)
{
    struct trainer_description d;

    assert_int_equal(describe_own(&d, "twice\n"), ERR_TRAINER);
    assert_error_has("tensor 'W' comes twice");
    assert_int_equal(describe_own(&d, "nan\n"), ERR_TRAINER);
    assert_error_has("'mean' has a value at its start that is not finite");
    assert_int_equal(describe_own(&d, "early\n"), ERR_TRAINER);
    assert_error_has("READY where it does not belong");
    assert_int_equal(describe_own(&d, "gives-up\n"), ERR_TRAINER);
    assert_string_equal(e.text, "program: there is no data");
}

TEST(the_end_of_a_program_is_explained)
{
    assert_int_equal(describe_script("#!/bin/sh\necho first\necho no such luck >&2\nexit 3\n"), ERR_TRAINER);
    assert_string_equal(e.text, "program ended with exit status 3 on this machine: no such luck");
    assert_int_equal(describe_script("#!/bin/sh\ntrue\n"), ERR_TRAINER);
    assert_string_equal(e.text, "program ended without psgd_open(): nothing was exchanged");
    assert_int_equal(describe_script("#!/bin/sh\nkill -9 $$\n"), ERR_TRAINER);
    assert_string_equal(e.text, "program was killed by signal 9 on this machine");
}

TEST(a_missing_interpreter_is_named)
{
    const char *dir = unit_folder();
    struct trainer_description d;

    assert_int_equal(describe(&d, dir, "train.py", ""), ERR_TRAINER);
    assert_error_has("/none/python");
    assert_true(strstr(e.hint, "--trainer-python"));
    unit_remove(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_asked_for_tensors_values_and_batches),
        cmocka_unit_test(frozen_tensors_are_in_the_models_document),
        cmocka_unit_test(a_program_gets_its_rows_of_worker_0),
        cmocka_unit_test(what_a_program_announces_is_checked),
        cmocka_unit_test(the_end_of_a_program_is_explained),
        cmocka_unit_test(a_missing_interpreter_is_named),
    };

    if (getenv(TRAINER_ENV))
        return be_program(argc > 1 ? argv[1] : "");
    console_init(-1, true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
