#include "submit/codecs/codec_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "shared/plugin/codec_layer.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/combine_path.h"

static const double LOAD_MAX_S = 10;

struct probe_report {
    struct codec_facts facts;
    struct err e; /* code 0: the facts are valid */
};

/* Prints `doc` to `out` and frees it. */
static int print_document(char *out, size_t size, json_t *doc, struct err *e)
{
    char *text = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    int rc = 0;

    if (!text)
        rc = err_set(e, ERR_NOMEM, "no memory for a codec's parameters");
    else if (snprintf(out, size, "%s", text) >= (int)size)
        rc = err_set(e, ERR_CODEC, "its table of parameters is longer than %zu characters", size - 1);
    free(text);
    json_decref(doc);
    return rc;
}

/* The list has the rule's own options, then those that the host adds. */
static int look_at_options(struct codec_facts *f, const struct codec_plugin *p, const char *text,
                           struct err *e)
{
    struct codec_common common = {0};
    void *state = calloc(1, p->state_size + 1);
    const struct codec_options sets[] = {{p->options, state}, {codec_common_of(p), &common}};
    json_t *all = codec_options_list(p->options), *own = codec_options_list(codec_common_of(p));
    int rc = 0;

    if (!state || !all || !own)
        rc = err_set(e, ERR_NOMEM, "no memory for a codec's parameters");
    json_array_extend(all, own);
    json_decref(own);
    if (rc == 0)
        rc = codec_options_set(sets, 2, text, e);
    if (rc == 0)
        rc = codec_options_text(f->options, sizeof f->options, &sets[0], e);
    if (rc == 0)
        rc = print_document(f->values, sizeof f->values, codec_options_values(&sets[0]), e);
    if (rc == 0)
        rc = print_document(f->list, sizeof f->list, json_incref(all), e);
    json_decref(all);
    free(state);
    f->every = common.every;
    return rc;
}

static void read_facts(struct probe_report *r, const char *path, const char *options)
{
    struct codec_facts *f = &r->facts;
    struct codec_library l;
    const struct codec_plugin *p;

    if (codec_library_open(&l, path, &r->e) < 0)
        return;
    p = l.plugin;
    r->e.code = 0;
    f->has_events = codec_more(p)->events != NULL;
    snprintf(f->name, sizeof f->name, "%s", p->name);
    snprintf(f->source, sizeof f->source, "%s", p->source ? p->source : "");
    snprintf(f->equation, sizeof f->equation, "%s", p->equation ? p->equation : "");
    snprintf(f->cost, sizeof f->cost, "%s", codec_more(p)->cost ? codec_more(p)->cost : "");
    f->updates_on_server = codec_more(p)->updates_on_server;
    f->has_open = p->open != NULL;
    f->sees_evaluations = codec_more(p)->on_evaluation != NULL;
    f->has_local_steps = codec_common_of(p) != NULL;
    f->collects = codec_more(p)->events && codec_more(p)->events->on_collective;
    f->uses_blocks = codec_more(p)->events && codec_more(p)->events->on_block;
    f->changes_grads = p->combine && p->combine->on_gradient;
    f->ends_equal = codec_result(p) != CODEC_OWN_RESULT;
    f->compression = combine_path_compression(p);
    f->limits = codec_limits(p);
    f->state_size = p->state_size;
    f->combines = p->combine != NULL;
    if (p->combine) {
        f->overlaps = codec_more(p)->overlaps;
        f->sums = p->combine->reduction == CODEC_SUM;
        f->combines_params = combine_path_rule_of(p).combines_params;
        f->applies = p->combine->apply;
        f->adopts = p->combine->adopt;
        f->n_vectors = p->combine->n_vectors > 0 ? p->combine->n_vectors : 1;
        f->n_numbers = p->combine->n_numbers;
        f->says_contribution = p->combine->contribute;
        f->has_weights = p->combine->contribute || p->combine->when == CODEC_EACH_ROUND;
        f->has_reply = f->has_adopt = !(p->limits & CODEC_NO_SERVERS);
        f->sends_grads = p->combine->when == CODEC_EACH_STEP;
        f->sends_params = !f->sends_grads;
        f->per_block = f->sends_grads && !p->combine->contribute;
    } else if (codec_more(p)->round) {
        f->has_reply = codec_more(p)->round->reply != NULL;
        f->has_adopt = codec_more(p)->round->adopt != NULL;
        f->per_block = codec_more(p)->round->per_block;
        f->sends_grads = codec_more(p)->round->before_update;
        f->sends_params = !codec_more(p)->round->before_update;
    } else {
        f->sends_grads = codec_more(p)->events->on_grad != NULL;
        f->sends_params = codec_more(p)->events->on_step != NULL;
        f->is_quiescent_between_steps = codec_more(p)->events->is_quiescent_between_steps;
    }
    look_at_options(f, p, options, &r->e);
}

