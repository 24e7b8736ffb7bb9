#include "submit/results/why.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/job/job_folder.h"
#include "shared/job/job_state.h"
#include "shared/job/reason.h"
#include "shared/records/tensor_file.h"
#include "shared/records/weights.h"
#include "submit/files/job_id.h"
#include "submit/results/results.h"
#include "submit/terminal/text.h"

enum {
    NAMED_MOST = 4,
    NAMED = 3
}; /* of more than NAMED_MOST nodes, NAMED are named and the rest is counted */

static bool is_simulation(const json_t *run)
{
    return json_object_get(json_object_get(run, "facts"), "simulation") != NULL;
}

/* "node(1) at host:port"; in a simulation "node(1)". */
static void print_node(FILE *f, const json_t *run, const json_t *node)
{
    fprintf(f, "node(%d)", (int)json_integer_value(json_object_get(node, "node")));
    if (!is_simulation(run))
        fprintf(f, " at %s", json_text_at(node, "address"));
}

/* The node that caused the state; NULL: none did. */
static const json_t *find_cause(const json_t *run)
{
    const json_t *cause = json_object_get(run, "cause_node"), *node;
    size_t i;

    json_array_foreach(
        json_object_get(run, "nodes"), i,
        node) if (json_is_integer(cause) &&
                  json_equal(json_object_get(node, "node"), (json_t *)(uintptr_t)cause)) return node;
    return NULL;
}

/* Did the runner die of a signal that a fault of its code causes? The agent's message has the signal. */
static bool is_crash(const json_t *run)
{
    static const int from_outside[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
    const char *at = strstr(json_text_at(run, "message"), "killed by signal ");

    if (!at || strcmp(json_text_at(run, "reason"), REASON_RUNNER_DIED) != 0)
        return false;
    for (size_t i = 0; i < sizeof from_outside / sizeof *from_outside; i++)
        if (atoi(at + strlen("killed by signal ")) == from_outside[i])
            return false;
    return true;
}

/* The argument of `codecs test` for the codec: its file, or the name of a built-in one. "": an executor. */
static const char *codec_text(const json_t *run)
{
    const json_t *facts = json_object_get(run, "facts"), *codec = json_object_get(facts, "codec");
    bool is_file = strchr(json_text_at(json_object_get(facts, "options"), "codec"), '/') != NULL;

    if (json_is_true(json_object_get(json_object_get(run, "settings"), "executor")))
        return "";
    return json_text_at(codec, is_file ? "file" : "name");
}

static void print_cause(FILE *f, const json_t *run, const json_t *cause)
{
    const char *reason = json_text_at(run, "reason"), *message = json_text_at(run, "message");
    const char *meaning = reason_meaning(reason);

    print_node(f, run, cause);
    fprintf(f, " ended with %s", reason);
    if (meaning)
        fprintf(f, " (%s)", meaning);
    if (message[0])
        fprintf(f, ": %s%s", message,
                is_crash(run) && codec_text(run)[0] ? ", as by an error of the codec" : "");
}

static bool is_consequence(const json_t *node, const json_t *cause)
{
    enum job_state state;

    return node != cause && job_state_parse(&state, json_text_at(node, "state")) &&
           job_state_is_terminal(state) && state != JOB_SUCCEEDED;
}

/* The other nodes that did not succeed, with their reasons. */
static void print_consequences(FILE *f, const json_t *run, const json_t *cause)
{
    const json_t *nodes = json_object_get(run, "nodes"), *node;
    size_t i, n = 0, n_named, k = 0;

    json_array_foreach(nodes, i, node) n += is_consequence(node, cause);
    n_named = n > NAMED_MOST ? NAMED : n;
    json_array_foreach(nodes, i, node)
    {
        if (!is_consequence(node, cause) || k == n_named)
            continue;
        fprintf(f, "%s node(%d) (%s)", k++ ? "," : "; in consequence ended",
                (int)json_integer_value(json_object_get(node, "node")), json_text_at(node, "reason"));
    }
    if (n > n_named)
        fprintf(f, " and %zu more", n - n_named);
}

/* The least advanced node of a job that has not ended. */
static void print_present(FILE *f, const json_t *run)
{
    const json_t *node;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node)
    {
        const char *reason = json_text_at(node, "reason"), *message = json_text_at(node, "message");

        if (strcmp(json_text_at(node, "state"), json_text_at(run, "state")) != 0)
            continue;
        fputs(": ", f);
        print_node(f, run, node);
        fprintf(f, "%s%s%s%s", reason[0] ? ", " : "", reason, message[0] ? ", " : "", message);
        return;
    }
}

