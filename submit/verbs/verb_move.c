/* move: gives a waiting job another place, or another priority, among the jobs of this user. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/queue/queue_process.h"
#include "submit/results/queue_folder.h"
#include "submit/results/queue_status.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

/* The waiting jobs other than `id`, in their order. */
static size_t list_others(const struct queued_job **out, const struct queue_state *s, const char *id)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->jobs[i].id, id) != 0 && queue_state_has(s, s->jobs[i].id))
            out[n++] = &s->jobs[i];
    return n;
}

/* The place between two neighbours has the priority of the one behind it. */
static void choose_place(struct queue_place *p, const struct queued_job *const *others, size_t n, size_t at)
{
    const struct queue_place *before = at > 1 ? &others[at - 2]->place : NULL;
    const struct queue_place *behind = at <= n ? &others[at - 1]->place : NULL;

    if (behind && before && before->priority == behind->priority)
        *p = (struct queue_place){behind->priority, (before->number + behind->number) / 2};
    else if (behind)
        *p = (struct queue_place){behind->priority, behind->number - 1};
    else if (before)
        *p = (struct queue_place){before->priority, before->number + 1};
}

static int parse_place(size_t *out, const char *text, size_t n, struct err *e)
{
    char *end;
    long at = strtol(text, &end, 10);

    if (strcmp(text, "first") == 0 || strcmp(text, "last") == 0) {
        *out = text[0] == 'f' ? 1 : n + 1;
        return 0;
    }
    if (*end || at < 1 || !text[0])
        return err_set(e, ERR_USAGE, "\"%s\" is no place: first, last, or a number from 1", text);
    *out = (size_t)at > n + 1 ? n + 1 : (size_t)at;
    return 0;
}

static int move_job(const struct options *o, const struct queue_state *q, const char *id, struct err *e)
{
    const struct queued_job **others = calloc(q->n + 1, sizeof *others);
    struct queue_place p = {0};
    size_t n, at;
    int rc = 0;

    if (!others)
        return err_set(e, ERR_NOMEM, "no memory for the list of waiting jobs");
    for (size_t i = 0; i < q->n; i++)
        if (strcmp(q->jobs[i].id, id) == 0)
            p = q->jobs[i].place;
    n = list_others(others, q, id);
    if (o->has_priority)
        p.priority = o->priority;
    if (o->args.n_operands > 1 && (rc = parse_place(&at, o->args.operands[1], n, e)) == 0)
        choose_place(&p, others, n, at);
    free(others);
    return rc < 0 ? rc : queue_folder_set_place(id, &p, e);
}

/* The jobs before it that wait, and one. */
static size_t place_of(const struct queue_state *s, const char *id)
{
    size_t place = 1;

    for (size_t i = 0; i < s->n && strcmp(s->jobs[i].id, id) != 0; i++)
        place += queue_state_has(s, s->jobs[i].id);
    return place;
}

static int show_place(const struct options *o, const char *id, struct err *e)
{
    struct queue_state state = {0};
    size_t place = 0;
    int rc = queue_state_read(&state, e);

    if (rc == 0)
        place = place_of(&state, id);
    if (rc == 0 && o->json)
        stdout_json(true, json_pack("{s:s, s:I}", "id", id, "place", (json_int_t)place), NULL, NULL);
    else if (rc == 0)
        printf("%s: place %zu of %zu\n", id, place, queue_state_count(&state));
    queue_state_clear(&state);
    return rc;
}

int verb_move(const struct options *o, struct err *e)
{
    struct queue_state state = {0};
    struct submission s;
    int rc;

    if (o->args.n_operands < 1 || (o->args.n_operands < 2 && !o->has_priority))
        return err_set(e, ERR_USAGE,
                       "move needs a job and its new place, first, last or a number, or --priority N");
    rc = submitted_job_load(&s, o, o->args.operands[0], e);
    if (rc == 0 && !queue_state_waits(&s))
        rc = err_set(e, ERR_CONFLICT, "%s does not wait in the queue", s.id);
    if (rc == 0 && (rc = queue_state_read(&state, e)) == 0 && (rc = move_job(o, &state, s.id, e)) == 0) {
        queue_folder_ring();
        rc = show_place(o, s.id, e);
    }
    queue_state_clear(&state);
    submission_clear(&s);
    return rc;
}
