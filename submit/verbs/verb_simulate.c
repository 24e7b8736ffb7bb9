/* simulate: makes a job's packages as for agents and runs them in the simulator, a process of its own,
 * because it executes the codec's code. The results are printed and stored like those of a job. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/combine_path.h"
#include "shared/records/artifacts.h"
#include "shared/records/weights.h"
#include "shared/trainer/trainer_package.h"
#include "submit/browse/report_page.h"
#include "submit/export/export.h"
#include "submit/files/temp.h"
#include "submit/options/measured_times.h"
#include "submit/results/results.h"
#include "submit/results/run_json.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/text.h"
#include "submit/verbs/helper_program.h"
#include "submit/verbs/verbs.h"

#define STEP_TIME_S "0.01" /* of stand-in gradients, which cannot be measured */

struct simulation_run {
    struct submission s;
    struct options opt; /* the options given, and those derived from them */
    struct temp packages;
    json_t *summary;
};

static int put_text(const struct simulation_run *r, const char *name, const void *bytes, size_t len,
                    struct err *e)
{
    char path[PATH_MAX];

    if (file_join(path, sizeof path, r->packages.path, name, e) < 0)
        return e->code;
    return file_write(path, bytes, len, 0600, e);
}

/* An unlinked file is reachable through the descriptor that this process holds. */
static int put_blob(const struct simulation_run *r, const char *name, const struct blob *b, struct err *e)
{
    char path[PATH_MAX], held[64];

    if (!b->len)
        return 0;
    if (b->bytes)
        return put_text(r, name, b->bytes, b->len, e);
    snprintf(held, sizeof held, "/proc/%ld/fd/%d", (long)getpid(), b->fd);
    if (file_join(path, sizeof path, r->packages.path, name, e) < 0)
        return e->code;
    return symlink(held, path) < 0 ? err_errno(e, ERR_IO, "%s", path) : 0;
}

static int put_packages(struct simulation_run *r, struct err *e)
{
    const struct submission *s = &r->s;
    json_t *doc = simulation_json(&r->opt.simulation);
    char *line = doc ? json_line(doc) : NULL;
    char name[48];
    int rc = line ? put_text(r, "simulation.json", line, strlen(line), e)
                  : err_set(e, ERR_NOMEM, "no memory");

    json_decref(doc);
    free(line);
    if (rc < 0 || put_blob(r, "settings.json", &s->settings_blob, e) < 0 ||
        put_blob(r, "codec.so", &s->codec.object, e) < 0 ||
        put_blob(r, "server_codec.so", &s->server_codec.object, e) < 0 ||
        put_blob(r, "model.json", &s->model, e) < 0 ||
        put_blob(r, TRAINER_PACKAGE_NAME, &s->trainer, e) < 0 ||
        (s->trainer.len && put_blob(r, "weights.safetensors", &s->weights, e) < 0) ||
        put_blob(r, PREPROCESSING_FILE, &s->preprocessing, e) < 0 ||
        put_blob(r, "test.safetensors", &s->test, e) < 0)
        return e->code;
    for (int i = 0; s->shards && i < s->settings.node_count; i++) {
        snprintf(name, sizeof name, "train-%d.safetensors", i);
        if (put_blob(r, name, &s->shards[i], e) < 0)
            return e->code;
    }
    return 0;
}