/* The node on which the job waits, as its first waiting node reports. */
static void print_wait(FILE *f, const json_t *run)
{
    const json_t *node, *other;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node)
    {
        other = json_object_get(node, "waits_for");
        if (!json_is_integer(other) || strcmp(json_text_at(node, "state"), job_state_name(JOB_RUNNING)) != 0)
            continue;
        fprintf(f, "; it waits for node(%d)", (int)json_integer_value(other));
        return;
    }
}

/* The attempts that have failed before this one. */
static void print_attempts(FILE *f, const json_t *run)
{
    const json_t *attempts = json_object_get(json_object_get(run, "facts"), "attempts"), *one;
    size_t n = json_array_size(attempts), n_named = n > NAMED_MOST ? NAMED : n, i;

    if (n > 0)
        fprintf(f, "; it is attempt %zu", n + 1);
    json_array_foreach(attempts, i, one)
    {
        if (i == n_named)
            break;
        fprintf(f, "%s %d (node(%d): %s)", i == 0 ? ", after" : ",",
                (int)json_integer_value(json_object_get(one, "attempt")),
                (int)json_integer_value(json_object_get(one, "node")), json_text_at(one, "reason"));
    }
    if (n > n_named)
        fprintf(f, " and %zu more", n - n_named);
}

static void print_sentence(FILE *f, const json_t *run, enum job_state state)
{
    const json_t *cause = find_cause(run);

    fprintf(f, "%s%s ", is_simulation(run) ? "simulation " : "", json_text_at(run, "id"));
    if (state == JOB_SUCCEEDED)
        fputs("succeeded: all its nodes finished", f);
    else if (!job_state_is_terminal(state) && is_simulation(run))
        fputs("has not ended: its simulator is running, or was killed", f);
    else if (!job_state_is_terminal(state))
        fprintf(f, "is %s", job_state_name(state));
    else
        fputs(state == JOB_CANCELLED ? "was cancelled" : "failed", f);
    if (!job_state_is_terminal(state) && !is_simulation(run)) {
        print_present(f, run);
        print_wait(f, run);
    }
    if (cause && job_state_is_terminal(state)) {
        fputs(" because ", f);
        print_cause(f, run, cause);
        print_consequences(f, run, cause);
    }
    print_attempts(f, run);
}

static bool has_file(const json_t *run, const char *prefix)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(run, "files"), i, file) if (strncmp(json_text_at(file, "name"), prefix,
                                                                           strlen(prefix)) == 0) return true;
    return false;
}

/* The epoch of the first worker's last checkpoint; -1: there is none. */
static long checkpoint_epoch(const json_t *run)
{
    char name[64], path[PATH_MAX];
    struct tensor_file f;
    struct err ignored;
    long epoch = -1;

    checkpoint_file_name(name, 0, "");
    if (!has_file(run, name) ||
        file_join(path, sizeof path, json_text_at(run, "folder"), name, &ignored) < 0 ||
        tensor_file_open(&f, path, &ignored) < 0)
        return -1;
    if (weights_is_checkpoint(&f) && tensor_file_meta(&f, "epoch"))
        epoch = strtol(tensor_file_meta(&f, "epoch"), NULL, 10);
    tensor_file_close(&f);
    return epoch;
}

