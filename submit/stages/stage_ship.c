/* ship: preCommit, sends each node the packages it lacks, in the order it lists them; a blob that the agent
 * already has is not sent again. Ends when every node is ready, or when one has ended. All nodes are served
 * concurrently, at most SENDING_MAX of them sending. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/trainer/trainer_link.h"
#include "submit/job/node_reservation.h"
#include "submit/stages/silence.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { SENDING_MAX = 32 };

/* From one report that a node is not ready to the next; most time from its last package until it is. */
static const double WAIT_REPORT_S = 10, READY_S = 120;

/* A slower transfer of a blob counts as stuck. */
static const double least_bytes_per_s = 50e3;

enum ship_state { SHIP_NEXT, SHIP_HEAD, SHIP_PUT, SHIP_BIND, SHIP_DONE };

/* Progress of one node through its packages. */
struct shipment {
    struct job_node *node;
    enum ship_state state;
    int package, file, n_files;
    struct package_file files[PACKAGE_FILES_MAX];
    char *body;       /* of the package being bound */
    bool is_reported; /* the node was reported as ready */
};

static int ask_head(struct submission *s, struct shipment *x, struct err *e)
{
    x->state = SHIP_HEAD;
    return node_ask(s->http, x->node, "HEAD", NULL, 0, e, "/v1/blobs/sha256/%s", x->files[x->file].blob->hex);
}

static int put_blob(struct submission *s, struct shipment *x, struct err *e)
{
    const struct blob *b = x->files[x->file].blob;
    char amount[TEXT_AMOUNT];

    x->state = SHIP_PUT;
    console_more("node(%d): sending %s, %s.", x->node->at.node, x->files[x->file].name,
                 text_bytes(amount, b->len));
    return node_put_blob(s->http, x->node, b->hex, b->bytes, b->fd, b->len,
                         CALL_S + (double)b->len / least_bytes_per_s, e);
}

static int bind_package(struct submission *s, struct shipment *x, struct err *e)
{
    json_t *o = node_package_json(x->files, x->n_files);

    free(x->body);
    x->body = o ? json_line(o) : NULL;
    json_decref(o);
    if (!x->body)
        return err_set(e, ERR_NOMEM, "no memory");
    x->state = SHIP_BIND;
    return node_ask(s->http, x->node, "PUT", x->body, strlen(x->body), e, "/v1/jobs/%s/packages/%s", s->id,
                    package_names[x->package]);
}

static int next_file(struct submission *s, struct shipment *x, struct err *e)
{
    return x->file < x->n_files ? ask_head(s, x, e) : bind_package(s, x, e);
}

static int next_package(struct submission *s, struct shipment *x, struct err *e)
{
    while (x->package < N_PACKAGES && !x->node->view.lacks[x->package])
        x->package++;
    if (x->package == N_PACKAGES) {
        x->state = SHIP_DONE;
        return 0;
    }
    x->file = 0;
    x->n_files = node_package_files(x->files, s, x->node, (enum package)x->package);
    return next_file(s, x, e);
}

/* Handles a call that has failed. An agent that does not answer may return, and then gets the package anew.
 * An agent often refuses because its node has ended; that end has the reason, so this waits for it. */
static int handle_failure(struct submission *s, struct shipment *x, struct err *e)
{
    if (e->code == ERR_UNREACHABLE) {
        silence_begin(s, x->node, e, true);
        x->state = SHIP_NEXT;
        return 0;
    }
    return silence_await_end(s, e);
}

/* Handles the answer to the call of the present state and starts the next call. */
static int advance_shipment(struct submission *s, struct shipment *x, struct err *e)
{
    if (x->state == SHIP_HEAD && x->node->call.err.code == 0 && x->node->call.status == 404)
        return put_blob(s, x, e);
    if (x->state != SHIP_NEXT && node_answer(x->node, e) < 0)
        return handle_failure(s, x, e);
    if (x->state == SHIP_HEAD || x->state == SHIP_PUT) {
        x->file++;
        return next_file(s, x, e);
    }
    if (x->state == SHIP_BIND) {
        console_info("Reply requirements to node(%d), type(%s).", x->node->at.node,
                     package_names[x->package]);
        x->package++;
    }
    return next_package(s, x, e);
}

/* "0, 1, 2"; of many nodes only the first ones. */
static void list_ready(char list[256], const struct submission *s, const struct shipment *x)
{
    const size_t room = 256 - sizeof "-12345, ...";
    size_t k = 0;

    list[0] = '\0';
    for (size_t i = 0; i < s->n_nodes && k < room; i++)
        if (x[i].is_reported)
            k += (size_t)snprintf(list + k, 256 - k, "%s%d", k ? ", " : "", x[i].node->at.node);
    if (k >= room)
        snprintf(list + k, 256 - k, ", ...");
}

/* Reports nodes that have become ready; returns the number of ready nodes. A node does not count before its
 * agent has answered to the last package, even if the event that it is ready comes earlier. */
static size_t report_ready(const struct submission *s, struct shipment *x)
{
    char list[256];
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        if (x[i].node->is_ready && x[i].state != SHIP_BIND && !x[i].is_reported) {
            x[i].is_reported = true;
            x[i].node->has_state_change = false; /* reported by the line below */
            list_ready(list, s, x);
            console_info("Node(%d) is ready, %zu nodes total, {%s} is ready.", x[i].node->at.node, s->n_nodes,
                         list);
        }
        n += x[i].is_reported;
    }
    return n;
}