/* State of the one check that a process runs. */
static struct {
    const struct open_check *t;
    struct rng rng;
    uint64_t seed;
    size_t bytes; /* allocated */
    char why[512];
    bool has_refused;
} check;

/* Allocates memory, which the process frees when it ends. NULL: more than a check may use. */
static void *check_alloc(size_t n, size_t size)
{
    void *p = size > 0 && n <= (OPEN_CHECK_BYTES_MAX - check.bytes) / size ? calloc(n ? n : 1, size) : NULL;

    check.bytes += p ? n * size : 0;
    return p;
}

static int check_zeros(struct codec *c, float **at, size_t n)
{
    (void)c;
    *at = check_alloc(n, sizeof **at);
    return *at ? CODEC_GO : ERR_NOMEM;
}

static int check_array(struct codec *c, void *at, size_t n, size_t size)
{
    void *p = check_alloc(n, size);

    (void)c;
    memcpy(at, &p, sizeof p);
    return p ? CODEC_GO : ERR_NOMEM;
}

static void check_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    (void)c;
    rng_common(out, n, check.seed, key);
}

static int check_link(struct codec *c, int worker)
{
    (void)c, (void)worker;
    return CODEC_GO;
}

static float check_uniform(struct codec *c)
{
    (void)c;
    return rng_uniform(&check.rng);
}

static int check_fail(struct codec *c, const char *fmt, ...)
{
    va_list ap;

    (void)c;
    va_start(ap, fmt);
    vsnprintf(check.why, sizeof check.why, fmt, ap);
    va_end(ap);
    check.has_refused = true;
    return ERR_CODEC;
}

static void check_log(struct codec *c, const char *fmt, ...)
{
    (void)c;
    (void)fmt;
}

static bool check_holds(const struct codec *c, int block, int worker)
{
    return block >= 0 && block < c->run->n_blocks && worker >= 0 && worker < c->n_workers &&
           blocks_holds(check.t->blocks, block, worker);
}

static const struct codec_host host = {.zeros = check_zeros,
                                       .uniform = check_uniform,
                                       .log = check_log,
                                       .holds = check_holds,
                                       .array = check_array,
                                       .common = check_common,
                                       .link = check_link};

/* Lists the trained tensors, or the running statistics, in the order of the parameters. */
static int list_layers(struct codec_layer *layers, int n, bool is_statistic, const struct model_spec *m)
{
    for (int i = 0; i < m->n_tensors; i++) {
        const struct model_tensor *t = &m->tensors[i];

        if (t->is_statistic == is_statistic)
            layers[n++] = codec_layer_of(t->name, t->shape, t->n_dims, t->offset, is_statistic);
    }
    return n;
}

/* A rule that combines does not see running statistics. */
static bool show_model(struct codec *c, const struct codec_plugin *p, const struct model_spec *m)
{
    static struct codec_layer layers[MODEL_TENSORS_MAX];

    c->run->n_layers = list_layers(layers, 0, false, m);
    if (!p->combine)
        c->run->n_layers = list_layers(layers, c->run->n_layers, true, m);
    c->run->layers = layers;
    c->n_params = p->combine ? m->n_trained : m->n_params;
    c->params = check_alloc(m->n_params, sizeof(float));
    c->grads = check_alloc(m->n_params, sizeof(float));
    for (size_t i = 0; c->params && i < m->n_params; i++)
        c->params[i] = 0.01f;
    return c->params && c->grads;
}

