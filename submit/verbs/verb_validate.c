/* validate: runs the stages read and check of a job, which need no agent, and prints their results. Labels,
 * or topics of text, are counted in the files that would be shipped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/tensor_file.h"
#include "submit/export/export.h"
#include "submit/results/results.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { NODES_PER_TABLE = 10, NAME_WIDTH = 16 };

struct shard_view { /* one worker's shard */
    size_t samples, bytes;
    size_t *labels; /* (n_classes), NULL: targets, or text without topics */
};

/* Samples of a shard (submit/stages/shard.h): those of "tokens" are `window` tokens long. */
static size_t count_samples(const struct tensor_file *f, const struct tensor_view *y, size_t window)
{
    const struct tensor_view *tokens = tensor_file_find(f, "tokens"), *pieces = tensor_file_find(f, "pieces");

    if (pieces)
        return pieces->shape[0] * strtoull(tensor_file_meta(f, "per_piece"), NULL, 10);
    return tokens ? tokens->shape[0] * ((tokens->shape[1] - 1) / window) : y->shape[0];
}

static int look_at(struct shard_view *v, const struct blob *b, size_t window, int n_classes, struct err *e)
{
    const struct tensor_view *y;
    struct tensor_file f;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    y = tensor_file_find(&f, window > 0 ? "topics" : "y");
    v->bytes = b->len;
    v->samples = count_samples(&f, y, window);
    if (y && y->type == TENSOR_I32) {
        v->labels = calloc((size_t)n_classes, sizeof *v->labels);
        for (size_t i = 0; v->labels && i < y->shape[0]; i++)
            v->labels[((const int32_t *)y->data)[i]]++;
        if (!v->labels)
            err_set(e, ERR_NOMEM, "no memory for %d labels", n_classes);
    }
    tensor_file_close(&f);
    return n_classes == 0 || v->labels ? 0 : e->code;
}

static json_t *nodes_json(const struct shard_view *shards, int n, int n_classes)
{
    json_t *all = json_array();

    for (int w = 0; w < n; w++) {
        json_t *labels = shards[w].labels ? json_sizes(shards[w].labels, (size_t)n_classes) : json_null();

        json_array_append_new(all, json_pack("{s:i, s:I, s:I, s:o}", "node", w, "samples",
                                             (json_int_t)shards[w].samples, "bytes",
                                             (json_int_t)shards[w].bytes, "labels", labels));
    }
    return all;
}

static void print_json(const struct submission *s, const struct shard_view *shards, int n_classes)
{
    const struct settings *set = &s->settings;
    const char *loss = s->model_spec.has_trainer ? NULL : loss_kind_name(s->model_spec.loss);
    json_t *o = json_pack("{s:s, s:O, s:O, s:O, s:o, s:s?, s:I, s:I, s:o, s:o}", "name", set->name, "codec",
                          json_object_get(s->facts, "codec"), "model", json_object_get(s->facts, "model"),
                          "data", json_object_get(s->facts, "data"), "layers",
                          verb_model_layers(&s->model_spec), "loss", loss, "n_steps",
                          (json_int_t)settings_steps(set), "test_bytes", (json_int_t)s->test.len, "settings",
                          json_loadb(s->settings_blob.bytes, s->settings_blob.len, 0, NULL), "nodes",
                          nodes_json(shards, set->node_count, n_classes));

    stdout_json(true, o, NULL, NULL);
}

static long long fact(const json_t *data, const char *key)
{
    return json_integer_value(json_object_get(data, key));
}

static void print_groups(const json_t *of_blocks)
{
    long long least = 0, most = 0;
    const json_t *n;
    size_t i = 0;

    json_array_foreach(of_blocks, i, n)
    {
        long long v = json_integer_value(n);

        least = i == 0 || v < least ? v : least;
        most = v > most ? v : most;
    }
    if (i > 0 && least == most)
        printf("; a block has %lld group%s", most, most == 1 ? "" : "s");
    else if (i > 0)
        printf("; a block has %lld to %lld groups", least, most);
}

/* Text, and how good a model of it can be, if that is known. */
static void print_text(const struct settings *set, const json_t *data)
{
    double floor = json_number_value(json_object_get(data, "floor"));
    double entropy = json_number_value(json_object_get(data, "entropy"));
    double bytes = json_number_value(json_object_get(data, "bytes_per_token"));

    printf("Data set %s: %lld training and %lld test tokens, %lld and %lld windows of %lld; %lld different "
           "tokens of %.4g bytes of text\n",
           set->dataset, fact(data, "train_tokens"), fact(data, "test_tokens"), fact(data, "n_train"),
           fact(data, "n_test"), fact(data, "window"), fact(data, "vocab"), bytes);
    if (floor > 0)
        printf("Entropy %.4f nats a token; the best model that there can be has the loss %.4f on the test "
               "windows, %.4f bits a byte\n",
               entropy, floor, floor / log(2) / bytes);
}

static void print_set(const struct settings *set, const json_t *data)
{
    char *shape;

    if (fact(data, "window") > 0) {
        print_text(set, data);
        return;
    }
    shape = json_dump(json_object_get(data, "shape"), 0);
    printf("Data set %s: %lld training and %lld test sample%s of %s %s, ", set->dataset,
           fact(data, "n_train"), fact(data, "n_test"), fact(data, "n_test") == 1 ? "" : "s",
           shape ? shape : "", json_string_value(json_object_get(data, "type")));
    free(shape);
    if (fact(data, "n_classes") > 0)
        printf("%lld classes", fact(data, "n_classes"));
    else
        printf("%lld target%s", fact(data, "n_targets"), fact(data, "n_targets") == 1 ? "" : "s");
    if (fact(data, "vocab") > 0)
        printf(", %lld tokens", fact(data, "vocab"));
    printf("; transform %s\n", set->transform);
}

