#include "agent/options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/codec_policy.h"
#include "shared/suggest.h"
#include "shared/worker.h"

const char agent_usage[] =
    "usage: agent [--port N] [--bind ADDRESS] [--dir DIR] [options]\n"
    "\n"
    "Waits for jobs and runs their nodes on this machine.\n"
    "\n"
    "  --port N            listen there (15387; 0: any free port)\n"
    "  --bind ADDRESS      listen on this address only (127.0.0.1)\n"
    "  --data-bind ADDRESS where nodes of other machines reach this one's (the same as --bind)\n"
    "  --dir DIR           state, packages, results and the token\n"
    "                      ($XDG_STATE_HOME/psgd/agent-PORT, else ~/.local/state/psgd/agent-PORT)\n"
    "  --allow-host NAME   another name this agent is asked for by; may be repeated\n"
    "  --token-file FILE   the token (DIR/token, made at the first start)\n"
    "  --no-token          ask for none: on loopback addresses only, and any user of this machine may "
    "submit\n"
    "  --insecure-no-tls   listen beyond loopback, where token and results can be read on the way\n"
    "  --queue N           jobs that may wait (16)\n"
    "  --keep N            ended jobs that are kept (64)\n"
    "  --blob-limit N      GiB of packages kept for the next job (16)\n"
    "  --codecs WORD       which may run here: builtin, allowlist (also what --codec-list has), any\n"
    "                      (any where only loopback addresses are listened on, else allowlist)\n"
    "  --codec-list FILE   SHA-256 digests of codecs, objects or sources, one a line (DIR/codecs.allow);\n"
    "                      a source that is listed is compiled here: sha256sum my.c >>DIR/codecs.allow\n"
    "  --job-memory N      GiB that a node's process may take (80 % of the machine's memory; 0: no limit)\n"
    "  --leave-running     at a clean stop let running jobs go on; the next agent on DIR takes them up\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n"
    "\n"
    "Exit status: 0 stopped by SIGTERM or SIGINT, 2 wrong usage, 7 would be insecure (as with a token\n"
    "file that others can read), 71 a port, an address or the folder cannot be had.\n";

enum kind { FLAG, NUMBER, TEXT, POLICY, HOSTS };

#define AT(member) offsetof(struct agent_options, member), sizeof((struct agent_options *)0)->member

static const struct option_row {
    const char *name;
    enum kind kind;
    size_t offset, size;
    int min, max;
} rows[] = {
    {"port", NUMBER, AT(port), 0, 65535},
    {"bind", TEXT, AT(bind), 0, 0},
    {"data-bind", TEXT, AT(data_bind), 0, 0},
    {"dir", TEXT, AT(dir), 0, 0},
    {"allow-host", HOSTS, AT(allow_hosts), 0, 0},
    {"token-file", TEXT, AT(token_file), 0, 0},
    {"no-token", FLAG, AT(no_token), 0, 0},
    {"insecure-no-tls", FLAG, AT(insecure_no_tls), 0, 0},
    {"queue", NUMBER, AT(queue), 0, 10000},
    {"keep", NUMBER, AT(keep), 1, 100000},
    {"blob-limit", NUMBER, AT(blob_limit_gib), 1, 1 << 20},
    {"codecs", POLICY, AT(codecs), 0, 0},
    {"codec-list", TEXT, AT(codec_list), 0, 0},
    {"job-memory", NUMBER, AT(job_memory_gib), 0, 1 << 20},
    {"leave-running", FLAG, AT(leave_running), 0, 0},
    {"help", FLAG, AT(wants_help), 0, 0},
    {"version", FLAG, AT(wants_version), 0, 0},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int unknown(const char *word, struct err *e)
{
    const char *names[N_ROWS + 1] = {0};
    const char *near;

    for (size_t i = 0; i < N_ROWS; i++)
        names[i] = rows[i].name;
    near = suggest(word, names);
    err_set(e, ERR_USAGE, "unknown option --%s%s%s%s", word, near ? "; did you mean --" : "",
            near ? near : "", near ? "?" : "");
    return err_hint(e, "agent --help lists the options.");
}

static int fill_policy(int *out, const char *value, struct err *e)
{
    const char *near = suggest(value, codec_policy_words);

    for (int i = 0; codec_policy_words[i]; i++)
        if (strcmp(codec_policy_words[i], value) == 0) {
            *out = i;
            return 0;
        }
    return err_set(e, ERR_USAGE, "--codecs: \"%s\" is not builtin, allowlist or any%s%s%s", value,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int fill(struct agent_options *out, const struct option_row *row, const char *value, struct err *e)
{
    char *at = (char *)out + row->offset;
    char *end;
    long n;

    switch (row->kind) {
    case FLAG:
        *(bool *)at = true;
        return 0;
    case NUMBER:
        n = strtol(value, &end, 10);
        if (*end || end == value || n < row->min || n > row->max)
            return err_set(e, ERR_USAGE, "--%s: \"%s\" is not a number from %d to %d", row->name, value,
                           row->min, row->max);
        *(int *)at = (int)n;
        return 0;
    case TEXT:
        if (!value[0] || strlen(value) >= row->size)
            return err_set(e, ERR_USAGE, "--%s: empty or longer than %zu characters", row->name,
                           row->size - 1);
        memcpy(at, value, strlen(value) + 1);
        return 0;
    case POLICY:
        return fill_policy((int *)at, value, e);
    case HOSTS:
        for (size_t i = 0; i < ALLOW_HOSTS_MAX; i++)
            if (!out->allow_hosts[i]) {
                out->allow_hosts[i] = value;
                return 0;
            }
        return err_set(e, ERR_USAGE, "--allow-host: more than %d names", ALLOW_HOSTS_MAX);
    }
    return 0;
}

/* "--name", "--name=value", "--name value". Returns how many words were taken, or an error. */
static int take(struct agent_options *out, char **words, struct err *e)
{
    const char *text = words[0] + 2, *eq = strchr(text, '=');
    const struct option_row *row = NULL;
    char name[64];
    bool has_next = words[1] != NULL;
    int rc;

    snprintf(name, sizeof name, "%.*s", eq ? (int)(eq - text) : (int)strlen(text), text);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '-';
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            row = &rows[i];
    if (!row)
        return unknown(name, e);
    if (row->kind == FLAG && eq)
        return err_set(e, ERR_USAGE, "--%s takes no value", name);
    if (row->kind != FLAG && !eq && !has_next)
        return err_set(e, ERR_USAGE, "--%s needs a value", name);
    rc = fill(out, row, row->kind == FLAG ? NULL : eq ? eq + 1 : words[1], e);
    return rc < 0 ? rc : row->kind == FLAG || eq ? 1 : 2;
}

int agent_options_parse(struct agent_options *out, int argc, char **argv, struct err *e)
{
    struct agent_options o = {.port = AGENT_PORT,
                              .bind = "127.0.0.1",
                              .queue = 16,
                              .keep = 64,
                              .blob_limit_gib = 16,
                              .codecs = -1,
                              .job_memory_gib = -1};
    int i = 1;

    while (i < argc) {
        int n = 1;

        if (strcmp(argv[i], "-h") == 0)
            o.wants_help = true;
        else if (strcmp(argv[i], "-V") == 0)
            o.wants_version = true;
        else if (strncmp(argv[i], "--", 2) == 0 && argv[i][2])
            n = take(&o, argv + i, e);
        else
            n = err_set(e, ERR_USAGE, "\"%s\" is not an option; agent --help lists them", argv[i]);
        if (n < 0)
            return n;
        i += n;
    }
    *out = o;
    return 0;
}
