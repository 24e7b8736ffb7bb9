/* What holds for all kinds of rules: jobs that they do not support are refused, they resume from a saved
 * state, and they refuse messages that are malformed, or that no honest node sends. */
#include "tests/lib/run_well.h"

#include "runner/exchange/exchange_state.h"
#include "shared/records/tensor_file.h"

enum { N_PARAMS = 23 };

TEST(unsupported_jobs_are_refused_with_a_message)
{
    static const struct {
        struct cluster_config cfg;
        const char *why;
    } cases[] = {
        {{.codec = "gossip", .n_workers = 3, .is_asgd = true},
         "codec gossip needs the message of every worker in an exchange; it does not support asgd"},
        {{.codec = "gossip", .n_workers = 3, .n_servers = 1},
         "codec gossip is for workers only; leave the parameter servers out"},
        {{.codec = "easgd", .n_workers = 3, .is_asgd = true}, "codec easgd needs parameter servers in asgd"},
        {{.codec = "fedpaq", .n_workers = 3, .is_asgd = true},
         "codec fedpaq needs parameter servers in asgd"},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        assert_refused(&cases[k].cfg, cases[k].why);
}

static void carry_over(struct cluster *to, struct cluster *from, uint64_t step)
{
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "state.safetensors", &e));
    for (int i = 0; i < from->n_nodes; i++) {
        struct exchange_state s;
        struct tensor_file f;

        assert_ok(exchange_save(&s, from->nodes[i].x, step, &e));
        assert_ok(tensor_file_write(path, s.tensors, s.n, NULL, &e));
        exchange_state_clear(&s);
        assert_ok(tensor_file_open(&f, path, &e));
        assert_ok(exchange_restore(to->nodes[i].x, &f, step, &e));
        tensor_file_close(&f);
        memcpy(to->nodes[i].params, from->nodes[i].params, N_PARAMS * sizeof(float));
        to->nodes[i].step.n_done = step;
    }
    unit_remove(dir);
}

/* Half of a job, its state saved, and the other half from there: the bits of the whole. */
TEST(a_rule_resumes_from_its_saved_state)
{
    static const struct cluster_config cases[] = {
        {.codec = "ps", .n_workers = 3, .n_servers = 2},
        {.codec = "easgd", .n_workers = 3, .local_steps = 3},
        {.codec = "easgd", .n_workers = 3, .n_servers = 1},
        {.codec = "gossip", .n_workers = 5},
        {.codec = "gossip", .options = "graph=exponential", .n_workers = 7},
        {.codec = "fedavg", .n_workers = 3, .local_steps = 2},
        {.codec = "fedpaq", .n_workers = 3, .local_steps = 2, .compress = "topk:ratio=0.2,ef=true"},
        {.codec = "fedpaq", .n_workers = 3, .n_servers = 2, .local_steps = 3},
        {.codec = "allreduce", .n_workers = 3},
        /* With one worker asgd does not depend on timing. */
        {.codec = "ps", .n_workers = 1, .n_servers = 2, .is_asgd = true},
        {.codec = "easgd", .n_workers = 1, .n_servers = 1, .local_steps = 2, .is_asgd = true},
        {.codec = "asgd", .n_workers = 1, .n_servers = 1, .local_steps = 3, .is_asgd = true},
        {.codec = "dc_asgd", .options = "mode=adaptive", .n_workers = 1, .n_servers = 1, .is_asgd = true},
        {.codec = "downpour", .options = "n_push=2", .n_workers = 1, .n_servers = 2, .is_asgd = true},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct cluster_config cfg = cases[k];
            struct cluster whole, half, rest;

            cfg.seed = seed;
            cfg.n_params = N_PARAMS;
            cfg.n_steps = 12;
            run_well(&whole, &cfg);
            cfg.n_steps = 6;
            run_well(&half, &cfg);
            cfg.n_steps = 12;
            cluster_open(&rest, &cfg);
            carry_over(&rest, &half, 6);
            assert_true(cluster_run(&rest));
            for (int i = 0; i < rest.n_nodes; i++) {
                if (rest.nodes[i].phase != NODE_DONE)
                    fail_msg("%s, node %d: %s", cfg.codec, rest.nodes[i].node, rest.nodes[i].e.text);
                assert_memory_equal(whole.nodes[i].params, rest.nodes[i].params, N_PARAMS * sizeof(float));
            }
            cluster_close(&rest);
            cluster_close(&half);
            cluster_close(&whole);
        }
}

/* A message of zeros, which begins with step 0 and block 0, from a node that has no part in the exchange, or
 * a second time. */
