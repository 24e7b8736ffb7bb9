/* generate: a trained model of language goes on with a text. The program `predictor` computes; this verb
 * finds the model, also that of a running job, and turns the text into tokens and back. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/choice.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/records/artifacts.h"
#include "submit/data/token_stream.h"
#include "submit/data/tokenizer.h"
#include "submit/files/temp.h"
#include "submit/results/job_index.h"
#include "submit/terminal/console.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/helper_program.h"
#include "submit/verbs/trained_model.h"
#include "submit/verbs/verbs.h"

struct generate {
    const struct options *opt;
    struct submission job;
    struct trained_model model;
    struct tokenizer tokenizer;
    uint16_t prompt[sizeof((struct options *)0)->generation.prompt]; /* a byte is at most one token */
    size_t n_prompt;
    struct temp folder; /* of the predictor, and of a snapshot */
    json_t *summary;
    char *text; /* (n_text): prompt and what follows */
    size_t n_text;
};

/* The present model of a job that runs. */
static int take_snapshot(struct generate *g, struct err *e)
{
    char *path = g->model.path;
    struct verb_moment moment;
    struct job_node *n = verb_node_of_job(&g->job, g->opt->has_node ? g->opt->node : 0, e);
    int fd, rc;

    if (!n || file_join(path, sizeof g->model.path, g->folder.path, "snapshot.safetensors", e) < 0)
        return e->code;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    rc = verb_take_snapshot(&moment, &g->job, n, fd, e);
    close(fd);
    if (rc == 0)
        console_info("The model is that of node %d after step %llu.", n->at.node, moment.step);
    return rc;
}

/* The model in a job's results, or if they have none yet, its present one. */
static int find_in_job(struct generate *g, const char *job, struct err *e)
{
    char path[PATH_MAX];

    if (submission_init(&g->job, g->opt, e) < 0 || job_index_load(&g->job, job, e) < 0 ||
        file_join(path, sizeof path, g->job.folder, artifacts[ARTIFACT_FINAL_MODEL].path, e) < 0)
        return e->code;
    return access(path, F_OK) == 0 ? trained_model_find(&g->model, g->job.folder, e) : take_snapshot(g, e);
}

/* `operand`: a model's file, a folder of results, or a job; NULL: the latest job. */
static int find_model(struct generate *g, const char *operand, struct err *e)
{
    char id[JOB_ID_MAX] = "", folder[PATH_MAX];

    if (!operand || access(operand, F_OK) < 0)
        return find_in_job(g, operand, e);
    if (file_absolute(folder, sizeof folder, operand, e) < 0 || job_index_in_folder(id, folder, e) < 0)
        return e->code;
    return id[0] ? find_in_job(g, id, e) : trained_model_find(&g->model, operand, e);
}

static int open_model(struct generate *g, struct err *e)
{
    json_t *run;
    int rc;

    if (trained_model_run(&run, &g->model, e) < 0)
        return e->code;
    rc = trained_model_open(&g->model, run, e);
    json_decref(run);
    if (rc == 0 && model_spec_language(g->model.spec, e) < 0) {
        err_hint(e, "job_submit predict applies a model to the samples of a data set.");
        return err_at(e, "%s", g->model.path);
    }
    return rc;
}

/* A file of another program has no record: its tokens are bytes if it knows 256. */
static int open_tokenizer(struct generate *g, struct err *e)
{
    const struct preprocessing *p = &g->model.record;

    if (!g->model.has_record && model_spec_vocab(g->model.spec) != TOKENIZER_BYTES) {
        err_set(e, ERR_CONFIG,
                "%s has no preprocessing record, so that the texts of its %d tokens are not known",
                g->model.path, model_spec_vocab(g->model.spec));
        return err_hint(e, "The files of models that psgd has trained have one.");
    }
    return tokenizer_init(&g->tokenizer, p->merges, p->n_merges, e) < 0 ? err_at(e, "%s", g->model.path) : 0;
}

static int take_prompt(struct generate *g, struct err *e)
{
    const uint8_t *text = (const uint8_t *)g->opt->generation.prompt;
    const size_t len = strlen(g->opt->generation.prompt);
    const int time = g->model.spec->n_in;

    g->n_prompt = tokenizer_encode_text(&g->tokenizer, g->prompt, text, len);
    if (g->n_prompt <= (size_t)time)
        return 0;
    err_set(e, ERR_CONFIG, "the prompt has %zu tokens, and model \"%s\" reads %d", g->n_prompt,
            g->model.spec->name, time);
    return err_hint(e, "Give the end of the prompt: the model does not see more.");
}

