/* ship: preCommit, names to each node the blobs of all packages that it lacks, sends those that its agent
 * does not have yet, and names them again. Ends when every node is ready, or when one has ended. All nodes
 * are served concurrently, at most SENDING_MAX of them sending. */
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

enum ship_state { SHIP_NEXT, SHIP_NAME, SHIP_PUT, SHIP_DONE };

enum { FILES_MAX = N_PACKAGES * PACKAGE_FILES_MAX };

/* Progress of one node through its packages. */
struct shipment {
    struct job_node *node;
    enum ship_state state;
    char *body; /* that names the packages */
    /* Files that its agent did not have when they were named, and the one that is sent. */
    struct package_file files[FILES_MAX];
    int n_files, file;
    bool has_sent;    /* the agent has got all that it had not */
    bool is_reported; /* the node was reported as ready */
};

/* The files of the packages that the node lacks. */
static int lacking_files(struct package_file files[FILES_MAX], const struct submission *s,
                         const struct job_node *n)
{
    int n_files = 0;

    for (int p = 0; p < N_PACKAGES; p++)
        n_files += n->view.lacks[p] ? node_package_files(files + n_files, s, n, (enum package)p) : 0;
    return n_files;
}

static char *packages_line(const struct submission *s, const struct job_node *n)
{
    json_t *packages = json_object(), *o = json_pack("{s:o}", "packages", packages);
    char *line;

    for (int p = 0; o && p < N_PACKAGES; p++)
        if (n->view.lacks[p])
            json_object_set_new(packages, package_names[p], node_package_json(s, n, (enum package)p));
    line = o ? json_line(o) : NULL;
    json_decref(o);
    return line;
}

static bool lacks_packages(const struct job_node *n)
{
    for (int p = 0; p < N_PACKAGES; p++)
        if (n->view.lacks[p])
            return true;
    return false;
}

