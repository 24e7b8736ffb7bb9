#include "runner/base/tracer.h"
#include "shared/records/trace_file.h"
#include "submit/results/trace.h"

#include <jansson.h>
#include <math.h>

#include "tests/unit/unit.h"

static struct err e;

/* Writes a trace with a tracer and reads it back. */
struct written {
    const char *folder;
    char path[256];
    struct tracer *t;
    char *bytes; /* aligned as a mapping is */
    size_t len, n;
    struct trace_head head;
    const struct trace_record *r;
};

static void begin(struct written *w, int node)
{
    *w = (struct written){.folder = unit_folder()};
    snprintf(w->path, sizeof w->path, "%s/trace.bin", w->folder);
    assert_ok(tracer_new(&w->t, w->path, node, &e));
}

static void read_back(struct written *w, int node, uint64_t n_dropped)
{
    assert_int_equal(tracer_free(w->t), n_dropped);
    assert_ok(file_read(&w->bytes, &w->len, w->path, 1 << 25, &e));
    assert_ok(trace_file_parse(&w->head, &w->r, &w->n, node, w->bytes, w->len, &e));
    assert_int_equal(w->head.n_dropped, n_dropped);
}

static void end(struct written *w)
{
    free(w->bytes);
    unit_remove(w->folder);
}

TEST(a_trace_survives_serialization)
{
    struct written w;

    begin(&w, -2);
    w.t->step = 7;
    w.t->round = 3;
    tracer_span(w.t, (enum trace_kind)PHASE_WAIT, 2.5, 2.75);
    tracer_span(w.t, (enum trace_kind)PHASE_SEND, 2.75, 2.75); /* empty */
    tracer_message(w.t, TRACE_SENT, 1, 40, 2.6);
    read_back(&w, -2, 0);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.r[0].kind, PHASE_WAIT);
    assert_true(w.r[0].begin_ns == 2500000000u && w.r[0].end_ns == 2750000000u);
    assert_true(w.r[0].step == 7 && w.r[0].round == 3);
    assert_true(w.r[1].kind == TRACE_SENT && w.r[1].peer == 1 && w.r[1].end_ns == 40);
    end(&w);
}

TEST(spans_beyond_the_end_of_the_file_are_counted)
{
    struct written w;

    begin(&w, 0);
    for (int i = 0; i < TRACE_RECORDS_MAX + 5; i++)
        tracer_span(w.t, TRACE_STEP, 1 + i, 2 + i);
    read_back(&w, 0, 5);
    assert_int_equal(w.len, TRACE_HEAD_BYTES + (size_t)TRACE_RECORDS_MAX * TRACE_RECORD_BYTES);
    assert_int_equal(w.n, TRACE_RECORDS_MAX);
    end(&w);
}

TEST(the_file_of_a_dead_writer_is_read_as_far_as_it_is_valid)
{
    struct trace_record file[3] = {{.begin_ns = 0}};
    struct trace_head head, back;
    const struct trace_record *r;
    char bytes[TRACE_HEAD_BYTES + sizeof file];
    size_t n;

    trace_head_init(&head, 4);
    memcpy(bytes, &head, sizeof head);
    for (int i = 0; i < 3; i++)
        file[i] = (struct trace_record){.begin_ns = 1, .end_ns = 2, .kind = PHASE_DECODE};
    memcpy(bytes + sizeof head, file, sizeof file);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        char *copy = unit_copy(bytes, len);

        if (len < sizeof head) {
            assert_int_equal(trace_file_parse(&back, &r, &n, 4, copy, len, &e), ERR_PROTOCOL);
        } else {
            assert_ok(trace_file_parse(&back, &r, &n, 4, copy, len, &e));
            assert_int_equal(n, (len - sizeof head) / sizeof *file);
        }
        free(copy);
    }
}