/* out: the path in the folder of the log of the node that caused the end; "": the folder lacks it. */
static void log_name(char out[64], const json_t *run, const json_t *cause)
{
    int node = (int)json_integer_value(json_object_get(cause, "node"));

    out[0] = '\0';
    if (!cause)
        return;
    snprintf(out, 64, node < 0 ? "logs/ps-%d.log" : "logs/worker-%d.log", node < 0 ? -2 - node : node);
    if (!has_file(run, out))
        out[0] = '\0';
}

/* Did the job end because this node's agent did not answer? job_submit wrote the message. */
static bool is_silent(const json_t *run, const json_t *cause)
{
    return cause && strcmp(json_text_at(run, "reason"), REASON_NODE_LOST) == 0 &&
           strstr(json_text_at(run, "message"), "does not answer");
}

static void print_kept(FILE *f, const json_t *run, long epoch)
{
    const json_t *cause = find_cause(run);
    char log[64];

    if (!has_file(run, "records/")) {
        fputs(is_simulation(run) ? "no records" : "its records are on its agents", f);
        return;
    }
    fputs("its records", f);
    if (has_file(run, "model/"))
        fputs(", its model", f);
    if (has_file(run, "output/"))
        fputs(", its output", f);
    if (epoch >= 0)
        fprintf(f, ", checkpoints of epoch %ld", epoch);
    fprintf(f, " are in %s", json_text_at(run, "folder"));
    log_name(log, run, cause);
    if (is_silent(run, cause) && !log[0])
        fprintf(f, "; the log of node(%d) is on its agent, which did not answer: start the agent at %s again",
                (int)json_integer_value(json_object_get(cause, "node")), json_text_at(cause, "address"));
}

/* Has the job failed as Python lacks a module there? The message of a runner (runner/monitor/) ends with the
 * interpreter in brackets. Both point into the message, and have that length. */
static bool lacks_module(const json_t *run, const char **module, int *n_module, const char **python,
                         int *n_python)
{
    static const char words[] = "No module named '";
    const char *message = json_text_at(run, "message"), *at = strstr(message, words);

    if (strcmp(json_text_at(run, "reason"), REASON_TRAINER_FAILED) != 0 || !at)
        return false;
    *module = at + strlen(words);
    *n_module = (int)strcspn(*module, ".'");
    *python = strstr(*module, " (/");
    *python = *python ? *python + 2 : "Python";
    *n_python = (int)strcspn(*python, ")");
    return true;
}

/* The checkpoint of the node that caused the end is on its agent. */
static bool lacks_checkpoint(const json_t *run, const json_t *cause)
{
    char name[64];

    checkpoint_file_name(name, (int)json_integer_value(json_object_get(cause, "node")), "");
    return is_silent(run, cause) && !has_file(run, name);
}

/* out: the job folder in which the results lie; false: they lie elsewhere, as those of a job on agents. */
static bool find_job_folder(char out[PATH_MAX], const json_t *run)
{
    char *end;

    snprintf(out, PATH_MAX, "%s", json_text_at(run, "folder"));
    end = strrchr(out, '/');
    if (!end || end == out)
        return false;
    *end = '\0';
    return job_folder_is(out);
}

