#include "shared/records/series.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>

#include "tests/unit/unit.h"

#define TRAIN "time_s,node,epoch,batch,batches,step,loss,accuracy,sent_bytes,recv_bytes\n"

static json_t *curves_of(const struct series_query *q, const char *const *files)
{
    struct series_request r;
    struct series *s = NULL;
    char *text = NULL;
    size_t len = 0;
    struct err e;
    json_t *doc;
    FILE *out;

    assert_ok(series_request_set(&r, q, &e));
    assert_ok(series_new(&s, &r, &e));
    for (; *files; files++) {
        char *copy = unit_copy(*files, strlen(*files));

        assert_ok(series_add(s, copy, strlen(*files), "records.csv", &e));
        free(copy);
    }
    assert_non_null(out = open_memstream(&text, &len));
    assert_ok(series_write(out, s, &e));
    assert_int_equal(fclose(out), 0);
    doc = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!doc)
        print_error("%s\n", text);
    assert_non_null(doc);
    free(text);
    series_free(s);
    return doc;
}

static json_t *curves(const struct series_query *q, const char *text)
{
    return curves_of(q, (const char *const[]){text, NULL});
}

static void assert_is(json_t *value, const char *expected)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

    assert_string_equal(text ? text : "absent", expected);
    free(text);
}

static json_t *node_of(json_t *doc, size_t i, const char *key)
{
    return json_object_get(json_array_get(json_object_get(doc, "nodes"), i), key);
}

static json_t *mean_of(json_t *doc, const char *key)
{
    return json_object_get(json_object_get(doc, "mean"), key);
}

static const char two_nodes[] = TRAIN "0.5,0,1,1,2,1,2,0.1,10,1\n"
                                      "1,0,1,2,2,2,1,0.3,10,1\n"
                                      "1.5,0,2,1,2,3,0.5,,10,1\n"
                                      "0.7,1,1,1,2,1,4,0.2,20,2\n"
                                      "1.2,1,1,2,2,2,3,0.5,20,2\n";

TEST(each_node_has_its_rows_and_the_mean_is_over_workers_at_equal_steps)
{
    json_t *doc = curves(&(struct series_query){0}, two_nodes);

    assert_is(json_object_get(doc, "file"), "\"train\"");
    assert_is(json_object_get(doc, "x"), "\"step\"");
    assert_is(json_object_get(doc, "names"), "[\"loss\",\"accuracy\"]");
    assert_is(json_object_get(doc, "rows"), "5");
    assert_is(node_of(doc, 0, "node"), "0");
    assert_is(node_of(doc, 0, "role"), "\"worker\"");
    assert_is(node_of(doc, 0, "rows"), "3");
    assert_is(node_of(doc, 0, "x"), "[1,2,3]");
    assert_is(node_of(doc, 0, "loss"), "[2,1,0.5]");
    assert_is(node_of(doc, 0, "accuracy"), "[0.1,0.3,null]");
    assert_null(node_of(doc, 0, "loss_min"));
    assert_is(node_of(doc, 1, "loss"), "[4,3]");
    assert_is(mean_of(doc, "x"), "[1,2,3]");
    assert_is(mean_of(doc, "loss"), "[3,2,0.5]");
    assert_is(mean_of(doc, "accuracy"), "[0.15,0.4,null]");
    json_decref(doc);
}

/* Node 0 computes 30 samples a step, node 1 ten; the times, of which no samples are, count alike. */
TEST(in_the_mean_a_loss_counts_with_the_samples_of_its_batch)
{
    json_t *doc = curves(&(struct series_query){.names = "loss,accuracy,compute_s"},
                         "time_s,node,epoch,batch,batches,step,samples,loss,accuracy,compute_s\n"
                         "0.5,0,1,1,2,1,30,2,0.5,1\n"
                         "0.5,1,1,1,2,1,10,6,0.1,3\n"
                         "1,0,1,2,2,2,60,1,,1\n"
                         "1,1,1,2,2,2,20,5,0.3,3\n");

    assert_is(node_of(doc, 0, "loss"), "[2,1]");
    assert_is(mean_of(doc, "loss"), "[3,2]");
    assert_is(mean_of(doc, "accuracy"), "[0.4,0.3]");
    assert_is(mean_of(doc, "compute_s"), "[2,2]");
    json_decref(doc);
}