TEST(a_file_no_tracer_writes_is_refused)
{
    const struct trace_record good = {.begin_ns = 1, .end_ns = 2, .kind = PHASE_DECODE};
    struct {
        struct trace_head head;
        struct trace_record r;
    } f;
    const struct trace_record *r;
    struct trace_head head;
    size_t n;

    trace_head_init(&f.head, 4);
    f.r = good;
    assert_ok(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e));
    assert_int_equal(trace_file_parse(&head, &r, &n, 5, &f, sizeof f, &e), ERR_PROTOCOL);
    f.r.kind = N_TRACE_KINDS;
    assert_int_equal(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e), ERR_PROTOCOL);
    f.r = good;
    f.r.begin_ns = 3;
    assert_int_equal(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e), ERR_PROTOCOL);
    f.r = good;
    f.r.end_ns = UINT64_MAX;
    assert_int_equal(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e), ERR_PROTOCOL);
    f.r = good;
    f.r.step = UINT64_MAX;
    assert_int_equal(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e), ERR_PROTOCOL);
    f.r = good;
    f.head.magic[7] = '2';
    assert_int_equal(trace_file_parse(&head, &r, &n, 4, &f, sizeof f, &e), ERR_PROTOCOL);
}

static json_t *find(json_t *events, const char *ph, int pid)
{
    json_t *ev;
    size_t i;

    json_array_foreach(events, i, ev) if (strcmp(json_string_value(json_object_get(ev, "ph")), ph) == 0 &&
                                          json_integer_value(json_object_get(ev, "pid")) == pid) return ev;
    return NULL;
}

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

TEST(traces_of_different_clocks_are_put_on_one_time_axis)
{
    const struct trace_record a[] = {
        {.begin_ns = 5000000000, .end_ns = 5000100000, .step = 1, .kind = PHASE_WAIT},
        {.begin_ns = 5000020000, .end_ns = 3, .kind = TRACE_SENT, .peer = 1}};
    const struct trace_record b[] = {{.begin_ns = 1000000000, .end_ns = 1000000500, .kind = TRACE_STEP},
                                     {.begin_ns = 1000050000, .end_ns = 3, .kind = TRACE_RECEIVED, .peer = 0},
                                     {.begin_ns = 1000060000, .end_ns = 1, .kind = TRACE_SENT, .peer = 9}};
    const struct trace_node nodes[] = {{.node = 0, .role = "worker", .address = "a:1", .records = a, .n = 2},
                                       {.node = 1,
                                        .role = "worker",
                                        .address = "b:1",
                                        .records = b,
                                        .n = 3,
                                        .offset_s = 4,
                                        .uncertainty_s = 0.001}};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    json_t *doc, *events;

    assert_non_null(f);
    assert_ok(trace_write(f, nodes, 2, &e));
    fclose(f);
    doc = json_loads(text, 0, NULL);
    assert_non_null(doc);
    events = json_object_get(doc, "traceEvents");
    assert_int_equal(json_array_size(events), 2 * 4 + 4); /* a message to a node without a trace is omitted */
    assert_true(fabs(number(find(events, "X", 1), "ts")) < 0.01);
    assert_true(fabs(number(find(events, "X", 1), "dur") - 100) < 0.01);
    assert_true(fabs(number(find(events, "X", 2), "ts")) < 0.01);
    assert_true(fabs(number(find(events, "s", 1), "ts") - 20) < 0.01);
    assert_true(fabs(number(find(events, "f", 2), "ts") - 50) < 0.01);
    assert_true(number(find(events, "s", 1), "id") == number(find(events, "f", 2), "id"));
    assert_true(number(json_array_get(json_object_get(json_object_get(doc, "otherData"), "nodes"), 1),
                       "uncertainty_us") == 1000);
    json_decref(doc);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_survives_serialization),
        cmocka_unit_test(spans_beyond_the_end_of_the_file_are_counted),
        cmocka_unit_test(the_file_of_a_dead_writer_is_read_as_far_as_it_is_valid),
        cmocka_unit_test(a_file_no_tracer_writes_is_refused),
        cmocka_unit_test(traces_of_different_clocks_are_put_on_one_time_axis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