static bool make_state(struct codec *c, const struct codec_plugin *p)
{
    bool is_made = true;

    if (p->combine)
        is_made = (c->numbers = check_alloc(CODEC_NUMBERS_MAX, sizeof(float))) != NULL;
    if (p->combine && p->combine->keeps_global) {
        is_made = is_made && (c->global = check_alloc(c->n_params, sizeof(float))) != NULL;
        if (is_made)
            memcpy(c->global, c->params, c->n_params * sizeof *c->global);
    }
    for (const size_t *at = p->vectors; is_made && at && *at != SIZE_MAX; at++)
        is_made = (*(float **)(void *)((char *)c->state + *at) = check_alloc(c->n_params, sizeof(float))) !=
                  NULL;
    return is_made;
}

static int run_open_check(const struct codec_plugin *p, const char *options, const struct open_check *t,
                          struct err *e)
{
    const struct settings *set = t->set;
    struct codec_run run = {.node = t->is_of_servers ? -2 : 0,
                            .n_servers = set->server_count,
                            .server = set->server_count > 0 ? -2 : 0,
                            .n_blocks = t->blocks->n_blocks,
                            .redundancy = set->redundancy,
                            .n_steps = settings_steps(set),
                            .block = -1,
                            .loss = NAN,
                            .evaluation = {.loss = NAN, .accuracy = NAN},
                            .host = &host,
                            .lr_factor = 1};
    struct codec c = {.n_workers = set->node_count,
                      .is_sync = set->sync == SYNC_SSGD,
                      .fail_with = check_fail,
                      .run = &run};

    if (!p->open)
        return 0;
    check.t = t;
    check.bytes = 0;
    check.has_refused = false;
    rng_init(&check.rng, set->seed, 0, 0);
    check.seed = set->seed;
    c.state = calloc(1, p->state_size + 1);
    if (!c.state)
        return 0;
    if (codec_options_set(&(struct codec_options){p->options, c.state}, 1, options, e) < 0)
        return e->code;
    if (show_model(&c, p, t->model) && make_state(&c, p) && p->open(&c) < 0 && check.has_refused)
        return err_set(e, ERR_CODEC, "codec %s: %s", p->name, check.why);
    return 0;
}

/* What the process does: look() inspects a codec or an executor, or calls the open() of a codec. */
struct probe {
    void (*look)(struct probe_report *r, const struct probe *p);
    const char *path, *options;
    const struct open_check *open;
};

static void look_at_codec(struct probe_report *r, const struct probe *p)
{
    read_facts(r, p->path, p->options);
}

static void look_at_executor(struct probe_report *r, const struct probe *p)
{
    struct codec_library l;

    if (codec_library_open_executor(&l, p->path, &r->e) < 0)
        return;
    r->e.code = 0;
    r->facts.is_executor = true;
    snprintf(r->facts.name, sizeof r->facts.name, "%s", l.executor->name);
}

static void try_open(struct probe_report *r, const struct probe *p)
{
    struct codec_library l;

    if (codec_library_open(&l, p->path, &r->e) < 0)
        return;
    r->e.code = 0;
    run_open_check(l.plugin, p->options, p->open, &r->e);
}

static void be_the_probe(int fd, const struct probe *p)
{
    static struct probe_report r = {.e.code = ERR_INTERNAL};

    p->look(&r, p);
    if (file_write_all(fd, &r, sizeof r, "probe", &(struct err){0}) < 0)
        _exit(1);
    _exit(0); /* exit() would flush buffers and remove files of job_submit */
}

/* Whether each flag is 0 or 1: to read a bool of another value is undefined behaviour. */
static bool are_flags(const struct codec_facts *f)
{
    const bool *const flags[] = {&f->is_executor,
                                 &f->combines,
                                 &f->has_weights,
                                 &f->says_contribution,
                                 &f->sums,
                                 &f->overlaps,
                                 &f->has_events,
                                 &f->has_reply,
                                 &f->has_adopt,
                                 &f->per_block,
                                 &f->sends_grads,
                                 &f->sends_params,
                                 &f->updates_on_server,
                                 &f->is_quiescent_between_steps,
                                 &f->has_open,
                                 &f->sees_evaluations,
                                 &f->ends_equal,
                                 &f->has_local_steps,
                                 &f->collects,
                                 &f->uses_blocks,
                                 &f->changes_grads};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (*(const unsigned char *)flags[i] > 1)
            return false;
    return true;
}

/* The reporting process ran the codec's code, which could write into the pipe, too: terminates every text
 * and checks every number that this program uses. */
