#include "sim/queue.h"

#include <assert.h>
#include <stdlib.h>

enum { WIDTH = 4, FIRST_ROOM = 1024 };

void sim_queue_init(struct sim_queue *q, uint64_t seed)
{
    *q = (struct sim_queue){.now = 0};
    rng_init(&q->rng, seed, 0x5e, 0);
}

void sim_queue_clear(struct sim_queue *q)
{
    free(q->heap);
    *q = (struct sim_queue){0};
}

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static int grow_heap(struct sim_queue *q, struct err *e)
{
    size_t room = q->room ? 2 * q->room : FIRST_ROOM;
    struct sim_event *heap = realloc(q->heap, room * sizeof *heap);

    if (!heap)
        return err_set(e, ERR_NOMEM, "no memory for %zu events", room);
    q->heap = heap;
    q->room = room;
    return 0;
}

int sim_queue_push(struct sim_queue *q, struct sim_event ev, struct err *e)
{
    size_t i = q->n;

    assert(ev.at >= q->now);
    if (q->n == q->room && grow_heap(q, e) < 0)
        return e->code;
    q->n++;
    ev.order = (uint64_t)(uint32_t)rng_u64(&q->rng) << 32 | q->n_pushed++;
    for (; i > 0 && is_before(&ev, &q->heap[(i - 1) / WIDTH]); i = (i - 1) / WIDTH)
        q->heap[i] = q->heap[(i - 1) / WIDTH];
    q->heap[i] = ev;
    return 0;
}

static size_t least_child(const struct sim_queue *q, size_t i)
{
    size_t least = WIDTH * i + 1;

    for (size_t k = least + 1; k < q->n && k <= WIDTH * i + WIDTH; k++)
        if (is_before(&q->heap[k], &q->heap[least]))
            least = k;
    return least;
}

bool sim_queue_pop(struct sim_queue *q, struct sim_event *out)
{
    struct sim_event last;
    size_t i = 0, child;

    if (q->n == 0)
        return false;
    *out = q->heap[0];
    q->now = out->at;
    last = q->heap[--q->n];
    for (; (child = least_child(q, i)) < q->n && is_before(&q->heap[child], &last); i = child)
        q->heap[i] = q->heap[child];
    q->heap[i] = last;
    return true;
}