TEST(x_is_the_step_the_part_of_an_epoch_the_time_or_the_bytes_so_far)
{
    json_t *doc = curves(&(struct series_query){.x = "epoch", .names = "loss"}, two_nodes);

    assert_is(node_of(doc, 0, "x"), "[0.5,1,1.5]");
    json_decref(doc);
    doc = curves(&(struct series_query){.x = "time"}, two_nodes);
    assert_is(node_of(doc, 1, "x"), "[0.7,1.2]");
    assert_is(mean_of(doc, "x"), "[0.6,1.1,1.5]");
    json_decref(doc);
    doc = curves(&(struct series_query){.x = "bytes"}, two_nodes);
    assert_is(node_of(doc, 0, "x"), "[11,22,33]");
    assert_is(mean_of(doc, "x"), "[16.5,33,33]");
    json_decref(doc);
}

TEST(a_simulation_has_simulated_time)
{
    json_t *doc = curves(&(struct series_query){.x = "time", .names = "loss"},
                         "time_s,node,step,loss,sim_time_s\n9,0,1,2,0.25\n9.5,0,2,1,0.5\n");

    assert_is(node_of(doc, 0, "x"), "[0.25,0.5]");
    json_decref(doc);
}

TEST(evaluations_have_their_total_bytes_and_epochs)
{
    static const char text[] = "time_s,node,epoch,step,loss,accuracy,sent_bytes_total,recv_bytes_total\n"
                               "1,0,1,100,0.5,0.9,1000,2000\n"
                               "2,0,2,200,0.4,0.91,2000,4000\n";
    json_t *doc = curves(&(struct series_query){.file = "eval", .x = "bytes"}, text);

    assert_is(node_of(doc, 0, "x"), "[3000,6000]");
    json_decref(doc);
    doc = curves(&(struct series_query){.file = "eval", .x = "epoch"}, text);
    assert_is(node_of(doc, 0, "x"), "[1,2]");
    json_decref(doc);
}

TEST(rows_without_tokens_have_no_place_over_tokens)
{
    static const char text[] = "time_s,node,step,loss,tokens,bits_per_byte\n"
                               "1,0,0,0.6,0,\n2,0,100,0.5,6400,0.25\n3,0,200,0.4,12800,0.125\n";
    json_t *doc = curves(&(struct series_query){.file = "eval", .names = "bits_per_byte", .x = "tokens"},
                         text);

    assert_is(node_of(doc, 0, "x"), "[6400,12800]");
    assert_is(node_of(doc, 0, "bits_per_byte"), "[0.25,0.125]");
    json_decref(doc);
}

TEST(a_second_attempt_goes_on_in_time_and_bytes)
{
    static const char text[] = "time_s,node,epoch,step,loss,accuracy,sent_bytes_total,recv_bytes_total\n"
                               "5,0,1,100,0.5,0.9,1000,1000\n"
                               "3,0,2,200,0.4,0.91,500,500\n"
                               "4,0,3,300,0.3,0.92,900,900\n";
    json_t *doc = curves(&(struct series_query){.file = "eval", .x = "time"}, text);

    assert_is(node_of(doc, 0, "x"), "[5,8,9]");
    json_decref(doc);
    doc = curves(&(struct series_query){.file = "eval", .x = "bytes"}, text);
    assert_is(node_of(doc, 0, "x"), "[2000,3000,3800]");
    json_decref(doc);
}