static int put_request(const struct generate *g, struct err *e)
{
    const struct generation *how = &g->opt->generation;
    json_t *prompt = json_array(), *doc;
    char path[PATH_MAX], *text;
    int rc;

    for (size_t i = 0; i < g->n_prompt; i++)
        json_array_append_new(prompt, json_integer(g->prompt[i]));
    doc = json_pack("{s:o, s:i, s:i, s:i, s:f, s:i, s:f, s:I}", "prompt", prompt, "tokens", how->tokens,
                    "known", tokenizer_vocab(&g->tokenizer), "end", TOKEN_END, "temperature",
                    how->temperature, "top_k", how->top_k, "top_p", how->top_p, "seed",
                    (json_int_t)how->seed);
    text = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the tokens of the prompt");
    rc = file_join(path, sizeof path, g->folder.path, "continuation.json", e) < 0
             ? e->code
             : file_write(path, text, strlen(text), 0600, e);
    free(text);
    return rc;
}

static int run_predictor(struct generate *g, struct err *e)
{
    const struct settings *set = &g->opt->settings;
    char mode[] = "text", threads[16], math[16];
    const struct helper how = {
        .program = "predictor", .folder = g->folder.path, .args = {mode, threads, math}};
    const char *name;
    int n;

    name = choice_at(MATH_CHOICES, (int)set->math, &n);
    snprintf(threads, sizeof threads, "%d", set->threads);
    snprintf(math, sizeof math, "%.*s", n, name);
    return helper_run(&g->summary, &how, e);
}

/* The bytes of the prompt and of the tokens that were drawn. */
static int make_text(struct generate *g, struct err *e)
{
    const json_t *tokens = json_object_get(g->summary, "tokens"), *v;
    const char *prompt = g->opt->generation.prompt;
    size_t i, n_prompt = strlen(prompt);

    g->text = malloc(n_prompt + json_array_size(tokens) * TOKENIZER_WORD + 1);
    if (!g->text)
        return err_set(e, ERR_NOMEM, "no memory for the text");
    memcpy(g->text, prompt, n_prompt);
    g->n_text = n_prompt;
    json_array_foreach(tokens, i, v)
    {
        size_t n;
        const char *bytes = tokenizer_decode(&g->tokenizer, (uint32_t)json_integer_value(v), &n);

        if (n > 0)
            memcpy(g->text + g->n_text, bytes, n);
        g->n_text += n;
    }
    g->text[g->n_text] = '\0';
    return 0;
}

/* The file gets the bytes as they are, a terminal those that are text. */
static int show_text(struct generate *g, struct err *e)
{
    const struct options *o = g->opt;
    const size_t n_prompt = strlen(o->generation.prompt);

    if (o->output[0] && file_write(o->output, g->text, g->n_text, 0666, e) < 0)
        return e->code;
    if (o->output[0] && o->is_to_stdout)
        return 0;
    utf8_clean(g->text, g->n_text, true);
    if (o->json) {
        json_object_del(g->summary, "ok");
        json_object_set_new(g->summary, "model", json_text(g->model.path, SIZE_MAX));
        json_object_set_new(g->summary, "prompt_tokens", json_integer((json_int_t)g->n_prompt));
        json_object_set_new(g->summary, "text", json_stringn(g->text + n_prompt, g->n_text - n_prompt));
        stdout_json(true, json_incref(g->summary), NULL, NULL);
        return 0;
    }
    if (!o->output[0])
        printf("%s\n", g->text);
    return 0;
}

static int generate_text(struct generate *g, const char *operand, struct err *e)
{
    if (temp_open(&g->folder, e) < 0 || find_model(g, operand, e) < 0 || open_model(g, e) < 0 ||
        open_tokenizer(g, e) < 0 || take_prompt(g, e) < 0 ||
        trained_model_put(&g->model, g->folder.path, e) < 0 || put_request(g, e) < 0 ||
        run_predictor(g, e) < 0 || make_text(g, e) < 0)
        return e->code;
    return show_text(g, e);
}

int verb_generate(const struct options *o, struct err *e)
{
    struct generate *g;
    int rc;

    if (!o->generation.prompt[0])
        return err_set(e, ERR_USAGE, "generate needs --prompt TEXT, the text with which the model goes on");
    g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_NOMEM, "no memory");
    g->opt = o;
    rc = generate_text(g, o->args.n_operands ? o->args.operands[0] : NULL, e);
    free(g->text);
    json_decref(g->summary);
    tokenizer_clear(&g->tokenizer);
    trained_model_clear(&g->model);
    submission_clear(&g->job);
    if (g->folder.path[0])
        temp_close(&g->folder);
    free(g);
    return rc;
}
