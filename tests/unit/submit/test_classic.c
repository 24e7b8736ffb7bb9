#include "submit/compat/classic/classic.h"

#include <glob.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

#define TRAIN_REST ",0.05,1,0,0,0,0,0,0,0,0,0\n"
#define TRAIN_HEAD                                                                                           \
    "time_s,node,role,epoch,batch,batches,step,samples,loss,accuracy,lr,grad_norm,compute_s,encode_s,"       \
    "send_s,wait_s,decode_s,raw_bytes,sent_bytes,recv_bytes,apply_s\n"

static struct err e;
static struct options o;
static char before[PATH_MAX];

static void put(const char *name, const char *text)
{
    assert_ok(file_write(name, text, strlen(text), 0600, &e));
}

/* Node 0 ran in two attempts, so its rows are in two groups; the last row of each file is cut off. */
static void results(void)
{
    assert_ok(file_mkdirs("out/records", 0700, &e));
    assert_ok(file_mkdirs("out/model", 0700, &e));
    assert_ok(file_mkdirs("out/logs", 0700, &e));
    put("out/records/train.csv",
        TRAIN_HEAD "0.5,0,worker,1,1,2,1,64,2.823512,0.359375" TRAIN_REST
                   "0.75,0,worker,1,2,2,2,128,1.5,0.5" TRAIN_REST "0.5,1,worker,1,1,2,1,64,2,0.25" TRAIN_REST
                   "1,0,worker,2,1,2,3,192,1.25," TRAIN_REST "1,0,worker,2,2,2,4,256,1.");
    put("out/records/eval.csv",
        "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total\n"
        "0.75,1,1,2,128,0.75,0.875,10,20\n0.75,0,1,2,128,0.75,0.875,10,20\n1,0,2,3,192,0.5,,10,20\n1,0,2");
    put("out/model/final.safetensors", "weights");
    put("out/logs/submit.log", "INFO User Submit@10:00:00 : a line\n");
}

static json_t *run_json_of_a_job(void)
{
    json_t *run = json_pack(
        "{s:{s:s, s:i, s:i, s:i, s:s}, s:{s:{}, s:{}, s:n},"
        " s:[{s:s, s:f, s:i, s:i, s:s}, {s:s, s:f, s:i, s:i, s:s}], s:[{s:s, s:s}]}",
        "settings", "gradient_descent", "sgd", "epochs", 2, "batch_size", 64, "node_count", 2,
        "codec_options", "", "facts", "model", "codec", "data", "nodes", "started_at",
        "2026-11-25T12:00:01.500Z", "elapsed_s", 1.25, "sent_bytes", 100, "recv_bytes", 200, "model_sha256",
        "same", "started_at", "2026-11-25T12:00:02.000Z", "elapsed_s", 1.0, "sent_bytes", 1, "recv_bytes", 2,
        "model_sha256", "other", "files", "name", "model/final.safetensors", "sha256", "same");

    assert_non_null(run);
    return run;
}

static json_t *begin(struct submission *s, const char *style)
{
    const char *folder = unit_folder();

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    setenv("TZ", "UTC", 1);
    results();
    memset(&o, 0, sizeof o);
    settings_default(&o.settings);
    assert_ok(submission_init(s, &o, &e));
    s->settings.node_count = 2;
    s->settings.redundancy = 1;
    s->n_dense = 6;
    s->submitted_at = 1795608000; /* 2026-11-25T12:00:00Z */
    s->is_complete = true;
    strcpy(s->settings.name, "first");
    strcpy(s->settings.codec, "tutorial");
    strcpy(s->folder, "out");
    strcpy(s->csv_style, style);
    json_object_set_new(s->facts, "options", json_pack("{s:s}", "codec", "tutorial_codec.myComCtrl:x=1"));
    return run_json_of_a_job();
}

static void end(struct submission *s, json_t *run)
{
    char folder[PATH_MAX];

    json_decref(run);
    submission_clear(s);
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir(before), 0);
    unit_remove(folder);
}

static void assert_file(const char *name, const char *text)
{
    char *bytes;
    size_t len;

    assert_ok(file_read(&bytes, &len, name, 1 << 20, &e));
    assert_string_equal(bytes, text);
    free(bytes);
}

static size_t count(const char *pattern)
{
    glob_t g;
    size_t n = glob(pattern, 0, NULL, &g) == 0 ? g.gl_pathc : 0;

    globfree(&g);
    return n;
}

TEST(the_files_of_parallel_sgd_have_its_names_and_columns)
{
    struct submission s;
    json_t *run = begin(&s, "classic");

    put("E-N(2)-R(1)-ID(0)-CODEC(mmmmmm).csv", "of an earlier job, and replaced");
    assert_ok(classic_prepare(&s, &e));
    assert_ok(classic_write(&s, run, &e));
    assert_file("T-N(2)-R(1)-ID(0)-CODEC(mmmmmm).csv", "Time,Epoch,Batch,Total Batch,loss,accuracy\n"
                                                       "0.5,1,1,1,2.823512,0.359375\n0.75,1,2,2,1.5,0.5\n"
                                                       "1,2,1,3,1.25,\n");
    assert_file("T-N(2)-R(1)-ID(1)-CODEC(mmmmmm).csv",
                "Time,Epoch,Batch,Total Batch,loss,accuracy\n0.5,1,1,1,2,0.25\n");
    assert_file("E-N(2)-R(1)-ID(0)-CODEC(mmmmmm).csv", "loss,accuracy\n0.75,0.875\n0.5,\n");
    assert_file("tmp_log/User Submit_12-00-00.log", "INFO User Submit@10:00:00 : a line\n");
    assert_int_equal(count("tmp_log/*"), 3);
    assert_int_equal(count("*.csv"), 4);
    end(&s, run);
}

