#include "conform/watch.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/exchange/channel.h"
#include "runner/exchange/exchange.h"

enum { ROOM = 16 << 20, CALM_AFTER = 2, GUARDED = 1024, CHECKED_NODES = 8 };

static struct {
    const struct codec_plugin *codec;
    struct codec_plugin plugin;
    struct codec_more more;
    struct codec_combine combine;
    struct codec_round round;
    struct codec_events events;
    struct codec_check_page *page;
    struct {
        unsigned char *end;               /* of ROOM bytes, followed by inaccessible memory */
        const unsigned char *content_end; /* end of its content */
    } buffers[WATCH_BUFFERS];
    watch_receive *receive;
    void *owner;
    uintptr_t code, code_end; /* address range of the codec's object */
    bool counts, sees;
    uint64_t n_allocations;
} w;

static void turn(struct codec_check_page *p)
{
    atomic_fetch_add_explicit(&p->n_turns, 1, memory_order_relaxed);
}

void watch_outside(struct codec_check_page *page, const char *name)
{
    if (!name[0])
        page->callback[0] = '\0';
    turn(page);
    memccpy(page->callback, name, '\0', sizeof page->callback - 1);
}

void watch_enter(const char *name, const struct codec *c, int from)
{
    struct codec_check_page *p = w.page;

    p->node = c->run->node;
    p->from = from;
    p->step = c->run->step;
    turn(p);
    memccpy(p->callback, name, '\0', sizeof p->callback - 1);
    w.counts = (c->run->node < 0 ? c->run->round : c->run->step) >= CALM_AFTER &&
               (codec_more(w.codec)->events || c->run->round >= CALM_AFTER);
}

int watch_leave(int rc)
{
    w.counts = false;
    w.page->callback[0] = '\0';
    turn(w.page);
    return rc;
}

void watch_allocation(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;

    w.sees = true;
    w.n_allocations += w.counts && at >= w.code && at < w.code_end;
}

bool watch_sees_allocations(void)
{
    return w.sees;
}

uint64_t watch_allocations(void)
{
    return w.n_allocations;
}

unsigned char *watch_buffer(int buffer, size_t len)
{
    unsigned char *at = w.buffers[buffer].end - (len + 3) / 4 * 4;

    w.buffers[buffer].content_end = at + len;
    return at;
}

void watch_fault(const void *address)
{
    const unsigned char *at = address;

    if ((uintptr_t)at < (uintptr_t)sysconf(_SC_PAGESIZE))
        w.page->beyond_what = CHECK_NULL_VECTOR;
    for (int i = 0; i < WATCH_BUFFERS; i++) {
        if (at < w.buffers[i].end || at >= w.buffers[i].end + sysconf(_SC_PAGESIZE))
            continue;
        w.page->beyond_what = i == WATCH_MESSAGE ? CHECK_BEYOND_MESSAGE : CHECK_BEYOND_VECTOR;
        w.page->beyond = (uint64_t)(at - w.buffers[i].content_end) + 1;
    }
}

static int deliver_message(watch_read *read, const char *name, struct codec *c, int from, struct wire_in *in)
{
    struct wire_in placed = *in;
    unsigned char *at;
    int rc;

    if (w.receive)
        w.receive(w.owner, &(struct watch_call){.read = read, .name = name, .c = c, .from = from, .in = in});
    if (in->len <= ROOM) {
        at = watch_buffer(WATCH_MESSAGE, in->len);
        memcpy(at, in->bytes, in->len);
        placed.bytes = at;
    }
    watch_enter(name, c, from);
    rc = watch_leave(read(w.codec, c, from, &placed));
    in->at = placed.at;
    in->bad = placed.bad;
    return rc;
}

static int read_merge(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in)
{
    return codec_more(p)->round->merge(c, from, in);
}

static int read_adopt(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in)
{
    (void)from;
    return codec_more(p)->round->adopt(c, in);
}

static int read_message(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in)
{
    return codec_more(p)->events->on_message(c, from, in);
}

static int read_collective(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in)
{
    (void)from, (void)in;
    return codec_more(p)->events->on_collective(c);
}

static int merge(struct codec *c, int from, struct wire_in *in)
{
    return deliver_message(read_merge, "merge", c, from, in);
}

static int adopt(struct codec *c, struct wire_in *in)
{
    return deliver_message(read_adopt, "adopt", c, c->run->server, in);
}

static int open_codec(struct codec *c)
{
    watch_enter("open", c, c->run->node);
    return watch_leave(w.codec->open(c));
}

static int encode(struct codec *c, struct wire_out *out)
{
    watch_enter("encode", c, c->run->node);
    return watch_leave(codec_more(w.codec)->round->encode(c, out));
}

static int apply_result(struct codec *c)
{
    watch_enter("apply", c, c->run->node);
    return watch_leave(codec_more(w.codec)->round->apply(c));
}