/* Advances every shipment as far as possible without waiting. */
static int step_all(struct submission *s, struct shipment *x, struct err *e)
{
    int sending = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        sending += x[i].state != SHIP_NEXT && x[i].state != SHIP_DONE;
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (x[i].state == SHIP_DONE || x[i].node->call.busy || x[i].node->silent_since > 0 ||
            (x[i].state == SHIP_NEXT && sending >= SENDING_MAX))
            continue;
        sending += x[i].state == SHIP_NEXT;
        x[i].node->is_probed = false; /* its next call is no probe */
        if (advance_shipment(s, &x[i], e) < 0)
            return e->code;
        if (submission_count_ended(s) > 0)
            return 0;
    }
    return 0;
}

/* When waiting nodes are reported again, and when waiting ends. */
struct ready_wait {
    double reported_at, until; /* clock_now; `until` is extended while packages are sent */
};

/* A node of a training program is ready when the program stands before its first step; the node ends before
 * this limit, with its own sentence. */
static double ready_limit(const struct submission *s)
{
    return READY_S + (s->settings.trainer[0] ? TRAINER_START_S : 0);
}

static int check_node_wait(const struct submission *s, const struct shipment *x, struct ready_wait *p,
                           struct err *e)
{
    const struct job_node *n = x->node;
    char until[TEXT_AMOUNT];

    if (x->is_reported || n->silent_since > 0)
        return 0;
    if (clock_now() > p->until)
        return err_set(e, ERR_LOST, "node(%d): not ready within %g s of its last package (%s)", n->at.node,
                       ready_limit(s), n->view.message[0] ? n->view.message : job_state_name(n->view.state));
    if (clock_now() - p->reported_at > WAIT_REPORT_S) {
        p->reported_at = clock_now();
        console_info("Waiting until %s for node(%d), %s: %s%s%s%s",
                     text_hour(until, clock_wall() + p->until - clock_now()), n->at.node, n->label,
                     job_state_name(n->view.state), n->view.message[0] ? ", " : "", n->view.message,
                     text_stop(n->view.message));
    }
    return 0;
}

static int check_waits(struct submission *s, struct shipment *x, struct ready_wait *p, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        if (x[i].state == SHIP_DONE || x[i].state == SHIP_NEXT) /* its call belongs to no package */
            silence_follow(s, x[i].node);
        if (x[i].state != SHIP_DONE || x[i].node->silent_since > 0)
            p->until = clock_now() + ready_limit(s);
    }
    for (size_t i = 0; i < s->n_nodes; i++)
        if (check_node_wait(s, &x[i], p, e) < 0)
            return e->code;
    submission_keep_lease(s);
    return submission_check_time(s, e);
}

static int ship_packages(struct submission *s, struct shipment *x, struct err *e)
{
    struct ready_wait p = {.reported_at = clock_now(), .until = clock_now() + ready_limit(s)};

    while (report_ready(s, x) < s->n_nodes && submission_count_ended(s) == 0) {
        if (step_all(s, x, e) < 0)
            return e->code;
        http_poll(s->http, 0.2);
        if (submission_count_ended(s) > 0)
            break; /* the ended node is the cause, even if others are lost or late */
        if (check_waits(s, x, &p, e) < 0)
            return e->code;
    }
    return 0;
}

/* Prints how much data may have to be sent at most, and the time that takes. */
static void print_estimate(const struct submission *s)
{
    char amount[TEXT_AMOUNT], time[TEXT_AMOUNT];
    uint64_t bytes = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        for (int p = 0; p < N_PACKAGES; p++) {
            struct package_file files[PACKAGE_FILES_MAX];
            int n = s->nodes[i].view.lacks[p] ? node_package_files(files, s, &s->nodes[i], (enum package)p)
                                              : 0;

            for (int k = 0; k < n; k++)
                bytes += files[k].blob->len;
        }
    console_info("Packages: at most %s to ship, about %s at %g Mbit/s.", text_bytes(amount, bytes),
                 text_seconds(time, (double)bytes * 8e-6 / s->opt->bandwidth_mbps), s->opt->bandwidth_mbps);
}

/* Asks for the packages that each node lacks and the port of its data plane: a reservation that has waited in
 * a queue got them since. */
static int refresh_nodes(struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (node_ask(s->http, &s->nodes[i], "GET", NULL, 0, e, "/v1/jobs/%s", s->id) < 0)
            return e->code;
    submission_finish_calls(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        if (node_answer(&s->nodes[i], e) < 0 || node_take_view(&s->nodes[i], e) < 0)
            return e->code;
    return 0;
}

int stage_ship(struct submission *s, struct err *e)
{
    struct shipment *x = calloc(s->n_nodes, sizeof *x);
    int rc = x ? refresh_nodes(s, e) : err_set(e, ERR_NOMEM, "no memory for %zu nodes", s->n_nodes);

    for (size_t i = 0; x && i < s->n_nodes; i++)
        x[i].node = &s->nodes[i];
    if (rc == 0) {
        print_estimate(s);
        rc = ship_packages(s, x, e);
    }
    for (size_t i = 0; x && i < s->n_nodes; i++) {
        http_clear(s->http, &s->nodes[i].call);
        free(x[i].body);
    }
    free(x);
    return rc;
}