TEST(messages_that_a_correct_node_never_sends_are_refused)
{
    enum { WORKER_0, SERVER = 3 }; /* by slot */
    static const struct {
        const char *codec;
        int n_servers, to, from, n_before; /* n_before: as often the same message is right */
        size_t len;
        const char *why;
    } cases[] = {
        {"sync_replicas", 2, SERVER, -3, 0, 4 + 4 * N_PARAMS, "node -3 has no part in this exchange"},
        {"sync_replicas", 1, WORKER_0, 1, 0, 4 + 4 * N_PARAMS, "node 1 has no part in this exchange"},
        {"sync_replicas", 1, SERVER, 1, 1, 4 + 4 * N_PARAMS, "node 1 sent a malformed vector"},
        {"downpour", 2, SERVER, -3, 0, 8 + 4 * N_PARAMS, "node -3 has no part in this exchange"},
        {"downpour", 1, WORKER_0, 1, 0, 8 + 4 * N_PARAMS, "node 1 has no part in this exchange"},
        {"ndc", 0, 1, 0, 1, 8 + 4 * N_PARAMS, "worker 0 sent a slice twice"},
        {"ccdc", 0, 0, 1, 1, 8 + 4 * N_PARAMS, "worker 1 sent a message twice"},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct cluster_config cfg = {.codec = cases[k].codec,
                                     .n_workers = 3,
                                     .n_servers = cases[k].n_servers,
                                     .n_steps = 1,
                                     .is_asgd = cases[k].n_servers > 0,
                                     .n_params = N_PARAMS * (cases[k].n_servers > 1 ? 2 : 1)};
        struct cluster c;

        cluster_open(&c, &cfg);
        for (int i = 0; i <= cases[k].n_before; i++) {
            struct cluster_node *n = &c.nodes[cases[k].to];
            struct mesh_event ev = {.kind = MESH_MESSAGE,
                                    .head = {.kind = FRAME_EVENT, .peer = cases[k].from},
                                    .buf = mesh_buf_take(n->mesh)};

            ev.buf->len = cases[k].len;
            memset(ev.buf->bytes, 0, cases[k].len);
            if (i < cases[k].n_before)
                assert_true(exchange_on_event(n->x, &ev, &n->e) >= 0);
            else
                assert_int_equal(exchange_on_event(n->x, &ev, &n->e), ERR_CODEC);
        }
        if (!strstr(c.nodes[cases[k].to].e.text, cases[k].why))
            fail_msg("%s: %s", cases[k].codec, c.nodes[cases[k].to].e.text);
        cluster_close(&c);
    }
}

/* Every truncation of a valid message, and one that is too long. */
TEST(malformed_messages_are_refused)
{
    static const struct {
        struct cluster_config cfg;
        struct mesh_head head;
        int node; /* by slot: the receiver */
        size_t len, weight_at;
    } cases[] = {
        {{.codec = "gossip", .n_workers = 3}, {.kind = FRAME_EVENT, .peer = 1}, 0, 4 + 4 * N_PARAMS, 0},
        {{.codec = "easgd", .n_workers = 2, .n_servers = 1, .is_asgd = true},
         {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1},
         2,
         8 + 4 * N_PARAMS,
         4},
        {{.codec = "ps", .n_workers = 2, .n_servers = 1, .is_asgd = true},
         {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1},
         2,
         4 + 4 * N_PARAMS,
         0},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (size_t len = 0; len <= cases[k].len + 4; len++) {
            struct cluster_config cfg = cases[k].cfg;
            struct mesh_event ev = {.kind = MESH_MESSAGE, .head = cases[k].head};
            struct cluster_node *n;
            const float weight = 1;
            struct cluster c;
            int rc;

            cfg.n_params = N_PARAMS;
            cfg.n_steps = 1;
            cluster_open(&c, &cfg);
            n = &c.nodes[cases[k].node];
            ev.buf = mesh_buf_take(n->mesh);
            ev.buf->len = len;
            memset(ev.buf->bytes, 0, len);
            if (cases[k].weight_at > 0 && len >= cases[k].weight_at + sizeof weight)
                memcpy(ev.buf->bytes + cases[k].weight_at, &weight, sizeof weight);
            rc = exchange_on_event(n->x, &ev, &n->e);
            assert_int_equal(rc, len == cases[k].len ? CODEC_GO : ERR_CODEC);
            cluster_close(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported_jobs_are_refused_with_a_message),
        cmocka_unit_test(a_rule_resumes_from_its_saved_state),
        cmocka_unit_test(messages_that_a_correct_node_never_sends_are_refused),
        cmocka_unit_test(malformed_messages_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
