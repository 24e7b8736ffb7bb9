/* Files sent to and served by an agent: blobs, packages of codecs, artifacts, logs. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codecs/codec_events.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/both_kernels.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(blobs_are_verified_and_not_uploaded_twice)
{
    struct fixture f = {0};
    char headers[256];
    const char *path = "/v1/blobs/sha256/2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fixture_open(&f);
    snprintf(headers, sizeof headers,
             "Authorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 3\r\n",
             f.token);
    assert_int_equal(ask(&f, &r, "HEAD", path, NULL), 404);
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "bar", 3), 422);
    assert_true(reply_has(&r, "code", "DIGEST_MISMATCH"));
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "foo", 3), 201);
    assert_int_equal(ask_bytes(&f, &r, "PUT", path, headers, "foo", 3), 200);
    assert_int_equal(ask(&f, &r, "HEAD", path, NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 3\r\n"));
    fixture_close(&f);
}

/* Binds the package of the job's codec to these blobs. */
static int bind_codec(struct fixture *f, const char *object, const char *source, const char *manifest)
{
    char body[512];

    snprintf(body, sizeof body, "{\"files\":{\"codec.so\":\"%s\",\"codec.c\":\"%s\",\"codec.json\":\"%s\"}}",
             object, source, manifest);
    return ask(f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body);
}

static bool has_package_file(const struct fixture *f, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/packages/%s", f->folder, name);
    return access(path, F_OK) == 0;
}

TEST(a_disallowed_codec_is_refused_at_its_reservation_or_its_package)
{
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], body[512], list[256];
    struct fixture f = {.opt.codecs = CODECS_ALLOWLIST};
    struct err e;

    fixture_open(&f);
    object_begin(object);
    blob_send(hex, &f, object, sizeof object);
    snprintf(body, sizeof body,
             "{\"id\":\"j-zzzzzz\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"codec\":\"mean\",\"node_"
             "count\":1,"
             "\"codec_sha256\":\"%s\"}",
             hex);
    assert_int_equal(ask(&f, &r, "POST", "/v1/jobs", body), 403);
    assert_true(reply_has(&r, "code", "CODEC_REFUSED"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-zzzzzz", NULL), 404);

    job_reserve(&f, &r, "j-abcdef", false);
    snprintf(body, sizeof body, "{\"files\":{\"codec.so\":\"%s\"}}", hex);
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body), 403);
    assert_true(reply_has(&r, "code", "CODEC_REFUSED"));
    assert_non_null(strstr(r.body, hex));
    assert_false(has_package_file(&f, "codec.so"));

    snprintf(list, sizeof list, "%s/agent/codecs.allow", f.folder);
    assert_ok(file_write(list, hex, strlen(hex), 0600, &e));
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", body), 204);
    assert_true(has_package_file(&f, "codec.so"));
    fixture_close(&f);
}

static int reserve_for_trainer(struct fixture *f, const char *id, int node, const char *hex)
{
    char body[512];

    snprintf(body, sizeof body,
             "{\"id\":\"%s\",\"attempt\":1,\"node\":%d,\"role\":\"%s\",\"node_count\":1,\"server_count\":1,"
             "\"trainer\":\"train.py\",\"trainer_sha256\":\"%s\"}",
             id, node, node < 0 ? "server" : "worker", hex);
    return ask(f, &r, "POST", "/v1/jobs", body);
}

static int bind_trainer(struct fixture *f, const char *id, const char *hex)
{
    char path[96], body[160];

    snprintf(path, sizeof path, "/v1/jobs/%s/packages/trainer", id);
    snprintf(body, sizeof body, "{\"files\":{\"trainer.safetensors\":\"%s\"}}", hex);
    return ask(f, &r, "PUT", path, body);
}

