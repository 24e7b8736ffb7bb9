#include "shared/job/simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"

#define F(name, json_type, ...)                                                                              \
    {                                                                                                        \
        .key = #name, .kind = json_type, JSON_AT(struct simulation, name), __VA_ARGS__                       \
    }

static const struct json_field fields[] = {
    F(gradients, JSON_FIELD_U64, .min = 0, .max = 1e9),
    F(link, JSON_FIELD_TEXT, .required = false),
    F(server_link, JSON_FIELD_TEXT, .required = false),
    F(step_time, JSON_FIELD_TEXT, .required = false),
    F(eval_time_s, JSON_FIELD_DOUBLE, .min = 0, .max = 1e6),
    F(codec_rate_mbps, JSON_FIELD_DOUBLE, .min = 0, .max = 1e9),
    F(overhead, JSON_FIELD_TEXT, .required = false),
    F(workers_per_machine, JSON_FIELD_INT, .min = 1, .max = 1e6),
    F(processors, JSON_FIELD_INT, .min = 0, .max = 1e6),
    F(speed, JSON_FIELD_TEXT, .required = false),
    F(straggler, JSON_FIELD_TEXT, .required = false),
    F(kill, JSON_FIELD_TEXT, .required = false),
    F(cut, JSON_FIELD_TEXT, .required = false),
    F(timing_seed, JSON_FIELD_U64, .required = false, .min = 0, .max = 1e15),
    F(client_processes, JSON_FIELD_INT, .required = false, .min = 0, .max = 1024),
    F(trainer_python, JSON_FIELD_TEXT, .required = false),
    F(exhaustive, JSON_FIELD_BOOL, .required = false),
    F(replay, JSON_FIELD_TEXT, .required = false),
    {0},
};

/* Beyond these limits times are meaningless, and their sums lose short times to rounding. */
#define RATE_MIN            1.0 /* bytes a second */
#define RATE_MAX            1e15
#define TIME_MAX_S          1e6
#define STEP_MIN_S          1e-9
#define FACTOR_MIN          1e-6 /* slower, or faster, than a node of speed 1 */
#define FACTOR_MAX          1e6
#define CODEC_RATE_MIN_MBPS 1e-6

void simulation_default(struct simulation *s)
{
    *s = (struct simulation){
        .link = "10Gbit,0.1ms", .workers_per_machine = 1, .speed = "1", .straggler = "0:1"};
}

json_t *simulation_json(const struct simulation *s)
{
    return json_from_struct(s, fields);
}

int simulation_parse(struct simulation *s, const json_t *doc, struct err *e)
{
    struct simulation t;
    struct sim_straggler straggler;
    struct sim_overhead overhead;
    struct sim_steps steps;
    struct sim_speed speed;
    struct sim_kills kills;
    struct sim_cuts cuts;
    struct sim_link link;

    simulation_default(&t);
    if (json_to_struct(&t, doc, fields, "", e) < 0 || sim_link_parse(&link, t.link, e) < 0 ||
        (t.server_link[0] && sim_link_parse(&link, t.server_link, e) < 0) ||
        (t.step_time[0] && sim_steps_parse(&steps, t.step_time, e) < 0) ||
        (t.overhead[0] && sim_overhead_parse(&overhead, t.overhead, e) < 0) ||
        sim_speed_parse(&speed, t.speed, e) < 0 || sim_straggler_parse(&straggler, t.straggler, e) < 0 ||
        sim_kills_parse(&kills, t.kill, e) < 0 || sim_cuts_parse(&cuts, t.cut, e) < 0)
        return e->code;
    if (t.codec_rate_mbps > 0 && t.codec_rate_mbps < CODEC_RATE_MIN_MBPS)
        return err_set(e, ERR_CONFIG, "/codec_rate_mbps: %.15g is not between %g and 1e+09",
                       t.codec_rate_mbps, CODEC_RATE_MIN_MBPS);
    *s = t;
    return 0;
}

static bool is_between(double v, double min, double max)
{
    return v >= min && v <= max;
}

/* Parses a non-negative number at *at and moves *at after it. */
static bool take_number(const char **at, double *out)
{
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    *out = strtod(*at, &end);
    *at = end;
    return isfinite(*out);
}

/* Parses a node's number; servers' are negative. */
static bool take_node(const char **at, int *out)
{
    bool is_server = **at == '-';
    double v;

    *at += is_server;
    if (!take_number(at, &v) || v > 1e6 || v != floor(v))
        return false;
    *out = is_server ? -(int)v : (int)v;
    return true;
}

static bool take_unit(const char **at, const char *const *choices, const double *values, double *factor)
{
    for (int i = 0; choices[i]; i++)
        if (strncmp(*at, choices[i], strlen(choices[i])) == 0) {
            *at += strlen(choices[i]);
            *factor = values[i];
            return true;
        }
    return false;
}

