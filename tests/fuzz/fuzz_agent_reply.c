/* Any response of an agent: the first byte chooses how job_submit parses it. No resulting text may contain
 * a control character, no number may be infinite, and records keep their number of cells. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/utf8.h"
#include "submit/net/reply.h"
#include "submit/results/collect.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_text(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            abort();
}

static void check_progress(const struct progress_view *p)
{
    if (isinf(p->loss) || isinf(p->accuracy) || isinf(p->eval_loss) || isinf(p->eval_accuracy) ||
        p->epoch < 0 || p->step < 0)
        abort();
}

static void as_job(const char *text, size_t len)
{
    struct job_view v;
    struct err e;

    if (reply_job(&v, text, len, &e) < 0)
        return;
    check_text(v.reason);
    check_text(v.message);
    check_text(v.started_at);
    check_text(v.finished_at);
    check_progress(&v.progress);
    if (v.data_port < 0 || v.data_port > 65535)
        abort();
}

static void as_events(char *text, size_t len)
{
    struct progress_view p;
    struct job_event ev;
    struct err e;

    progress_view_init(&p);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (reply_event(&ev, &p, line, strnlen(line, len), &e) < 0)
            continue;
        check_text(ev.reason);
        check_text(ev.message);
        check_progress(&p);
    }
}

static void as_others(const char *text, size_t len)
{
    struct artifact_list list;
    struct agent_view agent;
    char holder[256], id[REPLY_ID];
    struct job_view v;
    struct err e;

    if (reply_agent(&agent, text, len, &e) == 0)
        check_text(agent.id);
    if (reply_artifacts(&list, text, len, &e) == 0)
        for (size_t i = 0; i < list.n; i++)
            check_text(list.items[i].name);
    if (reply_holder(holder, sizeof holder, text, len, &e) == 0)
        check_text(holder);
    if (reply_newest_job(id, &v, text, len, &e) == 0) {
        check_text(id);
        if (id[0])
            check_text(v.message);
    }
    reply_problem(&e, 409, text, len);
    check_text(e.text);
}

static void as_records(const char *text, size_t len)
{
    char *out = NULL;
    size_t size, bad;
    struct err e;

    for (int k = 0; k < N_RECORD_FILES; k++) {
        FILE *f = open_memstream(&out, &size);

        if (!f)
            abort();
        collect_rows(f, &artifacts[k], 0, text, len, &bad, &e);
        fclose(f);
        if (memchr(out, '\033', size))
            abort();
        free(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text;

    if (len == 0 || !(text = calloc(len, 1)))
        return 0;
    memcpy(text, bytes + 1, len - 1);
    switch ((uint8_t)(bytes[0] - '0') % 5) {
    case 0:
        as_job(text, len - 1);
        break;
    case 1:
        as_events(text, len - 1);
        break;
    case 2:
        as_others(text, len - 1);
        break;
    case 3:
        as_records(text, len - 1);
        break;
    default:
        utf8_clean(text, len - 1, false);
        text[len - 1] = '\0';
        check_text(text);
    }
    free(text);
    return 0;
}