TEST(an_agent_without_training_programs_refuses_a_job_that_needs_one)
{
    struct fixture f = {.opt = {.slots = 2, .trainers = TRAINERS_NONE}};
    char hex[SHA256_HEX];

    fixture_open(&f);
    blob_send(hex, &f, "program", 7);
    assert_int_equal(reserve_for_trainer(&f, "j-zzzzzz", 0, hex), 403);
    assert_true(reply_has(&r, "code", "TRAINER_REFUSED"));
    assert_non_null(strstr(r.body, "this agent runs no training programs, and so not train.py"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-zzzzzz", NULL), 404);
    assert_int_equal(reserve_for_trainer(&f, "j-server", -2, hex), 201); /* which starts no program */
    assert_true(reply_has(&r, "trainer", "train.py"));
    assert_non_null(strstr(r.body, "\"requirements\":[\"settings\",\"codec\",\"model\"]"));

    job_reserve(&f, &r, "j-abcdef", false); /* says nothing of a program, and sends one */
    assert_int_equal(bind_trainer(&f, "j-abcdef", hex), 403);
    assert_true(reply_has(&r, "code", "TRAINER_REFUSED"));
    assert_false(has_package_file(&f, "trainer.safetensors"));
    fixture_close(&f);
}

TEST(a_training_program_is_allowed_by_a_line_in_the_list)
{
    struct fixture f = {.opt.trainers = TRAINERS_ALLOWLIST};
    char hex[SHA256_HEX], list[256];
    struct err e;

    fixture_open(&f);
    blob_send(hex, &f, "program", 7);
    assert_int_equal(reserve_for_trainer(&f, "j-zzzzzz", 0, hex), 403);
    assert_true(reply_has(&r, "code", "TRAINER_REFUSED"));
    assert_non_null(strstr(r.body, "/trainers.allow on that agent's machine"));
    assert_int_equal(reserve_for_trainer(&f, "j-abcdef", 0, ""), 201); /* its digest is not known yet */
    assert_non_null(strstr(r.body, "\"requirements\":[\"settings\",\"codec\",\"model\",\"trainer\"]"));
    assert_int_equal(bind_trainer(&f, "j-abcdef", hex), 403);
    assert_false(has_package_file(&f, "trainer.safetensors"));

    snprintf(list, sizeof list, "%s/agent/trainers.allow", f.folder);
    assert_ok(file_write(list, hex, strlen(hex), 0600, &e));
    assert_int_equal(bind_trainer(&f, "j-abcdef", hex), 204);
    assert_true(has_package_file(&f, "trainer.safetensors"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "trainer_sha256", hex));
    fixture_close(&f);
}

TEST(an_object_for_another_machine_is_omitted_and_its_source_and_manifest_are_artifacts)
{
    static const char source_text[] = "int x;\n";
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], source[SHA256_HEX], manifest[SHA256_HEX], text[512], path[256], *p;
    struct fixture f = {0};
    struct err e;
    size_t len;
    int n;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    object_begin(object);
    object[18] ^= 0x7f; /* e_machine: another one */
    blob_send(hex, &f, object, sizeof object);
    blob_send(source, &f, source_text, strlen(source_text));
    n = snprintf(text, sizeof text,
                 "{\"name\":\"mean\",\"abi\":%d,\"architecture\":\"other\",\"sha256\":\"%s\",\"source_"
                 "sha256\":\"%s\"}",
                 CODEC_ABI, hex, source);
    blob_send(manifest, &f, text, (size_t)n);

    assert_int_equal(bind_codec(&f, hex, source, source), 422);      /* not a manifest */
    assert_int_equal(bind_codec(&f, source, source, manifest), 403); /* not an object */
    snprintf(path, sizeof path, "{\"files\":{\"codec.so\":\"%s\"}}", hex);
    assert_int_equal(ask(&f, &r, "PUT", "/v1/jobs/j-abcdef/packages/codec", path), 403);
    assert_non_null(strstr(r.body, "its source was not sent"));
    assert_false(has_package_file(&f, "codec.json"));

    f.agent.jobs.codecs.cc = "sh"; /* only its existence counts: job_runner compiles */
    assert_int_equal(bind_codec(&f, hex, source, manifest), 204);
    assert_false(has_package_file(&f, "codec.so"));
    assert_true(has_package_file(&f, "codec.c") && has_package_file(&f, "codec.json"));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef", NULL), 200);
    assert_true(reply_has(&r, "codec_sha256", hex));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts/codec.c", NULL), 200);
    assert_string_equal(r.body, source_text);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/packages/codec.json", f.folder);
    assert_ok(file_read(&p, &len, path, sizeof text, &e));
    assert_string_equal(p, text);
    free(p);
    fixture_close(&f);
}

TEST(a_manifest_that_names_other_files_is_refused)
{
    uint8_t object[OBJECT_BYTES];
    char hex[SHA256_HEX], source[SHA256_HEX], manifest[SHA256_HEX], text[512];
    struct fixture f = {0};
    int n;

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    object_begin(object);
    blob_send(hex, &f, object, sizeof object);
    blob_send(source, &f, "int x;", 6);
    n = snprintf(text, sizeof text,
                 "{\"name\":\"mean\",\"abi\":%d,\"architecture\":\"other\",\"sha256\":\"%s\"}", CODEC_ABI,
                 hex);
    blob_send(manifest, &f, text, (size_t)n);
    assert_int_equal(bind_codec(&f, hex, source, manifest), 422);
    assert_non_null(strstr(r.body, "/files/codec.json: describes other files"));
    fixture_close(&f);
}

/* Returns the SHA-256 that the agent reports for this file of j-abcdef. */
static void digest_of(struct fixture *f, const char *name, char hex[SHA256_HEX])
{
    json_t *o, *v;
    size_t i;

    hex[0] = '\0';
    assert_int_equal(ask(f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL), 200);
    o = json_loads(r.body, 0, NULL);
    json_array_foreach(json_object_get(o, "artifacts"), i, v)
    {
        if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
            snprintf(hex, SHA256_HEX, "%s", json_string_value(json_object_get(v, "sha256")));
    }
    json_decref(o);
    assert_int_equal(strlen(hex), SHA256_HEX - 1);
}

TEST(a_file_is_hashed_once_and_again_after_a_change)
{
    struct fixture f = {0};
    char path[256], first[SHA256_HEX], then[SHA256_HEX];
    struct timespec times[2];
    struct stat st;
    int fd;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    digest_of(&f, "final.safetensors", first);
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/final.safetensors", f.folder);
    assert_int_equal(stat(path, &st), 0);
    fd = open(path, O_WRONLY);
    assert_int_equal(write(fd, "W", 1), 1);
    times[0] = st.st_atim;
    times[1] = st.st_mtim; /* same size and time: the agent does not read it again */
    assert_int_equal(futimens(fd, times), 0);
    digest_of(&f, "final.safetensors", then);
    assert_string_equal(then, first);
    times[1].tv_sec++;
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
    digest_of(&f, "final.safetensors", then);
    assert_string_not_equal(then, first);
    fixture_close(&f);
}

TEST(a_log_is_followed_byte_by_byte)
{
    static const char text[] = "first line\nsecond line\n";
    struct fixture f = {0};
    static char much[5 << 20];
    char path[128];
    struct err e;

    fixture_open(&f);
    job_run(&f, "j-abcdef", "ok");
    job_until(&f, "j-abcdef", "succeeded");
    snprintf(path, sizeof path, "%s/agent/jobs/j-abcdef/run/node.log", f.folder);
    assert_ok(file_write(path, text, sizeof text - 1, 0600, &e));
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_string_equal(r.body, text);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=11", NULL), 200);
    assert_string_equal(r.body, text + 11);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=23", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=999999999999", NULL), 200);
    assert_string_equal(r.body, "");
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=-1", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/logs?after=1111111111111111", NULL), 400);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/events?after=x", NULL), 400);
    memset(much, 'x', sizeof much);
    assert_ok(file_write(path, much, sizeof much, 0600, &e));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/logs?after=1", NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 4194304\r\n"));
    assert_int_equal(ask(&f, &r, "HEAD", "/v1/jobs/j-abcdef/logs", NULL), 200);
    assert_non_null(strstr(r.text, "Content-Length: 5242880\r\n"));
    fixture_close(&f);
}