static int reply(struct codec *c, struct wire_out *out)
{
    watch_enter("reply", c, c->run->node);
    return watch_leave(codec_more(w.codec)->round->reply(c, out));
}

static int on_backward(struct codec *c)
{
    watch_enter("on_backward", c, c->run->node);
    return watch_leave(codec_more(w.codec)->events->on_backward(c));
}

static int on_block(struct codec *c)
{
    watch_enter("on_block", c, c->run->node);
    return watch_leave(codec_more(w.codec)->events->on_block(c));
}

/* Does the node wait since this codec's on_grad, or on_step, and since which of them? */
static bool *waits_in_grad(const struct codec *c)
{
    static bool of[CHECKED_NODES][CHECKED_NODES];
    int node = c->run->node < 0 ? -1 - c->run->node : c->run->node, server = -c->run->server;

    return &of[node % CHECKED_NODES][server % CHECKED_NODES];
}

static bool waits(const struct codec *c)
{
    return channel_of(c)->is_waiting;
}

static int on_grad(struct codec *c)
{
    *waits_in_grad(c) = true;
    watch_enter("on_grad", c, c->run->node);
    return watch_leave(codec_more(w.codec)->events->on_grad(c));
}

static int on_step(struct codec *c)
{
    *waits_in_grad(c) = false;
    watch_enter("on_step", c, c->run->node);
    return watch_leave(codec_more(w.codec)->events->on_step(c));
}

/* Copies, made before a call, of the vectors that the callback may not write. */
static struct {
    const char *name;
    const float *v;
    size_t n;
    float kept[GUARDED];
} guarded[2];

static void guard_vector(int k, const char *name, const float *v, size_t n)
{
    guarded[k].name = name;
    guarded[k].v = v;
    guarded[k].n = !v ? 0 : n < GUARDED ? n : GUARDED;
    if (guarded[k].n > 0)
        memcpy(guarded[k].kept, v, guarded[k].n * sizeof *v);
}

/* Returns rc, or the code of an error: the callback has written to a guarded vector. */
static int check_guarded(struct codec *c, const char *callback, int rc)
{
    for (int k = 0; rc >= 0 && k < 2; k++)
        if (guarded[k].n > 0 && memcmp(guarded[k].kept, guarded[k].v, guarded[k].n * sizeof(float)) != 0)
            return codec_fail(c, "its %s writes to %s, which codec.h does not allow there", callback,
                              guarded[k].name);
    return rc;
}

/* May a callback that another node causes run between two layers? A simulation never calls one there. */
static bool is_amid_layers(const struct codec *c)
{
    return c->run->node >= 0 && !waits(c) &&
           (codec_more(w.codec)->events->on_backward || exchange_is_collecting(channel_of(c)->x));
}

/* Before such a callback: guards what it may not write. */
static void guard_step(const struct codec *c, bool is_amid)
{
    guard_vector(0, "params while the node does not wait, and its layers may be half computed",
                 is_amid ? c->params : NULL, c->n_params);
    guard_vector(1, "grads while on_grad does not wait",
                 c->run->node >= 0 && !(waits(c) && *waits_in_grad(c)) ? c->grads : NULL, c->n_params);
}

static int on_message(struct codec *c, int from, struct wire_in *in)
{
    guard_step(c, is_amid_layers(c));
    return check_guarded(c, "on_message", deliver_message(read_message, "on_message", c, from, in));
}

static int on_collective(struct codec *c)
{
    static const char *const name = "on_collective";

    if (w.receive)
        w.receive(w.owner,
                  &(struct watch_call){.read = read_collective, .name = name, .c = c, .from = c->run->node});
    guard_step(c, !waits(c));
    watch_enter(name, c, c->run->node);
    return check_guarded(c, name, watch_leave(codec_more(w.codec)->events->on_collective(c)));
}

static float contribute(struct codec *c, float *const *v)
{
    float weight;

    guard_vector(0, "params", c->params, c->n_params);
    guard_vector(1, "global", c->global, c->n_params);
    watch_enter("contribute", c, c->run->node);
    weight = w.codec->combine->contribute(c, v);
    watch_leave(CODEC_GO);
    check_guarded(c, "contribute", CODEC_GO);
    return weight;
}

/* On a server global is params. */
static int apply_combination(struct codec *c, const float *const *v)
{
    guard_vector(0, "params", c->global && c->global != c->params ? c->params : NULL, c->n_params);
    guard_vector(1, NULL, NULL, 0);
    watch_enter("apply", c, c->run->node);
    return check_guarded(c, "apply", watch_leave(w.codec->combine->apply(c, v)));
}

