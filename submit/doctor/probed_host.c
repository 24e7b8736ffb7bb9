#include "submit/doctor/probed_host.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codecs/codec_events.h"
#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"

const char *level_name(enum level l)
{
    static const char *const names[] = {"ok", "warning", "error"};

    return names[l];
}

enum level probed_host_level(const struct probed_host *p)
{
    enum level worst = LEVEL_OK;

    for (size_t i = 0; i < p->n_findings; i++)
        if (p->findings[i].level > worst)
            worst = p->findings[i].level;
    return worst;
}

struct finding *probed_host_note(struct probed_host *p, enum level l, const char *check, const char *fix,
                                 const char *fmt, ...)
{
    struct finding *f = &p->findings[p->n_findings < FINDINGS_MAX ? p->n_findings++ : FINDINGS_MAX - 1];
    va_list ap;

    *f = (struct finding){.level = l, .check = check};
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    snprintf(f->fix, sizeof f->fix, "%s", l == LEVEL_OK || !fix ? "" : fix);
    return f;
}

void probed_host_fail(struct probed_host *p, const char *check, const struct err *e)
{
    probed_host_note(p, LEVEL_ERROR, check, e->hint, "%.*s", FINDING_TEXT - 1, e->text);
    if (!p->code)
        p->code = e->code;
}

static void get_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    snprintf(out, size, "%s", s ? s : "");
    utf8_clean(out, strlen(out), false);
}

static double get_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void read_runner(struct probed_host *p, const json_t *runner)
{
    get_text(p->engine, sizeof p->engine, runner, "engine");
    get_text(p->runner_error, sizeof p->runner_error, runner, "error");
    p->codec_abi = get_number(runner, "codec_abi");
    p->frame_version = get_number(runner, "frame_version");
}

int probed_host_read(struct probed_host *p, const char *text, size_t len, struct err *e)
{
    struct agent_view view;
    const json_t *machine;
    json_t *o;

    if (reply_agent(&view, text, len, e) < 0 || json_parse(&o, text, len, "answer", e) < 0)
        return e->code = ERR_PROTOCOL;
    memcpy(p->version, view.version, sizeof p->version);
    get_text(p->isolation, sizeof p->isolation, o, "isolation");
    get_text(p->data_host, sizeof p->data_host, o, "data_host");
    get_text(p->scope, sizeof p->scope, json_object_get(o, "you"), "scope");
    p->slots_free = get_number(o, "slots_free");
    p->disk_free_bytes = get_number(o, "disk_free_bytes");
    p->clock_ahead_s = get_number(o, "wall_s");
    read_runner(p, json_object_get(o, "runner"));
    machine = json_object_get(o, "machine");
    p->has_machine = json_is_object(machine);
    machine_parse(&p->machine, machine);
    p->has_answered = true;
    json_decref(o);
    return 0;
}

/* The line that `job_runner --about` prints: protocol.md, section 2. */
static int ask_runner(struct probed_host *p, struct err *e)
{
    char path[PATH_MAX], dir[PATH_MAX], about[] = "--about", line[512];
    char *argv[] = {path, about, NULL};
    struct child_how how = {.argv = argv, .err = -1};
    struct child c;
    json_t *doc;
    ssize_t n;
    int fds[2];
    int rc;

    if (file_exe_dir(dir, sizeof dir, e) < 0 || file_join(path, sizeof path, dir, "job_runner", e) < 0)
        return e->code;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    how.out = fds[1];
    rc = child_start(&c, &how, e);
    close(fds[1]);
    if (rc == 0 && child_wait(&c) != 0)
        rc = err_set(e, ERR_IO, "%s does not start; is a library missing?", path);
    n = rc == 0 ? read(fds[0], line, sizeof line) : 0;
    close(fds[0]);
    if (rc < 0 || json_parse(&doc, line, n > 0 ? (size_t)n : 0, "job_runner --about", e) < 0)
        return e->code;
    read_runner(p, doc);
    json_decref(doc);
    return 0;
}

void probed_host_read_here(struct probed_host *p)
{
    struct err e;

    p->is_here = p->has_answered = p->has_machine = true;
    p->slots_free = p->disk_free_bytes = p->clock_ahead_s = NAN;
    p->codec_abi = CODEC_ABI;
    p->frame_version = NAN;
    snprintf(p->version, sizeof p->version, "%s", PSGD_VERSION);
    machine_look(&p->machine);
    if (ask_runner(p, &e) < 0)
        snprintf(p->runner_error, sizeof p->runner_error, "%.250s", e.text);
}