/* Checks the options of the simulation and their combinations. */
static int check_options(struct simulation_run *r, struct err *e)
{
    struct simulation *how = &r->opt.simulation;
    json_t *doc;
    int rc;

    if ((how->exhaustive || how->replay[0]) && (how->gradients == 0 || r->s.settings.node_count > 3 ||
                                                r->opt.servers > 2 || how->kill[0] || how->cut[0])) {
        err_set(e, ERR_USAGE,
                "--%s is for at most 3 workers and 2 servers with --gradients N, without --kill "
                "and --cut",
                how->exhaustive ? "exhaustive" : "replay");
        return err_hint(e, "The number of orders grows fast: begin with --node_count 2 --gradients 10 "
                           "--steps 2 --epochs 1.");
    }
    if (how->gradients > 0 && !how->step_time[0])
        strcpy(how->step_time, STEP_TIME_S);
    if (r->opt.trainer[0])
        strcpy(how->trainer_python, r->opt.trainer_python);
    doc = simulation_json(how);
    if (!doc)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = simulation_parse(how, doc, e);
    json_decref(doc);
    if (rc < 0)
        return e->code = e->code == ERR_CONFIG ? ERR_USAGE : e->code;
    return 0;
}

static int prepare_run(struct simulation_run *r, struct err *e)
{
    struct submission *s = &r->s;
    int rc;

    if (check_options(r, e) < 0)
        return e->code;
    if (r->opt.simulation.gradients > 0) {
        snprintf(s->settings.dataset, sizeof s->settings.dataset, "gradients");
        snprintf(s->settings.model, sizeof s->settings.model, "gradients");
        s->settings.steps_per_epoch = r->opt.steps;
    }
    snprintf(r->opt.workers, sizeof r->opt.workers, "--servers %d", r->opt.servers);
    s->workers.n_servers = (size_t)r->opt.servers;
    s->counts_servers = s->is_simulated = true;
    rc = stage_read_job(s, e);
    s->workers.n_servers = 0;
    if (rc < 0)
        return rc;
    snprintf(s->csv_style, sizeof s->csv_style, "tidy");
    if (simulation_check(&r->opt.simulation, s->settings.node_count, r->opt.servers, e) < 0)
        return e->code;
    return stage_check_packages(s, e);
}

/* Prints the result of a search through all orders. */
static void show_search(const struct simulation_run *r, const json_t *search)
{
    const char *failure = json_string_value(json_object_get(search, "failure"));
    const char *order = json_string_value(json_object_get(search, "order"));
    bool has_failed = failure && failure[0];
    long long n = json_integer_value(json_object_get(search, "orders"));
    long long n_different = json_integer_value(json_object_get(search, "different"));

    text_print("\n%lld order%s of deliveries: %s%s\n", n, n == 1 ? "" : "s",
               has_failed                    ? "the last one fails, "
               : r->opt.simulation.replay[0] ? "it succeeds"
                                             : "all succeed",
               has_failed ? failure : "");
    if (!has_failed && n_different > 0)
        printf("%lld of them end with weights that differ from the first.\n", n_different);
    if (has_failed && order && !r->opt.simulation.replay[0])
        text_print("next: the same command with --replay %s instead of --exhaustive\n", order);
}

static int run_simulator(struct simulation_run *r, struct err *e)
{
    const struct helper how = {.program = "simulator",
                               .folder = r->packages.path,
                               .cwd = r->s.folder,
                               .codec = r->s.settings.codec,
                               .deadline = r->s.deadline,
                               .timeout_s = r->opt.timeout_s};

    return helper_run(&r->summary, &how, e);
}

/* The settings on which the measured times depend (of a step, an evaluation, a codec, a message). The rule,
 * its rates and the seed are not among them, so that runs which differ in these use the same times. NULL: no
 * memory. */
static json_t *measured_settings(const struct simulation_run *r)
{
    static const char *const keys[] = {
        "model",   "dataset",    "transform",   "batch_size",       "math",
        "threads", "redundancy", "block_ratio", "gradient_descent", "node_count"};
    json_t *set = settings_json(&r->s.settings);
    json_t *of = json_pack("{s:s, s:s, s:b, s:i, s:i}", "model_sha256", r->s.model.hex, "data", r->opt.data,
                           "clips", r->s.settings.clip_norm > 0, "processors", r->opt.simulation.processors,
                           "processors_here", (int)sysconf(_SC_NPROCESSORS_ONLN));

    if (of && r->s.trainer.len)
        json_object_set_new(of, "trainer_sha256", json_string(r->s.trainer.hex));
    if (of && r->s.settings.accumulate > 1)
        json_object_set_new(of, "accumulate", json_integer(r->s.settings.accumulate));
    for (size_t i = 0; set && of && i < sizeof keys / sizeof *keys; i++)
        json_object_set(of, keys[i], json_object_get(set, keys[i]));
    json_decref(set);
    return of;
}