TEST(files_planted_by_a_runner_are_not_served)
{
    static const char *const names[] = {"eval.csv", "comm.csv", "best.safetensors"};
    struct fixture f = {0};
    char path[128];

    fixture_open(&f);
    job_run(&f, "j-abcdef", "links");
    job_until(&f, "j-abcdef", "failed");
    for (size_t i = 0; i < N_OF(names); i++) {
        snprintf(path, sizeof path, "/v1/jobs/j-abcdef/artifacts/%s", names[i]);
        assert_int_equal(ask(&f, &r, "GET", path, NULL), 403);
        assert_null(strstr(r.text, "root:"));
    }
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-abcdef/records.csv?kind=eval", NULL), 403);
    ask(&f, &r, "GET", "/v1/jobs/j-abcdef/artifacts", NULL);
    assert_null(strstr(r.body, "eval.csv"));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_are_verified_and_not_uploaded_twice),
        cmocka_unit_test(a_disallowed_codec_is_refused_at_its_reservation_or_its_package),
        cmocka_unit_test(an_agent_without_training_programs_refuses_a_job_that_needs_one),
        cmocka_unit_test(a_training_program_is_allowed_by_a_line_in_the_list),
        cmocka_unit_test(an_object_for_another_machine_is_omitted_and_its_source_and_manifest_are_artifacts),
        cmocka_unit_test(a_manifest_that_names_other_files_is_refused),
        cmocka_unit_test(a_file_is_hashed_once_and_again_after_a_change),
        cmocka_unit_test(a_log_is_followed_byte_by_byte),
        cmocka_unit_test(files_planted_by_a_runner_are_not_served),
    };

    return run_on_both_kernels(tests);
}