static int name_packages(struct submission *s, struct shipment *x, struct err *e)
{
    if (!lacks_packages(x->node)) {
        x->state = SHIP_DONE;
        return 0;
    }
    if (!x->body)
        x->body = packages_line(s, x->node);
    if (!x->body)
        return err_set(e, ERR_NOMEM, "no memory");
    x->state = SHIP_NAME;
    return node_ask(s->http, x->node, "PUT", x->body, strlen(x->body), e, "/v1/jobs/%s/packages", s->id);
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

/* Keeps the files that are on the agent's list. */
static int take_list(struct submission *s, struct shipment *x, struct err *e)
{
    struct package_file files[FILES_MAX];
    const char *hex[FILES_MAX];
    bool is_listed[FILES_MAX];
    int n = lacking_files(files, s, x->node);

    for (int i = 0; i < n; i++)
        hex[i] = files[i].blob->hex;
    if (reply_lacks(is_listed, hex, (size_t)n, x->node->call.reply, x->node->call.reply_len, e) < 0)
        return err_at(e, "node(%d): %s", x->node->at.node, x->node->label);
    x->n_files = x->file = 0;
    for (int i = 0; i < n; i++)
        if (is_listed[i])
            x->files[x->n_files++] = files[i];
    return 0;
}

static int take_names(struct submission *s, struct shipment *x, struct err *e)
{
    if (take_list(s, x, e) < 0)
        return e->code;
    if (x->n_files > 0 && x->has_sent)
        return err_set(e, ERR_PROTOCOL, "node(%d): %s does not keep %s, which it has just got",
                       x->node->at.node, x->node->label, x->files[0].name);
    if (x->n_files > 0)
        return put_blob(s, x, e);
    for (int p = 0; p < N_PACKAGES; p++)
        if (x->node->view.lacks[p])
            console_info("Reply requirements to node(%d), type(%s).", x->node->at.node, package_names[p]);
    x->state = SHIP_DONE;
    return 0;
}

static int next_file(struct submission *s, struct shipment *x, struct err *e)
{
    if (++x->file < x->n_files)
        return put_blob(s, x, e);
    x->has_sent = true;
    return name_packages(s, x, e);
}

/* Handles a call that has failed. An agent that does not answer may return, and then gets the packages anew.
 * An agent often refuses because its node has ended; that end has the reason, so this waits for it. */
static int handle_failure(struct submission *s, struct shipment *x, struct err *e)
{
    if (e->code == ERR_UNREACHABLE) {
        silence_begin(s, x->node, e, true);
        x->state = SHIP_NEXT;
        x->has_sent = false;
        return 0;
    }
    if (e->code == ERR_NOT_FOUND && strcmp(x->node->agent.version, PSGD_VERSION) != 0)
        err_hint(e,
                 "The agent has version %s, and this job_submit %s: use the same version on both machines.",
                 x->node->agent.version, PSGD_VERSION);
    return silence_await_end(s, e);
}

/* Handles the answer to the call of the present state and starts the next call. */
static int advance_shipment(struct submission *s, struct shipment *x, struct err *e)
{
    if (x->state == SHIP_NEXT)
        return name_packages(s, x, e);
    if (node_answer(x->node, e) < 0)
        return handle_failure(s, x, e);
    return x->state == SHIP_NAME ? take_names(s, x, e) : next_file(s, x, e);
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
 * agent has answered to its packages, even if the event that it is ready comes earlier. */
static size_t report_ready(const struct submission *s, struct shipment *x)
{
    char list[256];
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        if (x[i].node->is_ready && x[i].state != SHIP_NAME && !x[i].is_reported) {
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
        if (x[i].state == SHIP_DONE || x[i].state == SHIP_NEXT) { /* its call belongs to no package */
            silence_follow(s, x[i].node);
            submission_renew_lease(s, x[i].node);
        }
        if (x[i].state != SHIP_DONE || x[i].node->silent_since > 0)
            p->until = clock_now() + ready_limit(s);
    }
    for (size_t i = 0; i < s->n_nodes; i++)
        if (check_node_wait(s, &x[i], p, e) < 0)
            return e->code;
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

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct package_file files[FILES_MAX];
        int n = lacking_files(files, s, &s->nodes[i]);

        for (int k = 0; k < n; k++)
            bytes += files[k].blob->len;
    }
    console_info("Packages: at most %s to ship, about %s at %g Mbit/s.", text_bytes(amount, bytes),
                 text_seconds(time, (double)bytes * 8e-6 / s->opt->bandwidth_mbps), s->opt->bandwidth_mbps);
}

/* A reservation that has waited in a queue has got its port since, and an agent that was restarted has bound
 * another one. An agent that does not answer gets its order nevertheless, when it is back. */
static bool is_view_old(const struct job_node *n)
{
    return !n->is_ended && n->silent_since == 0 && (n->view.data_port == 0 || n->may_have_restarted);
}

static int take_refreshed(struct submission *s, struct job_node *n, struct err *e)
{
    struct err why;

    n->may_have_restarted = n->is_probed = false;
    if (node_answer(n, &why) == ERR_UNREACHABLE) {
        silence_begin(s, n, &why, true);
        return 0;
    }
    return node_answer(n, e) < 0 ? e->code : node_take_view(n, e);
}

/* Asks for the packages that a node lacks and the port of its data plane, where they may have changed. */
static int refresh_nodes(struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (is_view_old(&s->nodes[i]) &&
            node_ask(s->http, &s->nodes[i], "GET", NULL, 0, e, "/v1/jobs/%s", s->id) < 0)
            return e->code;
    submission_finish_calls(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        if (is_view_old(&s->nodes[i]) && take_refreshed(s, &s->nodes[i], e) < 0)
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
    if (rc == 0 && submission_count_ended(s) == 0)
        rc = refresh_nodes(s, e);
    for (size_t i = 0; x && i < s->n_nodes; i++) {
        http_clear(s->http, &s->nodes[i].call);
        free(x[i].body);
    }
    free(x);
    return rc;
}