/* Before the simulation, takes the times in the file of --measured; afterwards (is_over), adds the measured
 * ones. In both cases the options of the simulation then have the times, as if they had been given. */
static int use_measured(struct simulation_run *r, bool is_over, struct err *e)
{
    const char *file = r->opt.measured;
    json_t *of;
    int rc;

    if (!file[0] || r->opt.simulation.gradients > 0)
        return 0;
    of = measured_settings(r);
    if (!of)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = (is_over && measured_keep(file, of, r->summary, e) < 0) ||
                 measured_take(&r->opt.simulation, file, of, e) < 0
             ? e->code
             : 0;
    json_decref(of);
    return rc;
}

static uint64_t count_of(const json_t *o, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(o, key));
}

static void text_of(char *out, size_t size, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    snprintf(out, size, "%s", text ? text : "");
}

static void take_node(struct job_node *n, const json_t *o, int64_t steps)
{
    struct progress_view *p = &n->view.progress;
    char state[16];

    progress_view_init(p);
    n->at.node = (int)json_integer_value(json_object_get(o, "node"));
    snprintf(n->at.address, sizeof n->at.address, "simulated");
    text_of(state, sizeof state, o, "state");
    n->view.state = strcmp(state, "succeeded") == 0 ? JOB_SUCCEEDED : JOB_FAILED;
    text_of(n->view.reason, sizeof n->view.reason, o, "reason");
    text_of(n->view.message, sizeof n->view.message, o, "message");
    n->view.elapsed_s = json_number_at(o, "elapsed_s", NAN);
    p->step = json_integer_value(json_object_get(o, "step"));
    p->steps = steps;
    p->loss = json_number_at(o, "loss", NAN);
    p->accuracy = json_number_at(o, "accuracy", NAN);
    p->eval_loss = json_number_at(o, "eval_loss", NAN);
    p->eval_accuracy = json_number_at(o, "eval_accuracy", NAN);
    comm_update(&p->comm, json_object_get(o, "comm"));
    stop_parse(&p->stopped, json_object_get(o, "stopped"));
    text_of(p->params_sha256, sizeof p->params_sha256, o, "params_sha256");
    p->combined_nothing = json_is_true(json_object_get(o, "combined_nothing"));
}

static int take_nodes(struct simulation_run *r, struct err *e)
{
    struct submission *s = &r->s;
    const json_t *nodes = json_object_get(r->summary, "nodes");
    const json_t *cause = json_object_get(r->summary, "cause");
    size_t n = json_array_size(nodes);

    s->nodes = calloc(n ? n : 1, sizeof *s->nodes);
    if (!s->nodes)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);
    s->n_nodes = n;
    for (size_t i = 0; i < n; i++) {
        take_node(&s->nodes[i], json_array_get(nodes, i), (int64_t)settings_steps(&s->settings));
        if (json_is_integer(cause) && json_integer_value(cause) == s->nodes[i].at.node)
            s->cause = (int)i;
    }
    s->state = json_is_true(json_object_get(r->summary, "succeeded")) ? JOB_SUCCEEDED : JOB_FAILED;
    s->is_complete = true;
    return 0;
}

