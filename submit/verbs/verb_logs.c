/* logs: prints the nodes' logs, cleaned for a terminal, each line prefixed with its node. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/utf8.h"
#include "submit/job/outcome.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_status.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

/* A log is fetched in parts of at most 4 MiB; a line longer than LINE_MAX_BYTES may be printed in several. */
enum { PART_MAX = 4 << 20, LINE_MAX_BYTES = 1 << 20 };
static const double follow_s = 1, ask_s = 3;

static void print_lines(const struct job_node *n, char *text, size_t len)
{
    char label[NODE_LOG_NAME];

    node_log_name(label, n);
    utf8_clean(text, len, true);
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t k = end ? (size_t)(end - text) - at : len - at;

        printf("%s | %.*s\n", label, (int)k, text + at);
        at += k + 1;
    }
    fflush(stdout);
}

/* Prints the log after byte *seen; only whole lines while more may follow. */
static int print_log(struct submission *s, struct job_node *n, uint64_t *seen, bool more_may_come,
                     struct err *e)
{
    const struct http_request *r = &n->call;
    size_t len;

    do {
        if (node_get(s->http, n, PART_MAX, e, "/v1/jobs/%s/logs?after=%" PRIu64, s->id, *seen) < 0)
            return e->code;
        len = r->reply_len;
        while (len > 0 && r->reply[len - 1] != '\n')
            len--;
        if (len == 0 && (!more_may_come || r->reply_len > LINE_MAX_BYTES))
            len = r->reply_len;
        if (len > 0)
            print_lines(n, r->reply, len);
        *seen += len;
    } while (len > 0);
    return 0;
}

/* If logs of several nodes fail, the first error is returned and the others are printed. */
static int print_all(struct submission *s, const struct options *o, uint64_t *seen, bool more_may_come,
                     struct err *e)
{
    int rc = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct err other;

        if (o->has_node && s->nodes[i].at.node != o->node)
            continue;
        n++;
        if (print_log(s, &s->nodes[i], &seen[i], more_may_come, rc == 0 ? e : &other) == 0)
            continue;
        if (rc < 0)
            console_error("%s", other.text);
        else
            rc = e->code;
    }
    if (n == 0)
        return err_set(e, ERR_USAGE, "job %s has no node %d", s->id, o->node);
    return rc;
}

int verb_logs(const struct options *o, struct err *e)
{
    struct submission s;
    uint64_t *seen = NULL;
    int rc = submission_init(&s, o, e);

    if (rc == 0)
        rc = job_index_load(&s, o->args.n_operands ? o->args.operands[0] : NULL, e);
    if (rc == 0)
        rc = queue_state_refuse(&s, e);
    if (rc == 0 && !(seen = calloc(s.n_nodes, sizeof *seen)))
        rc = err_set(e, ERR_NOMEM, "no memory");
    while (rc == 0) {
        double until = clock_now() + follow_s;
        bool more = false;

        if (o->follow) {
            submitted_job_ask_nodes(&s, ask_s);
            more = !job_state_is_terminal(outcome_state(&s, JOB_RUNNING));
        }
        rc = print_all(&s, o, seen, more, e);
        if (!more || stdout_has_failed())
            break;
        while (clock_now() < until && !interrupt_signal())
            http_poll(s.http, 0.2);
        if (rc == 0)
            rc = interrupt_check(e);
    }
    free(seen);
    submission_clear(&s);
    return rc;
}