static bool take_rate(const char **at, double *bytes_per_s)
{
    static const char *const choices[] = {"Gbit", "Mbit", "kbit", NULL};
    static const double values[] = {1e9 / 8, 1e6 / 8, 1e3 / 8};
    double v, factor;

    if (strncmp(*at, "any", 3) == 0) {
        *at += 3;
        *bytes_per_s = 0;
        return true;
    }
    if (!take_number(at, &v) || !take_unit(at, choices, values, &factor))
        return false;
    *bytes_per_s = v * factor;
    return is_between(*bytes_per_s, RATE_MIN, RATE_MAX);
}

static bool take_time(const char **at, double *seconds)
{
    static const char *const choices[] = {"ms", "us", "s", NULL};
    static const double values[] = {1e-3, 1e-6, 1};
    double v, factor;

    if (!take_number(at, &v) || !take_unit(at, choices, values, &factor))
        return false;
    *seconds = v * factor;
    return *seconds <= TIME_MAX_S;
}

int sim_link_parse(struct sim_link *out, const char *text, struct err *e)
{
    struct sim_link l = {0};
    const char *at = text;

    if (!take_rate(&at, &l.bytes_per_s) || *at++ != ',' || !take_time(&at, &l.latency_s) ||
        (*at == ',' && (at++, !take_time(&at, &l.jitter_s))) || *at) {
        err_set(e, ERR_CONFIG, "\"%s\" is not a link", text);
        return err_hint(e, "A link is RATE,LATENCY[,JITTER], as 100Mbit,20ms or any,0s: kbit, Mbit or Gbit a "
                           "second, us, ms or s; from 0.008kbit to 8000000Gbit, and up to 1000000s.");
    }
    *out = l;
    return 0;
}

static int bad_steps(const char *text, struct err *e)
{
    err_set(e, ERR_CONFIG, "\"%s\" is not the time of a step", text);
    return err_hint(
        e,
        "A time is S, or up to %d of them separated by commas: seconds, from 1e-9 to 1e6. Each step takes "
        "one of them at random.",
        SIMULATION_STEPS);
}

int sim_steps_parse(struct sim_steps *out, const char *text, struct err *e)
{
    struct sim_steps s = {0};
    const char *at = text;

    do {
        if (s.n == SIMULATION_STEPS || !take_number(&at, &s.s[s.n]) ||
            !is_between(s.s[s.n], STEP_MIN_S, TIME_MAX_S))
            return bad_steps(text, e);
        s.n++;
    } while (*at++ == ',');
    if (at[-1])
        return bad_steps(text, e);
    *out = s;
    return 0;
}

int sim_overhead_parse(struct sim_overhead *out, const char *text, struct err *e)
{
    struct sim_overhead o = {0};
    const char *at = text;

    if (!take_rate(&at, &o.bytes_per_s) || *at++ != ',' || !take_time(&at, &o.message_s) || *at) {
        err_set(e, ERR_CONFIG, "\"%s\" is not an overhead", text);
        return err_hint(e,
                        "An overhead is RATE,TIME, as 12Gbit,5us or any,0s: processor time of a node for the "
                        "bytes of a message, and per message.");
    }
    *out = o;
    return 0;
}

static int bad_speed(const char *text, struct err *e)
{
    err_set(e, ERR_CONFIG, "\"%s\" is not a speed", text);
    return err_hint(e,
                    "A speed is X for all nodes, X-Y drawn between the two for each, or NODE=X,... for some; "
                    "all from 1e-6 to 1e6, and 2 is twice as fast as 1.");
}

int sim_speed_parse(struct sim_speed *out, const char *text, struct err *e)
{
    struct sim_speed s = {.low = 1, .high = 1};
    const char *at = text;

    if (!strchr(text, '=')) {
        if (!take_number(&at, &s.low))
            return bad_speed(text, e);
        s.high = s.low;
        if ((*at == '-' && (at++, !take_number(&at, &s.high))) || *at ||
            !is_between(s.low, FACTOR_MIN, FACTOR_MAX) || !is_between(s.high, s.low, FACTOR_MAX))
            return bad_speed(text, e);
        *out = s;
        return 0;
    }
    for (; s.n == 0 || *at++ == ','; s.n++)
        if (s.n == SIMULATION_PARTS || !take_node(&at, &s.of[s.n].node) || *at++ != '=' ||
            !take_number(&at, &s.of[s.n].speed) || !is_between(s.of[s.n].speed, FACTOR_MIN, FACTOR_MAX))
            return bad_speed(text, e);
    if (at[-1])
        return bad_speed(text, e);
    *out = s;
    return 0;
}

int sim_straggler_parse(struct sim_straggler *out, const char *text, struct err *e)
{
    struct sim_straggler s;
    const char *at = text;

    if (!take_number(&at, &s.share) || *at++ != ':' || !take_number(&at, &s.factor) || *at || s.share > 1 ||
        !is_between(s.factor, 1, FACTOR_MAX)) {
        err_set(e, ERR_CONFIG, "\"%s\" is not a straggler", text);
        return err_hint(
            e,
            "A straggler is SHARE:FACTOR, as 0.05:10: one step in twenty takes ten times as long. FACTOR is "
            "from 1 to 1e6.");
    }
    *out = s;
    return 0;
}

