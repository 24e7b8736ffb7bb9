/* simulation -- what a simulated job has that a real one brings with it: links, how fast nodes are, and
 * what befalls them. job_submit writes it as one document, sim/ reads it; the texts are parsed here, so
 * that both agree and a wrong one is refused before anything runs. */
#ifndef PSGD_SIMULATION_H
#define PSGD_SIMULATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

enum { SIMULATION_PARTS = 64, SIMULATION_TEXT = 512, SIMULATION_STEPS = 16 };

struct simulation {
    uint64_t gradients;   /* stand-in gradients of so many numbers; 0: a network is trained */
    char link[64];        /* of each worker: RATE,LATENCY[,JITTER] */
    char server_link[64]; /* of each server; "": as the workers' */
    /* S,...: a node of speed 1 computes a step in it, in one of them by lot; "": measured, where a network is
     * trained. */
    char step_time[SIMULATION_TEXT];
    double eval_time_s;     /* the test set's; 0: measured */
    double codec_rate_mbps; /* megabytes a second that a codec writes or reads; 0: measured, or no time */
    char overhead[64];      /* RATE,TIME: of a message at each end; "": measured, or none */
    int processors;         /* that all nodes share; 0: each has its own */
    char speed[SIMULATION_TEXT];      /* X, X-Y or NODE=X,... */
    char straggler[32];               /* SHARE:FACTOR */
    char kill[SIMULATION_TEXT];       /* NODE@SECONDS,... */
    char cut[SIMULATION_TEXT];        /* NODES|NODES@FROM-TO,... */
    bool exhaustive;                  /* every order of deliveries is tried */
    char replay[4 * SIMULATION_TEXT]; /* one of them: what exhaustive has printed */
};

struct sim_link {
    double bytes_per_s; /* each way; 0: any number */
    double latency_s;   /* one way */
    double jitter_s;    /* up to so much more, drawn for each message */
};

struct sim_steps { /* what a step takes a node of speed 1: one of these, all equally often */
    int n;
    double s[SIMULATION_STEPS];
};

struct sim_overhead {   /* what a message takes the processor of who sends it, and of who hears it */
    double bytes_per_s; /* 0: its bytes take no time */
    double message_s;
};

struct sim_speed {
    double low, high; /* drawn for each node between them */
    int n;
    struct {
        int node;
        double speed;
    } of[SIMULATION_PARTS]; /* these have their own */
};

struct sim_straggler {
    double share, factor; /* that share of all steps takes so many times as long */
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
/* ERR_CONFIG. Texts are checked, too. */
int simulation_parse(struct simulation *s, const json_t *doc, struct err *e);
/* ERR_CONFIG: --speed, --kill or --cut speaks of a node that the job does not have. */
int simulation_check(const struct simulation *s, int n_workers, int n_servers, struct err *e);
json_t *simulation_json(const struct simulation *s); /* NULL: no memory */

/* Each: ERR_CONFIG with what the text should be. */
int sim_link_parse(struct sim_link *out, const char *text, struct err *e);
int sim_steps_parse(struct sim_steps *out, const char *text, struct err *e);
int sim_overhead_parse(struct sim_overhead *out, const char *text, struct err *e);
int sim_speed_parse(struct sim_speed *out, const char *text, struct err *e);
int sim_straggler_parse(struct sim_straggler *out, const char *text, struct err *e);
int sim_kills_parse(struct sim_kills *out, const char *text, struct err *e);
int sim_cuts_parse(struct sim_cuts *out, const char *text, struct err *e);
bool sim_cut_has(const struct sim_cut *c, int side, int node);

#endif