TEST(of_many_rows_each_16th_is_a_point_with_its_own_value_and_the_extremes_since_the_one_before)
{
    char *text = malloc(1 << 16);
    size_t len = (size_t)sprintf(text, "node,step,loss\n");
    json_t *doc;
    json_t *list;

    for (int i = 1; i <= 1000; i++)
        len += (size_t)sprintf(text + len, "0,%d,%d\n", i, i == 500 ? 7000 : i);
    doc = curves(&(struct series_query){.names = "loss", .points = "100"}, text);
    free(text);
    list = node_of(doc, 0, "x");
    assert_in_range(json_array_size(list), 50, 100);
    assert_int_equal(json_array_size(list), (1000 + 15) / 16); /* 1000 / 100 rounded up to a power of 2 */
    assert_is(node_of(doc, 0, "every"), "16");
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_true(json_number_value(json_array_get(list, i)) == fmin(16 * (double)(i + 1), 1000));
    assert_true(json_equal(list, node_of(doc, 0, "loss")));
    assert_true(json_number_value(json_array_get(node_of(doc, 0, "loss_max"), 499 / 16)) == 7000);
    assert_true(json_number_value(json_array_get(node_of(doc, 0, "loss_min"), 499 / 16)) == 497);
    assert_true(json_equal(list, mean_of(doc, "x")));
    assert_true(json_equal(list, mean_of(doc, "loss")));
    assert_is(mean_of(doc, "every"), "16");
    assert_null(mean_of(doc, "loss_min"));
    assert_is(node_of(doc, 0, "rows"), "1000");
    json_decref(doc);
}

TEST(the_mean_does_not_depend_on_the_order_of_the_nodes)
{
    char *up = malloc(1 << 16);
    char *down = malloc(1 << 16);
    size_t n_up = (size_t)sprintf(up, "node,step,loss\n");
    size_t n_down = (size_t)sprintf(down, "node,step,loss\n");
    const struct series_query q = {.names = "loss", .points = "20"};
    json_t *a;
    json_t *b;

    for (int i = 100; i <= 300; i++)
        n_up += (size_t)sprintf(up + n_up, "0,%d,%d\n", i, i);
    for (int i = 10; i <= 500; i++)
        n_down += (size_t)sprintf(down + n_down, "1,%d,%d\n", i, 2 * i);
    a = curves_of(&q, (const char *const[]){up, down, NULL});
    b = curves_of(&q, (const char *const[]){down, up, NULL});
    assert_true(json_equal(json_object_get(a, "mean"), json_object_get(b, "mean")));
    /* Steps 10 to 500 as 20 points: each 32nd, and the last. Steps 100 to 300 are those of both. */
    assert_is(mean_of(a, "x"), "[32,64,96,128,160,192,224,256,288,320,352,384,416,448,480,500]");
    assert_is(mean_of(a, "loss"), "[64,128,192,192,240,288,336,384,432,640,704,768,832,896,960,1000]");
    json_decref(a);
    json_decref(b);
    free(up);
    free(down);
}

/* Tests on the test set are far apart: more steps between them than points are no reason to leave one out. */
TEST(points_are_counted_by_rows_and_not_by_the_steps_between_them)
{
    char text[4096];
    size_t len = (size_t)sprintf(text, "node,epoch,step,accuracy\n");
    json_t *doc;

    for (int i = 1; i <= 50; i++)
        for (int node = 0; node < 2; node++)
            len += (size_t)sprintf(text + len, "%d,%d,%d,0.%03d\n", node, i, i == 50 ? 4901 : 100 * i,
                                   10 * i + node);
    doc = curves(&(struct series_query){.file = "eval", .names = "accuracy", .points = "50"}, text);
    assert_int_equal(json_array_size(mean_of(doc, "x")), 50);
    assert_null(mean_of(doc, "every"));
    assert_true(json_number_value(json_array_get(mean_of(doc, "accuracy"), 48)) == 0.4905);
    assert_true(json_number_value(json_array_get(mean_of(doc, "accuracy"), 49)) == 0.5005);
    json_decref(doc);
}

/* With a round every second step a mean over neighbours would halve the bytes of a step that has some. */
TEST(a_thinned_curve_of_bytes_has_the_bytes_of_a_step)
{
    char *text = malloc(1 << 16);
    size_t len = (size_t)sprintf(text, "node,step,sent_bytes,recv_bytes\n");
    json_t *doc;

    for (int i = 1; i <= 1000; i++)
        len += (size_t)sprintf(text + len, "0,%d,%d,0\n1,%d,%d,0\n", i, i % 3 ? 0 : 600, i, i % 3 ? 0 : 400);
    doc = curves(&(struct series_query){.names = "sent_bytes", .points = "600"}, text);
    free(text);
    assert_int_equal(json_array_size(mean_of(doc, "x")), 500);
    for (size_t i = 0; i < 500; i++) {
        bool has_round = 2 * (i + 1) % 3 == 0;

        assert_true(json_number_value(json_array_get(mean_of(doc, "sent_bytes"), i)) ==
                    (has_round ? 500 : 0));
        assert_true(json_number_value(json_array_get(node_of(doc, 0, "sent_bytes"), i)) ==
                    (has_round ? 600 : 0));
    }
    json_decref(doc);
}