static int check_codec(struct probe_report *r, const char *path, struct err *e)
{
    struct codec_facts *f = &r->facts;
    const struct {
        char *text;
        size_t size;
    } texts[] = {
        {f->name, sizeof f->name},         {f->source, sizeof f->source},   {f->cost, sizeof f->cost},
        {f->equation, sizeof f->equation}, {f->options, sizeof f->options}, {f->values, sizeof f->values},
        {f->list, sizeof f->list},         {r->e.text, sizeof r->e.text},   {r->e.hint, sizeof r->e.hint}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        texts[i].text[texts[i].size - 1] = '\0';
    if (r->e.code < 0) {
        *e = r->e;
        return e->code = r->e.code == ERR_CONFIG || r->e.code == ERR_NOMEM ? r->e.code : ERR_CODEC;
    }
    if (r->e.code != 0 || !codec_is_name(f->name) || !are_flags(f) ||
        (unsigned)f->compression > CODEC_COMPRESSION_MAX || (f->limits & ~(unsigned)CODEC_LIMITS_KNOWN))
        return err_set(e, ERR_CODEC,
                       "%s: loading it gave an invalid report: its own code has written to the report's pipe",
                       path);
    return 0;
}

/* Reads the whole report. False: the process ended, or the time was over, before it was complete. */
static bool await_report(struct probe_report *r, int fd)
{
    double until = clock_now() + LOAD_MAX_S;
    size_t n = 0;

    while (n < sizeof *r) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        double left = until - clock_now();
        int rc = left > 0 ? poll(&p, 1, (int)(left * 1e3) + 1) : 0;
        ssize_t k = rc > 0 ? read(fd, (char *)r + n, sizeof *r - n) : 0;

        if (rc < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        n += (size_t)k;
    }
    return true;
}

static int failed(struct child *c, const char *path, struct err *e)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    bool blocks = poll(&p, 1, 100) <= 0; /* its pipe closes shortly before it ends */
    int status = child_end(c, 0);

    if (blocks)
        return err_set(e, ERR_CODEC, "%s: loading it takes more than %g s: something in it blocks", path,
                       LOAD_MAX_S);
    if (WIFSIGNALED(status)) {
        err_set(e, ERR_CODEC, "%s: loading it killed the process (signal %d, %s)", path, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
        return err_hint(e, "Loading runs its constructors and reads its lists: does `options` end with {0}?");
    }
    return err_set(e, ERR_CODEC, "%s: loading it ended the process (status %d)", path, WEXITSTATUS(status));
}

/* ERR_CODEC: the process did not report; ERR_IO, ERR_NOMEM: it could not be started. */
static int probe(struct probe_report *r, const struct probe *p, struct err *e)
{
    struct child c;
    int fds[2];
    int rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    fflush(NULL);
    rc = child_fork(&c, true, e);
    if (rc > 0)
        be_the_probe(fds[1], p);
    close(fds[1]);
    if (rc == 0 && !await_report(r, fds[0]))
        rc = failed(&c, p->path, e);
    else if (rc == 0)
        child_end(&c, 0); /* it has reported, and is killed */
    close(fds[0]);
    return rc;
}

static int inspect(struct codec_facts *out, const struct probe *p, struct err *e)
{
    struct probe_report r;

    if (probe(&r, p, e) < 0 || check_codec(&r, p->path, e) < 0)
        return e->code;
    *out = r.facts;
    return 0;
}

int codec_probe(struct codec_facts *out, const char *path, const char *options, struct err *e)
{
    return inspect(out, &(struct probe){.look = look_at_codec, .path = path, .options = options}, e);
}

int executor_probe(struct codec_facts *out, const char *path, struct err *e)
{
    return inspect(out, &(struct probe){.look = look_at_executor, .path = path, .options = ""}, e);
}

int codec_probe_open(const char *path, const char *options, const struct open_check *t, struct err *e)
{
    struct probe_report r;
    int rc = probe(&r, &(struct probe){try_open, path, options, t}, e);

    if (rc == ERR_CODEC || (rc == 0 && r.e.code != ERR_CODEC))
        return 0;
    if (rc < 0)
        return rc;
    r.e.text[sizeof r.e.text - 1] = '\0';
    return err_set(e, ERR_CODEC, "%s", r.e.text);
}