TEST(a_list_of_codecs_gives_each_layer_its_letter)
{
    struct submission s;
    json_t *run = begin(&s, "classic");

    json_object_set_new(
        s.facts, "codecs",
        json_pack("{s:s, s:s, s:s}", "layer0", "sgq", "layer2", "a.tern", "layer4", "/tmp/plain.c"));
    assert_ok(classic_write(&s, run, &e));
    assert_int_equal(count("T-N(2)-R(1)-ID(0)-CODEC(stp).csv"), 1);
    end(&s, run);
}

TEST(the_training_log_has_the_check_list_the_steps_and_the_evaluations_in_order)
{
    struct submission s;
    json_t *run = begin(&s, "classic");

    assert_ok(classic_write(&s, run, &e));
    assert_file(
        "tmp_log/Training log @ node-0_12-00-01.log",
        "INFO Training log @ node-0@12:00:01 : Ready:False \n\t Check List:\n"
        "\t\t--> Optimizer:OK\n\t\t--> Model:OK\n\t\t--> Dataset:ABSENT\n\t\t--> Others:OK\n"
        "\t\t--> Transfer:OK\n\t\t--> Batch Iterator:OK\n\t\t--> Settings:OK\n"
        "\t\t--> Extra Parameters:OK\n"
        "INFO Training log @ node-0-Cyc1@12:00:02 : Epochs:1, Batches:1, in:2, Total:1, Loss:2.8235, "
        "accuracy:0.3594\n"
        "INFO Training log @ node-0-Cyc1@12:00:02 : Epochs:1, Batches:2, in:2, Total:2, Loss:1.5000, "
        "accuracy:0.5000\n"
        "INFO Training log @ node-0-Cyc1@12:00:02 : Evaluate result: {'Loss': 0.75, 'accuracy': 0.875}\n"
        "INFO Training log @ node-0-Cyc2@12:00:02 : Epochs:2, Batches:1, in:2, Total:3, Loss:1.2500\n"
        "INFO Training log @ node-0-Cyc2@12:00:02 : Evaluate result: {'Loss': 0.5}\n"
        "INFO Training log @ node-0@12:00:02 : Execution complete, time: 1.250.\n"
        "INFO Training log @ node-0@12:00:02 : Execution complete, Total bytes sent: 100.\n"
        "INFO Training log @ node-0@12:00:02 : Execution complete, Total bytes read: 200.\n");
    end(&s, run);
}

TEST(the_later_version_has_other_names_and_the_model_of_the_worker_that_ended_with_it)
{
    struct submission s;
    json_t *run = begin(&s, "classic-0.9");

    assert_ok(classic_write(&s, run, &e));
    assert_file("Node-0-Retrieve/TR-first-N(0).csv", "Time,Epochs,Batches,in,Total,Loss,accuracy\n"
                                                     "0.5,1,1,2,1,2.823512,0.359375\n0.75,1,2,2,2,1.5,0.5\n"
                                                     "1,2,1,2,3,1.25,\n");
    assert_file("Node-1-Retrieve/EV-first-N(1).csv", "Loss,accuracy\n0.75,0.875\n");
    assert_file("Node-0-Retrieve/MODEL-first-N(0).model", "weights");
    assert_int_equal(access("Node-1-Retrieve/MODEL-first-N(1).model", F_OK), -1);
    assert_int_equal(count("Node-1-Retrieve/Fit-1 2026-11-25 1200.log"), 1);
    assert_int_equal(count("tmp_log/P-SGD Submit 2026-11-25 1200.log"), 1);
    end(&s, run);
}

TEST(no_file_is_written_without_an_option_and_a_folder_that_refuses_is_named)
{
    struct submission s;
    json_t *run = begin(&s, "tidy");

    assert_ok(classic_prepare(&s, &e));
    classic_try(&s, run);
    assert_true(s.is_complete);
    assert_int_equal(count("*"), 1);
    strcpy(s.csv_style, "classic");
    put("tmp_log", "a file where a folder should be");
    assert_int_equal(classic_write(&s, run, &e), ERR_IO);
    assert_error_has("--csv-style classic");
    assert_error_has("tmp_log");
    assert_int_equal(count("*.csv*"), 0); /* not a part of them either */
    classic_try(&s, run);
    assert_false(s.is_complete);
    end(&s, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_files_of_parallel_sgd_have_its_names_and_columns),
        cmocka_unit_test(a_list_of_codecs_gives_each_layer_its_letter),
        cmocka_unit_test(the_training_log_has_the_check_list_the_steps_and_the_evaluations_in_order),
        cmocka_unit_test(the_later_version_has_other_names_and_the_model_of_the_worker_that_ended_with_it),
        cmocka_unit_test(no_file_is_written_without_an_option_and_a_folder_that_refuses_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
