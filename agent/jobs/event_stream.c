#include "agent/jobs/event_stream.h"

#include <stdio.h>
#include <string.h>

#include "agent/jobs/job_action.h"
#include "shared/base/clock.h"

void stream_open(struct stream *s, struct jobs *jobs, const char *id, int attempt, uint64_t after,
                 bool is_ndjson, bool holds)
{
    struct task *t = task_attempt(jobs, id, attempt);

    *s = (struct stream){.jobs = jobs,
                         .attempt = attempt,
                         .is_ndjson = is_ndjson,
                         .is_open = true,
                         .holds = holds,
                         .last_at = clock_now()};
    snprintf(s->id, sizeof s->id, "%s", id);
    if (!t)
        return;
    s->at = journal_seek(&t->journal, after);
    if (holds)
        job_stream_opened(t);
}

void stream_close(struct stream *s)
{
    struct task *t = s->is_open ? task_attempt(s->jobs, s->id, s->attempt) : NULL;

    s->is_open = false;
    if (t && s->holds)
        job_stream_closed(t);
}

/* Finds a value in a line of event_line(): {"seq":N,"at":"…","event":"NAME",… */
static int value_after(const char *line, const char *key, const char **value)
{
    const char *p = strstr(line, key);

    *value = p ? p + strlen(key) : "";
    return (int)strcspn(*value, "\",");
}

static bool next_event(struct stream *s, const struct task *t)
{
    char line[EVENT_LINE_MAX + 1];
    const char *seq, *name;
    int n_seq, n_name;
    size_t len;

    if (!journal_next(&t->journal, &s->at, line, &len))
        return false;
    if (s->is_ndjson) {
        s->n = (size_t)snprintf(s->text, sizeof s->text, "%s\n", line);
        return true;
    }
    n_seq = value_after(line, "{\"seq\":", &seq);
    n_name = value_after(line, "\"event\":\"", &name);
    s->n = (size_t)snprintf(s->text, sizeof s->text, "id: %.*s\nevent: %.*s\ndata: %s\n\n", n_seq, seq,
                            n_name < 16 ? n_name : 16, name, line);
    return true;
}

static bool is_quiet(const struct stream *s)
{
    return clock_now() - s->last_at >= STREAM_QUIET_S;
}

ssize_t stream_read(struct stream *s, char *buf, size_t size)
{
    const struct task *t = task_attempt(s->jobs, s->id, s->attempt);
    size_t n = 0;

    if (!t && s->n == s->n_sent)
        return -1;
    while (n < size) {
        size_t k;

        if (s->n_sent == s->n) {
            s->n = s->n_sent = 0;
            if (!t || !next_event(s, t))
                break;
        }
        k = s->n - s->n_sent < size - n ? s->n - s->n_sent : size - n;
        memcpy(buf + n, s->text + s->n_sent, k);
        s->n_sent += k;
        n += k;
    }
    if (n == 0 && (!t || job_state_is_terminal(t->job.state)))
        return -1;
    if (n == 0 && is_quiet(s)) {
        const char *sign = s->is_ndjson ? "\n" : ":\n\n";

        n = strlen(sign) < size ? strlen(sign) : size;
        memcpy(buf, sign, n);
    }
    if (n > 0)
        s->last_at = clock_now();
    return (ssize_t)n;
}

bool stream_is_ready(const struct stream *s)
{
    const struct task *t = task_attempt(s->jobs, s->id, s->attempt);

    return !t || s->n_sent < s->n || s->at < t->journal.end || job_state_is_terminal(t->job.state) ||
           is_quiet(s);
}
