#include "agent/jobs/runner_about.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "shared/base/json.h"

enum { CPU_MAX_S = 10 };

/* OpenBLAS starts threads while it is loaded. */
static int begin_with_one_thread(void *unused)
{
    (void)unused;
    return setenv("OPENBLAS_NUM_THREADS", "1", 1) < 0 ? -1 : inquiry_unblock_signals();
}

static void runner_has_answered(void *arg, const char *text, size_t len, const struct err *failure)
{
    struct runner_about *r = arg;

    r->broken = *failure;
    if (failure->code || json_parse(&r->facts, text, len, "its answer", &r->broken) < 0) {
        err_at(&r->broken, "%s", r->exe);
        log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", r->broken.text);
    }
}

static int start_asking(struct runner_about *r, struct err *e)
{
    char option[] = "--about", *argv[] = {r->exe, option, NULL};
    struct child_how how = {
        .argv = argv, .err = STDERR_FILENO, .cpu_s = CPU_MAX_S, .confine = begin_with_one_thread};

    r->inquiry.answered = runner_has_answered;
    r->inquiry.arg = r;
    r->inquiry.doubt = "is a library missing?";
    return inquiry_ask(&r->inquiry, &how, e);
}

void runner_about_ask(struct runner_about *r)
{
    if (r->facts || inquiry_is_fresh(&r->inquiry))
        return;
    r->broken = (struct err){0};
    start_asking(r, &r->broken);
}

void runner_about_clear(struct runner_about *r)
{
    inquiry_close(&r->inquiry);
    json_decref(r->facts);
    *r = (struct runner_about){0};
}

json_t *runner_about_json(const struct runner_about *r)
{
    if (r->broken.code)
        return json_pack("{s:o}", "error", json_text(r->broken.text, sizeof r->broken.text));
    return r->facts ? json_incref(r->facts) : json_null();
}