TEST(a_range_is_cut_out_before_rows_are_put_together)
{
    json_t *doc = curves(&(struct series_query){.names = "loss", .from = "2", .to = "2.5"}, two_nodes);

    assert_is(json_object_get(doc, "rows"), "2");
    assert_is(node_of(doc, 0, "x"), "[2]");
    assert_is(mean_of(doc, "loss"), "[2]");
    json_decref(doc);
}

TEST(numbers_that_are_not_finite_are_named_and_missing_ones_null)
{
    json_t *doc = curves(&(struct series_query){.names = "loss"},
                         "node,step,loss\n"
                         "0,1,nan\n0,2,inf\n0,3,-inf\n0,4,\n0,5,x\n");

    assert_is(node_of(doc, 0, "loss"), "[\"nan\",\"inf\",\"-inf\",null,null]");
    json_decref(doc);
    doc = curves(&(struct series_query){.names = "loss", .points = "2"},
                 "node,step,loss\n0,1,nan\n0,2,1\n0,3,\n0,4,\n");
    assert_is(node_of(doc, 0, "loss"), "[\"nan\",null]");
    assert_is(mean_of(doc, "loss"), "[\"nan\",null]");
    assert_is(node_of(doc, 0, "loss_min"), "[1,null]");
    json_decref(doc);
}

TEST(rows_that_no_node_can_have_written_are_left_out)
{
    json_t *doc = curves(
        &(struct series_query){.names = "loss"},
        "node,step,loss\n"
        "99999999999,1,1\nnan,1,1\n,1,1\n<script>,1,1\n0,-1,1\n0,nan,1\n0,1e300,1\n0,5,1\n0,4,1\n");

    assert_is(json_object_get(doc, "rows"), "1");
    assert_is(node_of(doc, 0, "x"), "[5]"); /* curves never go back */
    json_decref(doc);
}

TEST(an_x_whose_sum_overflows_is_left_out)
{
    json_t *doc = curves(&(struct series_query){.names = "loss", .x = "time", .points = "2"},
                         "time_s,node,step,loss\n1,0,1,1\n1,1,1,1\n1.7e308,0,2,1\n1.7e308,1,2,1\n"
                         "1.7e308,0,3,1\n1.7e308,1,3,1\n-1.7e308,2,3,1\n");

    assert_is(json_object_get(doc, "rows"), "2");
    assert_is(mean_of(doc, "x"), "[1]");
    json_decref(doc);
}

TEST(values_in_rows_become_curves_by_their_names)
{
    static const char text[] = "time_s,node,step,round,name,value\n"
                               "1,0,10,1,staleness,2\n1,0,10,1,norm,0.5\n"
                               "2,0,20,2,staleness,4\n2,-2,20,2,norm,1.5\n3,0,30,3,<b>,1\n";
    json_t *doc = curves(&(struct series_query){.file = "codec"}, text);

    assert_is(json_object_get(doc, "names"), "[\"staleness\",\"norm\"]");
    assert_is(node_of(doc, 0, "x"), "[10,20]");
    assert_is(node_of(doc, 0, "staleness"), "[2,4]");
    assert_is(node_of(doc, 0, "norm"), "[0.5,null]");
    assert_is(node_of(doc, 1, "role"), "\"server\"");
    assert_is(node_of(doc, 1, "norm"), "[1.5]");
    assert_is(mean_of(doc, "x"), "[10,20]"); /* of workers only */
    json_decref(doc);
    doc = curves(&(struct series_query){.file = "codec", .names = "norm"}, text);
    assert_is(json_object_get(doc, "names"), "[\"norm\"]");
    assert_is(node_of(doc, 0, "x"), "[10]");
    json_decref(doc);
}

