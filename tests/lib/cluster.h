/* cluster -- all nodes of a job in one thread, over mesh_mem, with synthetic gradients. The exchange and the
 * worker (runner/core/worker.h) are those of the runner; the order in which nodes run and messages arrive
 * depends on the seed. */
#ifndef PSGD_TEST_CLUSTER_H
#define PSGD_TEST_CLUSTER_H

#include "runner/core/worker.h"
#include "shared/plugin/codec_load.h"
#include "tests/lib/mesh_mem.h"

#define CLUSTER_LR 0.125f /* of the nodes' gradient descent */

struct cluster_config {
    const char *codec; /* name in build/codecs, or in build/tests/codecs as "tests/NAME" */
    const char *options, *compress, *compress_down;
    int n_workers, n_servers, redundancy;
    enum block_assignment assignment;
    bool is_asgd;
    bool is_fed; /* mini-batches are shared: exchange/feed.h. cluster_run() requests none */
    int goes_on; /* continue without lost nodes, while so many workers remain; 0: no */
    enum combine_path_kind path;
    struct aggregate aggregate;
    int n_drawn;      /* workers that take part in a round; 0: all */
    double clip_norm; /* of updates on servers, without running statistics; 0: no limit */
    enum collective_algorithm allreduce;
    uint64_t local_steps, n_steps;
    uint64_t eval_every;    /* 0: workers evaluate nothing */
    double target_accuracy; /* of exchange_config, as the next one */
    int patience;
    bool has_trainer;        /* of exchange_config, for tests that drive the nodes by hand */
    bool saves;              /* the same */
    bool shares_evaluations; /* also without the two */
    /* The accuracy that a worker finds after that step; NULL: none */
    double (*accuracy)(int worker, uint64_t step);
    size_t n_test_sums; /* of exchange_config: workers evaluate on parts, with the sums of cluster_sum() */
    enum overlap overlap;
    size_t n_params, n_statistics; /* the last of them are running statistics, exchanged as such */
    uint64_t seed;
    /* Of exchange_config, over three layers: gradients are exchanged while they are computed. */
    size_t bucket;
    bool is_convex;        /* the gradient draws the params of worker k towards cluster_target(k, i) */
    int kill_node;         /* with kill_at > 0: the node that is killed ... */
    uint64_t kill_at;      /* ... after so many turns of the cluster */
    uint64_t kill_next_at; /* > 0: the node after it, too */
};

struct cluster_node {
    int node;
    float *params, *grads;
    struct codec_layer layers[3];
    int *blocks, n_blocks;
    struct step step;
    struct worker worker;
    int wants; /* enum worker_wants: what it does next, or waits for */
    struct worker_request request;
    double clip_norm;
    size_t n_trained;
    enum { NODE_RUNS, NODE_DONE, NODE_FAILED, NODE_KILLED } phase;
    struct exchange *x;
    struct mesh *mesh;
    struct err e;
    struct {
        char name[40];
        double value;
        int n;
    } record; /* the last one, and their number */
};

struct cluster {
    struct cluster_config cfg;
    const struct codec_library *lib; /* borrowed: it stays loaded */
    struct blocks blocks;
    struct settings set;
    struct schedule schedule;
    struct mesh_mem *net;
    int n_nodes;
    struct cluster_node *nodes; /* workers, then servers */
};

/* Loads the codec, which stays loaded. */
const struct codec_library *cluster_library(const char *codec);

void cluster_open(struct cluster *c, const struct cluster_config *cfg);
/* Runs until every node is done or has failed; false: they hang (no event is left). */
bool cluster_run(struct cluster *c);
void cluster_close(struct cluster *c);

/* The synthetic gradient of a block in a step, independent of params. */
float cluster_gradient(uint64_t step, int block, size_t i);
float cluster_target(int block, size_t i);
/* What a worker measures on its part of the test set after that step: number i. */
double cluster_sum(int worker, uint64_t step, size_t i);
const char *test_build_dir(void); /* $BUILD, as tests/run sets it */
enum { TEST_CODEC_PATH = 512 };
/* The path of the codec of this name, which is as cluster_config.codec. */
void test_codec_path(char out[TEST_CODEC_PATH], const char *codec);

#endif
