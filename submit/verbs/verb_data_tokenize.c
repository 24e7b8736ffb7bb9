/* data tokenize: learns the tokens of byte-pair encoding from the training half of a text, and writes the
 * tokens of both halves to a file that jobs read without that work. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/data/token_file.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

static const char usual_set[] = "tokens:vocab=4096", set_name[] = "tokens";

static int write_tokens(struct dataset *d, const char *set, const struct options *o, struct err *e)
{
    const struct data_use use = {.is_uncut = true};
    int rc = dataset_open_as(d, set, o->data, &use, e);

    dataset_warnings_print(&d->warnings);
    return rc < 0 ? rc : token_file_write(o->output, d, set, e);
}

static void show_tokens(const struct dataset *d, const char *set, const struct options *o)
{
    const struct token_stream *t = &d->stream;

    if (o->json) {
        stdout_json(true,
                    json_pack("{s:o, s:o, s:i, s:I, s:I, s:f, s:i}", "file", json_text(o->output, SIZE_MAX),
                              "dataset", json_text(set, SIZE_MAX), "vocab", d->vocab, "train_tokens",
                              (json_int_t)t->n_train, "test_tokens", (json_int_t)t->n_test, "bytes_per_token",
                              t->bytes_per_token, "n_topics", t->n_topics),
                    NULL, NULL);
        return;
    }
    printf("%s: %zu training and %zu test tokens of %d different ones, %.4g bytes of text each\n", o->output,
           t->n_train, t->n_test, d->vocab, t->bytes_per_token);
    console_plain("next: job_submit --dataset tokens --data %s ...", o->output);
}

int verb_data_tokenize(const struct options *o, struct err *e)
{
    bool is_given = options_is_given(o, offsetof(struct options, settings.dataset));
    const char *set = is_given ? o->settings.dataset : usual_set;
    size_t len = strcspn(set, ":");
    struct dataset d = {0};
    int rc;

    if (!o->data[0] || !o->output[0])
        return err_set(e, ERR_USAGE,
                       "data tokenize needs a text, --data FILE|DIR, and a file to write, -o FILE");
    if (len != strlen(set_name) || memcmp(set, set_name, len) != 0)
        return err_set(e, ERR_USAGE, "--dataset %s: data tokenize takes the set tokens and its options", set);
    rc = write_tokens(&d, set, o, e);
    if (rc == 0)
        show_tokens(&d, set, o);
    dataset_clear(&d);
    return rc;
}