TEST(a_value_may_have_the_name_of_an_extreme_but_not_of_another_key)
{
    json_t *doc = curves(&(struct series_query){.file = "codec", .points = "2"},
                         "node,step,name,value\n0,1,norm,1\n0,2,norm,2\n0,3,norm,3\n0,3,norm_max,9\n"
                         "0,3,x,1\n0,3,rows,1\n");

    assert_is(json_object_get(doc, "names"), "[\"norm\",\"norm_max\"]");
    assert_is(node_of(doc, 0, "norm_max"), "[null,9]");
    assert_is(node_of(doc, 0, "norm_min"), "[1,3]");
    assert_is(node_of(doc, 0, "x"), "[2,3]");
    json_decref(doc);
}

TEST(the_more_nodes_the_fewer_points_each_has)
{
    enum { NODES = 3000, ROWS = 64 };
    char *text = malloc((size_t)NODES * ROWS * 16 + 64);
    size_t len = (size_t)sprintf(text, "node,step,loss\n");
    json_t *doc;

    for (int node = 0; node < NODES; node++)
        for (int i = 1; i <= ROWS; i++)
            len += (size_t)sprintf(text + len, "%d,%d,1\n", node, i);
    doc = curves(&(struct series_query){.names = "loss"}, text);
    assert_int_equal(json_array_size(json_object_get(doc, "nodes")), NODES);
    for (size_t i = 0; i < NODES; i++)
        assert_in_range(json_array_size(node_of(doc, i, "x")), 4, SERIES_POINTS_IN_ALL / NODES);
    assert_int_equal(json_array_size(mean_of(doc, "x")), ROWS);
    json_decref(doc);
    free(text);
}

TEST(only_so_many_nodes_have_curves_and_the_mean_is_over_all)
{
    struct series_request r;
    struct series *s;
    char text[4096] = "";
    struct err e;
    json_t *doc;
    FILE *out;

    assert_ok(series_request_set(&r, &(struct series_query){.names = "loss"}, &e));
    r.nodes_most = 1;
    assert_ok(series_new(&s, &r, &e));
    assert_ok(series_add(s, two_nodes, strlen(two_nodes), "train.csv", &e));
    assert_non_null(out = fmemopen(text, sizeof text, "w"));
    assert_ok(series_write(out, s, &e));
    assert_int_equal(fclose(out), 0);
    doc = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(doc, "nodes")), 1);
    assert_is(json_object_get(doc, "nodes_left_out"), "1");
    assert_is(mean_of(doc, "loss"), "[3,2,0.5]");
    json_decref(doc);
    series_free(s);
}

TEST(a_job_without_rows_has_an_empty_document)
{
    json_t *doc = curves(&(struct series_query){0}, "");

    assert_is(doc,
              "{\"file\":\"train\",\"x\":\"step\",\"names\":[\"loss\",\"accuracy\"],\"rows\":0,\"nodes\":[],"
              "\"mean\":{\"x\":[],\"loss\":[],\"accuracy\":[]}}");
    json_decref(doc);
}

TEST(a_wrong_request_is_refused_with_the_valid_values)
{
    static const struct {
        struct series_query q;
        const char *message;
    } cases[] = {
        {{.file = "trian"}, "file=trian is not known; did you mean \"train\"?"},
        {{.x = "steps"}, "did you mean \"step\"?"},
        {{.names = "los"}, "names los: train.csv has no such value; it has time_s, epoch, "},
        {{.names = "node"}, "is not a list of values"},
        {{.names = "loss,,"}, "is not a list of values"},
        {{.names = "loss,loss"}, "names: loss is there twice"},
        {{.file = "codec", .names = "<script>"}, "is not a list of values"},
        {{.file = "codec", .names = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}, "more than 16"},
        {{.file = "codec", .x = "bytes"}, "codec.csv has no bytes"},
        {{.points = "1"}, "points: from 2"},
        {{.points = "1e9"}, "points: from 2"},
        {{.points = "many"}, "points=many is not a number"},
        {{.from = "nan"}, "from=nan is not a number"},
    };
    struct series_request r;
    struct err e;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(series_request_set(&r, &cases[i].q, &e), ERR_USAGE);
        assert_error_has(cases[i].message);
    }
    assert_int_equal(series_check_name("eval", "los", "--y", &e), ERR_USAGE);
    assert_string_equal(e.text,
                        "--y los: eval.csv has no such value; it has time_s, epoch, step, samples, loss, "
                        "accuracy, sent_bytes_total, recv_bytes_total, tokens, perplexity, bits_per_byte, "
                        "sim_time_s");
    assert_string_equal(e.hint, "Did you mean \"loss\"?");
    assert_int_equal(series_check_name("eval", "node", "--y", &e), ERR_USAGE); /* each has its own curve */
    assert_ok(series_check_name("codec", "any", "--y", &e));
    assert_int_equal(series_check_name("codec", "a,b", "--y", &e), ERR_USAGE);
    assert_error_has("--y \"a,b\": no value has such a name");
    assert_ok(series_check_name("eval", "accuracy", "--y", &e));
    assert_ok(
        series_request_set(&r, &(struct series_query){.names = "compute_s,sim_time_s", .from = ""}, &e));
}