/* The next command after a job that failed or was cancelled, and whose results are in the folder. */
static void print_remedy(FILE *f, const json_t *run, long epoch)
{
    const json_t *cause = find_cause(run);
    const char *folder = json_text_at(run, "folder");
    char quoted[PATH_MAX], path[PATH_MAX], log[64];
    const char *module, *python;
    int n_module, n_python;
    struct err ignored;

    log_name(log, run, cause);
    if (is_crash(run) && codec_text(run)[0])
        fprintf(f, "job_submit codecs test %s", text_shell_quote(quoted, sizeof quoted, codec_text(run)));
    else if (lacks_module(run, &module, &n_module, &python, &n_python))
        fprintf(f, "install %.*s for %.*s at %s, or start its agent with --trainer-python", n_module, module,
                n_python, python, json_text_at(cause, "address"));
    else if (epoch >= 0 && lacks_checkpoint(run, cause))
        fprintf(f, "start the agent at %s again, then job_submit fetch %s && job_submit --resume %s",
                json_text_at(cause, "address"), json_text_at(run, "id"),
                text_shell_quote(quoted, sizeof quoted, folder));
    else if (epoch >= 0 && find_job_folder(path, run))
        fprintf(f, "job_submit resume %s", text_shell_quote(quoted, sizeof quoted, path));
    else if (epoch >= 0)
        fprintf(f, "job_submit --resume %s", text_shell_quote(quoted, sizeof quoted, folder));
    else if (log[0] && file_join(path, sizeof path, folder, log, &ignored) == 0)
        fprintf(f, "tail %s", text_shell_quote(quoted, sizeof quoted, path));
    else if (is_silent(run, cause))
        fputs("job_submit doctor", f);
    else
        fprintf(f, "job_submit logs %s", json_text_at(run, "id"));
}

/* The next command. It names the folder, if there is one, because a simulation and a job of another user are
 * not in this user's index. */
static void print_next(FILE *f, const json_t *run, enum job_state state, long epoch)
{
    bool is_crashed = state == JOB_FAILED && is_crash(run) && codec_text(run)[0];
    char quoted[PATH_MAX];

    text_shell_quote(quoted, sizeof quoted, json_text_at(run, "folder"));
    if (is_simulation(run) && !is_crashed) /* the user can add other options */
        fprintf(f, "job_submit simulate --config %s/run.json", quoted);
    else if (!job_state_is_terminal(state))
        fprintf(f, "job_submit wait %s", json_text_at(run, "id"));
    else if (!has_file(run, "records/") && !is_simulation(run))
        fprintf(f, "job_submit fetch %s", json_text_at(run, "id"));
    else if (state == JOB_SUCCEEDED)
        fprintf(f, "job_submit rerun %s", quoted);
    else
        print_remedy(f, run, epoch);
}

static int put_texts(json_t *o, const json_t *run, enum job_state state, struct err *e)
{
    static const char *const keys[] = {"why", "kept", "next"};
    long epoch = checkpoint_epoch(run);

    for (int i = 0; i < 3; i++) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        int rc;

        if (!f)
            return err_set(e, ERR_NOMEM, "no memory");
        if (i == 0)
            print_sentence(f, run, state);
        else if (i == 1)
            print_kept(f, run, epoch);
        else
            print_next(f, run, state, epoch);
        rc = fclose(f);
        if (rc == 0) { /* a single line, whatever messages it quotes */
            utf8_clean(text, size, false);
            rc = json_object_set_new(o, keys[i], json_text(text, SIZE_MAX));
        }
        free(text);
        if (rc < 0)
            return err_set(e, ERR_NOMEM, "no memory");
    }
    return 0;
}

int why_json(json_t **out, const json_t *run, struct err *e)
{
    const char *meaning = reason_meaning(json_text_at(run, "reason"));
    enum job_state state;

    if (!job_id_is_valid(json_text_at(run, "id")) || !job_state_parse(&state, json_text_at(run, "state")))
        return err_set(e, ERR_CONFIG, "no job with a state");
    *out = json_pack("{s:O, s:O, s:O?, s:O?, s:s?, s:O?}", "id", json_object_get(run, "id"), "state",
                     json_object_get(run, "state"), "cause_node", json_object_get(run, "cause_node"),
                     "reason", json_object_get(run, "reason"), "meaning", meaning, "message",
                     json_object_get(run, "message"));
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory");
    if (put_texts(*out, run, state, e) == 0)
        return 0;
    json_decref(*out);
    *out = NULL;
    return e->code;
}