static int keep_results(struct simulation_run *r, struct err *e)
{
    struct submission *s = &r->s;
    json_t *run;

    for (int i = 0; i < N_ARTIFACTS; i++)
        if ((artifacts[i].kind == ARTIFACT_IS_RECORDS || artifacts[i].kind == ARTIFACT_IS_MODEL) &&
            results_list(s, artifacts[i].path, e) < 0 && e->code != ERR_NOT_FOUND)
            return e->code;
    json_object_del(r->summary, "nodes"); /* run.json lists them like those of a job */
    json_object_set_new(
        s->facts, "simulation",
        json_pack("{s:o, s:O}", "options", simulation_json(&r->opt.simulation), "result", r->summary));
    if (report_page_add(s, e) < 0 || run_json_write(s, e) < 0)
        return e->code;
    run = run_json(s);
    export_write(s, run);
    json_decref(run);
    return 0;
}

static void show_results(const struct simulation_run *r)
{
    const struct submission *s = &r->s;
    const struct job_node *n = s->cause >= 0 ? &s->nodes[s->cause] : NULL;
    char simulated[TEXT_AMOUNT], took[TEXT_AMOUNT];

    if (n)
        console_error("Simulation %s: node(%d), %s: %s", job_state_name(s->state), n->at.node, n->view.reason,
                      n->view.message);
    verb_show_run(s->state == JOB_SUCCEEDED, s);
    if (s->opt->json)
        return;
    if (json_is_object(json_object_get(r->summary, "search"))) {
        show_search(r, json_object_get(r->summary, "search"));
        return;
    }
    printf("\nSimulated %s in %s: %llu messages, %.0f a second. A step takes %.6g s.\n",
           text_seconds(simulated, json_number_at(r->summary, "sim_time_s", NAN)),
           text_seconds(took, json_number_at(r->summary, "wall_s", NAN)),
           (unsigned long long)count_of(r->summary, "messages"),
           json_number_at(r->summary, "messages_per_s", NAN), json_number_at(r->summary, "step_time_s", NAN));
    if (count_of(r->summary, "left_out") > 0)
        printf("%llu non-finite gradients or updates were skipped.\n",
               (unsigned long long)count_of(r->summary, "left_out"));
    if (s->state == JOB_SUCCEEDED)
        printf("The workers' weights are %s%s.\n",
               json_is_true(json_object_get(r->summary, "models_agree")) ? "equal" : "different",
               json_is_true(json_object_get(r->summary, "models_are_finite")) ? ""
                                                                              : ", and not all are finite");
}

static int run_simulation(struct simulation_run *r, struct err *e)
{
    struct submission *s = &r->s;

    if (temp_open(&r->packages, e) < 0 || prepare_run(r, e) < 0 || use_measured(r, false, e) < 0 ||
        put_packages(r, e) < 0 || export_prepare(s, e) < 0)
        return e->code;
    if (results_begin(s, e) < 0 || run_json_save(s, e) < 0 || run_simulator(r, e) < 0 ||
        use_measured(r, true, e) < 0 || take_nodes(r, e) < 0 || keep_results(r, e) < 0)
        return e->code;
    show_results(r);
    return s->state == JOB_SUCCEEDED && !s->is_complete ? EXIT_INCOMPLETE
           : s->state == JOB_SUCCEEDED                  ? 0
                                                        : EXIT_JOB_FAILED;
}

/* Calls `work` with a run that has these options. */
static int call_with_run(int (*work)(struct simulation_run *r, struct err *e), const struct options *o,
                         struct err *e)
{
    struct simulation_run *r = calloc(1, sizeof *r);
    int rc;

    if (!r)
        return err_set(e, ERR_NOMEM, "no memory");
    r->opt = *o;
    rc = submission_init(&r->s, &r->opt, e) < 0 ? e->code : work(r, e);
    json_decref(r->summary);
    submission_clear(&r->s);
    if (r->packages.path[0])
        temp_close(&r->packages);
    free(r);
    return rc;
}

int verb_simulate(const struct options *o, struct err *e)
{
    if (verb_check_arguments(o, e) < 0)
        return e->code;
    options_echo_preset(o);
    return call_with_run(run_simulation, o, e);
}

int verb_simulate_check(const struct options *o, struct err *e)
{
    return call_with_run(prepare_run, o, e);
}
