/* simulation -- the parameters of a simulated job that a real one gets from its machines: links, speeds and
 * failures of nodes. job_submit writes them as one document, sim/ reads it; the texts are parsed here, so
 * that both agree and an invalid one is refused before anything runs. */
#ifndef PSGD_SIMULATION_H
#define PSGD_SIMULATION_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { SIMULATION_PARTS = 64, SIMULATION_TEXT = 512, SIMULATION_STEPS = 16 };

struct simulation {
    uint64_t gradients;   /* length of stand-in gradients; 0: trains a network */
    char link[64];        /* of each worker: RATE,LATENCY[,JITTER] */
    char server_link[64]; /* of each server; "": that of workers */
    /* S,...: seconds of a step on a node of speed 1, one of them at random; "": measured, if a network is
     * trained. */
    char step_time[SIMULATION_TEXT];
    double eval_time_s;      /* of the test set; 0: measured */
    double codec_rate_mbps;  /* megabytes per second that a codec writes or reads; 0: measured, or no time */
    char overhead[64];       /* RATE,TIME of a message at each end; "": measured, or none */
    int workers_per_machine; /* they share a link; messages between them take no time on it */
    int processors;          /* shared by all nodes; 0: one for each */
    char speed[SIMULATION_TEXT];      /* X, X-Y or NODE=X,... */
    char straggler[32];               /* SHARE:FACTOR */
    char kill[SIMULATION_TEXT];       /* NODE@SECONDS,... */
    char cut[SIMULATION_TEXT];        /* NODES|NODES@FROM-TO,... */
    uint64_t timing_seed;             /* of random times and of the order of events; 0: the job's seed */
    int client_processes;             /* of a training program; 0: as many as processors */
    char trainer_python[PATH_MAX];    /* interpreter of one in Python; "": there is none */
    bool exhaustive;                  /* tries every order of deliveries */
    char replay[4 * SIMULATION_TEXT]; /* one of these orders, as printed by exhaustive */
};

struct sim_link {
    double bytes_per_s; /* each way; 0: any number */
    double latency_s;   /* one way */
    double jitter_s;    /* maximum of a random addition for each message */
};

struct sim_steps { /* seconds of a step on a node of speed 1: one of these, equally likely */
    int n;
    double s[SIMULATION_STEPS];
};

struct sim_overhead {   /* processor time of a message at the sender, and at the receiver */
    double bytes_per_s; /* 0: its bytes take no time */
    double message_s;
};

struct sim_speed {
    double low, high; /* drawn between them for each node */
    int n;
    struct {
        int node;
        double speed;
    } of[SIMULATION_PARTS]; /* nodes with their own speed */
};

struct sim_straggler {
    double share, factor; /* this fraction of all steps takes `factor` times as long */
};

struct sim_kills {
    int n;
    struct {
        int node;
        double at;
    } of[SIMULATION_PARTS];
};

struct sim_nodes { /* from first to last; 0-9 */
    int first, last;
};

struct sim_cuts {
    int n;
    struct sim_cut {
        struct sim_nodes side[2][SIMULATION_PARTS];
        int n_side[2];
        double from, to;
    } of[8];
};

void simulation_default(struct simulation *s);
/* ERR_CONFIG. Also checks the texts. */
int simulation_parse(struct simulation *s, const json_t *doc, struct err *e);
/* ERR_CONFIG: --speed, --kill or --cut names a node that the job does not have. */
int simulation_check(const struct simulation *s, int n_workers, int n_servers, struct err *e);
json_t *simulation_json(const struct simulation *s); /* NULL: no memory */

/* Each: ERR_CONFIG, with the syntax in the hint. */
int sim_link_parse(struct sim_link *out, const char *text, struct err *e);
int sim_steps_parse(struct sim_steps *out, const char *text, struct err *e);
int sim_overhead_parse(struct sim_overhead *out, const char *text, struct err *e);
int sim_speed_parse(struct sim_speed *out, const char *text, struct err *e);
int sim_straggler_parse(struct sim_straggler *out, const char *text, struct err *e);
int sim_kills_parse(struct sim_kills *out, const char *text, struct err *e);
int sim_cuts_parse(struct sim_cuts *out, const char *text, struct err *e);
bool sim_cut_has(const struct sim_cut *c, int side, int node);

#endif
