/* collect -- what the nodes of a job leave behind comes home. stage_collect.c has the table of artifacts and
 * their downloads; what becomes of each kind is in the functions below. */
#ifndef PSGD_SUBMIT_COLLECT_H
#define PSGD_SUBMIT_COLLECT_H

#include "submit/results/records.h"
#include "submit/stages/submission.h"

/* One node's part of the collection. */
struct yield {
    struct node *node;
    struct artifact_list list;
    bool is_received;
    int fd;            /* the artifact on its way; 0: none */
    const char *bytes; /* the artifact once it is here, mapped; NULL: it is not */
    size_t len;
};

struct collection {
    struct submission *s;
    struct yield *yields; /* (s->n_nodes) */
    bool is_missing;      /* what should be there and is not */
};

enum artifact_flags {
    OF_SERVERS = 1,      /* a server has it too */
    NEEDED = 2,          /* its lack after a success is a fault */
    ONE_IS_ENOUGH = 4,   /* all workers have the same, and their sums are in their lists */
    ONLY_IF_ASKED = 8,   /* with --trace */
    ONLY_IF_FAILED = 16, /* no use after a success */
    OF_THEIR_CODEC = 32, /* of one server instead of a worker, where servers have another codec */
    END_IS_ENOUGH = 64   /* of what is longer than `max`; `live` takes ?after=BYTES */
};

/* What a node may leave behind. */
struct artifact {
    const char *name;
    const char *live; /* where it is read while the job still runs; NULL: nowhere */
    const char *from; /* where it is read instead of among the artifacts; NULL: it is one of them */
    uint64_t max;     /* bytes; 0: as many as a model has */
    unsigned flags;
    /* Puts what the nodes gave (yields with bytes) into the folder. */
    int (*keep)(struct collection *c, const struct artifact *a, struct err *e);
    int (*check)(const struct yield *y, struct err *e); /* of one download; NULL: anything will do */
    enum record_kind kind;                              /* of collect_records */
    const char *ending; /* of collect_checkpoints, as start_checkpoint_name has it; of collect_codec */
};

/* Says that this lacks, and why; the results are incomplete then, unless the job bears the node's failure. */
void collect_miss(struct collection *c, const struct node *n, const char *what, const char *why);

int collect_records(struct collection *c, const struct artifact *a, struct err *e);
int collect_events(struct collection *c, const struct artifact *a, struct err *e);
int collect_logs(struct collection *c, const struct artifact *a, struct err *e);
int collect_model(struct collection *c, const struct artifact *a, struct err *e);
/* Into codec/NAME.c, with which the job can be submitted again, and codec/NAME.json, which says what was made
 * of it. */
int collect_codec(struct collection *c, const struct artifact *a, struct err *e);
int collect_checkpoints(struct collection *c, const struct artifact *a, struct err *e);
/* Not into the folder: to where --trace says. The nodes keep their parts, so that a fetch can try again. */
int collect_trace(struct collection *c, const struct artifact *a, struct err *e);

/* Is it a file of tensors? */
int collect_check_model(const struct yield *y, struct err *e);

#endif