static void print_division(const struct settings *set, const json_t *data)
{
    long long n_left = fact(data, "n_train") - fact(data, "n_used");
    long long n_waiting = fact(data, "n_used") - fact(data, "n_epoch");

    printf("Partition %s: %lld block%s of %zu, global batch %lld, %d step%s an epoch, %lld in all",
           set->partition, fact(data, "n_blocks"), fact(data, "n_blocks") == 1 ? "" : "s",
           settings_block_samples(set), fact(data, "global_batch"), set->steps_per_epoch,
           set->steps_per_epoch == 1 ? "" : "s", (long long)settings_steps(set));
    if (n_waiting > 0)
        printf("; %lld training sample%s left out of each epoch, in turn", n_waiting,
               n_waiting == 1 ? " is" : "s are");
    if (n_left > 0)
        printf("; %lld training sample%s left out of the job", n_left, n_left == 1 ? " is" : "s are");
    print_groups(json_object_get(data, "block_groups"));
    printf("\n");
    if (set->divides_test)
        printf("Test set: each worker evaluates on a part of it\n");
}

/* A class name, cut to the column. */
static void print_class(const json_t *names, int k)
{
    const char *name = json_string_value(json_array_get(names, (size_t)k));
    char text[NAME_WIDTH + 1];

    if (name)
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%d", k);
    utf8_clean(text, strlen(text), false);
    printf("%-*s", NAME_WIDTH, text);
}

/* Labels are rows and nodes columns, NODES_PER_TABLE per table. */
static void print_shards(const struct shard_view *shards, int n, int n_classes, const json_t *data)
{
    const json_t *names = json_object_get(data, fact(data, "window") > 0 ? "topic_names" : "class_names");
    char amount[TEXT_AMOUNT];

    for (int first = 0; first < n; first += NODES_PER_TABLE) {
        int last = first + NODES_PER_TABLE < n ? first + NODES_PER_TABLE : n;

        printf("\n%-*s", NAME_WIDTH, "node");
        for (int w = first; w < last; w++)
            printf(" %9d", w);
        printf("\n%-*s", NAME_WIDTH, "samples");
        for (int w = first; w < last; w++)
            printf(" %9zu", shards[w].samples);
        printf("\n%-*s", NAME_WIDTH, "bytes");
        for (int w = first; w < last; w++)
            printf(" %9s", text_bytes(amount, shards[w].bytes));
        printf("\n");
        if (n_classes > 0)
            printf("%s\n", fact(data, "window") > 0 ? "topic, pieces" : "label");
        for (int k = 0; k < n_classes; k++) {
            print_class(names, k);
            for (int w = first; w < last; w++)
                printf(" %9zu", shards[w].labels[k]);
            printf("\n");
        }
    }
}

/* A job with a training program has neither a data set nor shards. */
static void report_program(const struct submission *s)
{
    const struct settings *set = &s->settings;
    long long n_steps = (long long)settings_steps(set);

    if (s->opt->json) {
        stdout_json(true,
                    json_pack("{s:s, s:O, s:O, s:O, s:I, s:o}", "name", set->name, "codec",
                              json_object_get(s->facts, "codec"), "model", json_object_get(s->facts, "model"),
                              "trainer", json_object_get(s->facts, "trainer"), "n_steps", (json_int_t)n_steps,
                              "settings", json_loadb(s->settings_blob.bytes, s->settings_blob.len, 0, NULL)),
                    NULL, NULL);
        return;
    }
    verb_model_print(&s->model_spec);
    printf("\n%s: %d step%s an epoch, %lld in all.\n", set->trainer, set->steps_per_epoch,
           set->steps_per_epoch == 1 ? "" : "s", n_steps);
    printf("\nThe job is valid; no agent was contacted.\n");
}

static int report_job(const struct submission *s, struct err *e)
{
    const json_t *data = json_object_get(s->facts, "data");
    size_t window = (size_t)fact(data, "window");
    int n_classes = (int)fact(data, window > 0 ? "n_topics" : "n_classes");
    int n = s->settings.node_count;
    struct shard_view *shards = calloc((size_t)n, sizeof *shards);
    int rc = shards ? 0 : err_set(e, ERR_NOMEM, "no memory for %d shards", n);

    for (int w = 0; w < n && rc == 0; w++)
        rc = look_at(&shards[w], &s->shards[w], window, n_classes, e);
    if (rc == 0 && s->opt->json) {
        print_json(s, shards, n_classes);
    } else if (rc == 0) {
        verb_model_print(&s->model_spec);
        printf("\n");
        print_set(&s->settings, data);
        print_division(&s->settings, data);
        print_shards(shards, n, n_classes, data);
        printf("\nThe job is valid; no agent was contacted.\n");
    }
    for (int w = 0; shards && w < n; w++)
        free(shards[w].labels);
    free(shards);
    return rc;
}

int verb_validate(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, o, e);

    s.may_lack_list = true;
    if (rc < 0 || verb_check_arguments(o, e) < 0 || stage_read(&s, e) < 0 ||
        (o->output[0] && export_prepare(&s, e) < 0) || stage_check_job(&s, e) < 0) {
        const json_t *data = json_object_get(s.facts, "data");

        if (data && !o->json) { /* the cause may be a data set that was misread */
            print_set(&s.settings, data);
            fflush(stdout); /* so that it precedes the error if both streams are one file */
        }
        rc = e->code;
    } else if (s.settings.trainer[0]) {
        report_program(&s);
    } else {
        rc = report_job(&s, e);
    }
    results_abandon(&s);
    submission_clear(&s);
    return rc;
}