static int adopt_global(struct codec *c, const float *global_before)
{
    guard_vector(0, "global", c->global, c->n_params);
    guard_vector(1, NULL, NULL, 0);
    watch_enter("adopt", c, c->run->node);
    return check_guarded(c, "adopt", watch_leave(w.codec->combine->adopt(c, global_before)));
}

static int on_gradient(struct codec *c)
{
    guard_vector(0, "params", c->params, c->n_params);
    guard_vector(1, "global", c->global, c->n_params);
    watch_enter("on_gradient", c, c->run->node);
    return check_guarded(c, "on_gradient", watch_leave(w.codec->combine->on_gradient(c)));
}

static int on_lost(struct codec *c, int node)
{
    guard_step(c, is_amid_layers(c));
    watch_enter("on_lost", c, node);
    return check_guarded(c, "on_lost", watch_leave(codec_more(w.codec)->events->on_lost(c, node)));
}

static int on_evaluation(struct codec *c)
{
    watch_enter("on_evaluation", c, c->run->node);
    return watch_leave(codec_more(w.codec)->on_evaluation(c));
}

static int on_wake(struct codec *c)
{
    guard_step(c, is_amid_layers(c));
    watch_enter("on_wake", c, c->run->node);
    return check_guarded(c, "on_wake", watch_leave(codec_more(w.codec)->events->on_wake(c)));
}

/* A callback that the codec lacks is NULL in the wrapper, too. */
static void wrap(const struct codec_plugin *p)
{
    w.plugin = *p;
    w.plugin.open = p->open ? open_codec : NULL;
    w.more = *codec_more(p);
    w.more.on_evaluation = w.more.on_evaluation ? on_evaluation : NULL;
    w.plugin.more = &w.more;
    if (p->combine) {
        w.combine = *p->combine;
        w.combine.contribute = p->combine->contribute ? contribute : NULL;
        w.combine.apply = p->combine->apply ? apply_combination : NULL;
        w.combine.adopt = p->combine->adopt ? adopt_global : NULL;
        w.combine.on_gradient = p->combine->on_gradient ? on_gradient : NULL;
        w.plugin.combine = &w.combine;
    } else if (codec_more(p)->round) {
        w.round = *codec_more(p)->round;
        w.round.encode = encode;
        w.round.merge = merge;
        w.round.apply = codec_more(p)->round->apply ? apply_result : NULL;
        w.round.reply = codec_more(p)->round->reply ? reply : NULL;
        w.round.adopt = codec_more(p)->round->adopt ? adopt : NULL;
        w.more.round = &w.round;
    } else {
        w.events = *codec_more(p)->events;
        w.events.on_backward = codec_more(p)->events->on_backward ? on_backward : NULL;
        w.events.on_block = codec_more(p)->events->on_block ? on_block : NULL;
        w.events.on_grad = codec_more(p)->events->on_grad ? on_grad : NULL;
        w.events.on_step = codec_more(p)->events->on_step ? on_step : NULL;
        w.events.on_message = codec_more(p)->events->on_message ? on_message : NULL;
        w.events.on_collective = codec_more(p)->events->on_collective ? on_collective : NULL;
        w.events.on_lost = codec_more(p)->events->on_lost ? on_lost : NULL;
        w.events.on_wake = codec_more(p)->events->on_wake ? on_wake : NULL;
        w.more.events = &w.events;
    }
}

/* Whether this object contains the plug-in. */
static int find_code(struct dl_phdr_info *info, size_t size, void *plugin)
{
    uintptr_t from = UINTPTR_MAX, to = 0, at = (uintptr_t)plugin;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;

        if (p->p_type != PT_LOAD)
            continue;
        from = begin < from ? begin : from;
        to = begin + p->p_memsz > to ? begin + p->p_memsz : to;
    }
    if (at < from || at >= to)
        return 0;
    w.code = from;
    w.code_end = to;
    return 1;
}

static int open_buffer(int buffer, struct err *e)
{
    size_t behind = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *at = mmap(NULL, ROOM + behind, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED || mprotect(at + ROOM, behind, PROT_NONE) < 0)
        return err_call(e, ERR_NOMEM, CALL_MAP, "no memory for messages");
    w.buffers[buffer].end = at + ROOM;
    w.buffers[buffer].content_end = at + ROOM;
    return 0;
}

int watch_open(const struct codec_plugin *plugin, struct codec_check_page *page, struct err *e)
{
    for (int i = 0; i < WATCH_BUFFERS; i++)
        if (open_buffer(i, e) < 0)
            return e->code;
    w.codec = plugin;
    w.page = page;
    dl_iterate_phdr(find_code, (void *)(uintptr_t)plugin);
    wrap(plugin);
    return 0;
}

const struct codec_plugin *watch_plugin(void)
{
    return &w.plugin;
}

void watch_receives(watch_receive *receive_it, void *owner)
{
    w.receive = receive_it;
    w.owner = owner;
}