static int bad_kill(const char *text, struct err *e)
{
    err_set(e, ERR_CONFIG, "\"%s\" is not a list of node losses", text);
    return err_hint(
        e, "It is NODE@TIME, several are separated by commas: 3@1.5s,-2@900ms. A time has its unit: us, "
           "ms or s.");
}

int sim_kills_parse(struct sim_kills *out, const char *text, struct err *e)
{
    struct sim_kills k = {0};
    const char *at = text;

    for (; text[0] && (k.n == 0 || *at++ == ','); k.n++)
        if (k.n == SIMULATION_PARTS || !take_node(&at, &k.of[k.n].node) || *at++ != '@' ||
            !take_time(&at, &k.of[k.n].at))
            return bad_kill(text, e);
    if (k.n > 0 && at[-1])
        return bad_kill(text, e);
    *out = k;
    return 0;
}

/* Parses a set of nodes; "0-3+7": nodes 0 to 3, and 7. */
static bool take_side(const char **at, struct sim_cut *c, int side)
{
    int *n = &c->n_side[side];

    do {
        struct sim_nodes *s = &c->side[side][*n];

        if (*n == SIMULATION_PARTS || !take_node(at, &s->first))
            return false;
        s->last = s->first;
        if (**at == '-' && (++*at, !take_node(at, &s->last)))
            return false;
        ++*n;
    } while (**at == '+' && ++*at);
    return true;
}

static bool take_cut(const char **at, struct sim_cut *c)
{
    return take_side(at, c, 0) && *(*at)++ == '|' && take_side(at, c, 1) && *(*at)++ == '@' &&
           take_time(at, &c->from) && *(*at)++ == '-' && take_time(at, &c->to) && c->to > c->from;
}

static int bad_cut(const char *text, struct err *e)
{
    err_set(e, ERR_CONFIG, "\"%s\" is not a cut", text);
    return err_hint(
        e, "A cut is NODES|NODES@FROM-TO, as 0-3+7|4-6@2s-5s: nothing gets through between them from "
           "second 2 to second 5. Several are separated by commas.");
}

int sim_cuts_parse(struct sim_cuts *out, const char *text, struct err *e)
{
    const char *at = text;

    *out = (struct sim_cuts){0};
    for (; text[0] && (out->n == 0 || *at++ == ','); out->n++)
        if (out->n == (int)(sizeof out->of / sizeof *out->of) || !take_cut(&at, &out->of[out->n]))
            return bad_cut(text, e);
    return out->n > 0 && at[-1] ? bad_cut(text, e) : 0;
}

bool sim_cut_has(const struct sim_cut *c, int side, int node)
{
    for (int i = 0; i < c->n_side[side]; i++)
        if (node >= c->side[side][i].first && node <= c->side[side][i].last)
            return true;
    return false;
}

/* The numbers of workers and servers of a job, to check nodes named in a text. */
struct node_counts {
    int n_workers, n_servers;
};

static int check_node(const struct node_counts *c, const char *option, int node, struct err *e)
{
    if (node < 0 ? node <= -2 && node >= -1 - c->n_servers : node < c->n_workers)
        return 0;
    err_set(e, ERR_CONFIG, "--%s: there is no node %d", option, node);
    return err_hint(e, "Workers are 0 to %d%s.", c->n_workers - 1,
                    c->n_servers > 0 ? ", servers -2, -3 and so on" : ", and the job has no servers");
}

static int check_cut(const struct node_counts *c, const struct sim_cut *cut, struct err *e)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < cut->n_side[side]; i++) {
            const struct sim_nodes *s = &cut->side[side][i];

            if (s->last < s->first)
                return err_set(e, ERR_CONFIG, "--cut: no node is from %d to %d", s->first, s->last);
            if (check_node(c, "cut", s->first, e) < 0 || check_node(c, "cut", s->last, e) < 0)
                return e->code;
        }
    return 0;
}

int simulation_check(const struct simulation *s, int n_workers, int n_servers, struct err *e)
{
    const struct node_counts counts = {n_workers, n_servers};
    struct sim_speed speed;
    struct sim_kills kills;
    struct sim_cuts cuts;

    if (sim_speed_parse(&speed, s->speed, e) < 0 || sim_kills_parse(&kills, s->kill, e) < 0 ||
        sim_cuts_parse(&cuts, s->cut, e) < 0)
        return e->code;
    for (int i = 0; i < speed.n; i++)
        if (check_node(&counts, "speed", speed.of[i].node, e) < 0)
            return e->code;
    for (int i = 0; i < kills.n; i++)
        if (check_node(&counts, "kill", kills.of[i].node, e) < 0)
            return e->code;
    for (int i = 0; i < cuts.n; i++)
        if (check_cut(&counts, &cuts.of[i], e) < 0)
            return e->code;
    return 0;
}