TEST(a_file_without_the_column_of_x_is_refused)
{
    static const char text[] = "node,step,loss\n0,1,1\n";
    struct series_request r;
    struct series *s;
    struct err e;

    assert_ok(series_request_set(&r, &(struct series_query){.x = "bytes"}, &e));
    assert_ok(series_new(&s, &r, &e));
    assert_int_equal(series_add(s, text, strlen(text), "records/train.csv", &e), ERR_PROTOCOL);
    assert_error_has("records/train.csv: there is no column sent_bytes");
    series_free(s);
}

TEST(a_file_is_read_as_its_text_is)
{
    const char *folder = unit_folder();
    struct series_request r;
    struct series *s;
    struct err e;
    char path[256];
    char text[4096] = "";
    FILE *out;
    int fd;

    snprintf(path, sizeof path, "%s/train.csv", folder);
    assert_ok(file_write(path, two_nodes, strlen(two_nodes), 0600, &e));
    assert_ok(series_request_set(&r, &(struct series_query){0}, &e));
    assert_ok(series_new(&s, &r, &e));
    assert_true((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
    assert_ok(series_read(s, fd, "train.csv", &e));
    close(fd);
    assert_non_null(out = fmemopen(text, sizeof text, "w"));
    assert_ok(series_write(out, s, &e));
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "\"loss\":[2,1,0.5]"));
    series_free(s);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_mean_a_loss_counts_with_the_samples_of_its_batch),
        cmocka_unit_test(each_node_has_its_rows_and_the_mean_is_over_workers_at_equal_steps),
        cmocka_unit_test(x_is_the_step_the_part_of_an_epoch_the_time_or_the_bytes_so_far),
        cmocka_unit_test(a_simulation_has_simulated_time),
        cmocka_unit_test(evaluations_have_their_total_bytes_and_epochs),
        cmocka_unit_test(rows_without_tokens_have_no_place_over_tokens),
        cmocka_unit_test(a_second_attempt_goes_on_in_time_and_bytes),
        cmocka_unit_test(
            of_many_rows_each_16th_is_a_point_with_its_own_value_and_the_extremes_since_the_one_before),
        cmocka_unit_test(the_mean_does_not_depend_on_the_order_of_the_nodes),
        cmocka_unit_test(points_are_counted_by_rows_and_not_by_the_steps_between_them),
        cmocka_unit_test(a_thinned_curve_of_bytes_has_the_bytes_of_a_step),
        cmocka_unit_test(a_range_is_cut_out_before_rows_are_put_together),
        cmocka_unit_test(numbers_that_are_not_finite_are_named_and_missing_ones_null),
        cmocka_unit_test(rows_that_no_node_can_have_written_are_left_out),
        cmocka_unit_test(an_x_whose_sum_overflows_is_left_out),
        cmocka_unit_test(values_in_rows_become_curves_by_their_names),
        cmocka_unit_test(a_value_may_have_the_name_of_an_extreme_but_not_of_another_key),
        cmocka_unit_test(the_more_nodes_the_fewer_points_each_has),
        cmocka_unit_test(only_so_many_nodes_have_curves_and_the_mean_is_over_all),
        cmocka_unit_test(a_job_without_rows_has_an_empty_document),
        cmocka_unit_test(a_wrong_request_is_refused_with_the_valid_values),
        cmocka_unit_test(a_file_without_the_column_of_x_is_refused),
        cmocka_unit_test(a_file_is_read_as_its_text_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
