/* launch: runs one task of a cluster, as in TensorFlow: the task's agent, until the job has ended. Worker 0,
 * the chief, submits the job once the agents of all tasks answer. Another task ends when its node has ended
 * and the chief's agent is gone, because the chief fetches results from it until then. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/job/reason.h"
#include "submit/launch/tasks.h"
#include "submit/stages/stages.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { LOOK_MS = 300, WAITED_FOR = 400 };
/* How long the agent of a chief without a job answers: long enough for the other tasks to poll it several
 * times. */
static const double SHOWN_S = 3;

struct launch {
    const struct options *opt;
    struct tasks tasks;
    struct task_agent agent;
    double until; /* clock_now */
    char until_text[TEXT_AMOUNT];
    double chief_answered_at; /* clock_now when the chief's agent last answered; 0: not yet */
    char job[REPLY_ID];       /* its id; "": the agent here has no job yet */
    struct job_view view;     /* of the job's node on the agent here */
};

/* Sleeps for LOOK_MS, or until a signal, then checks that the agent here still runs. */
static int wait_a_moment(struct launch *l, struct err *e)
{
    struct pollfd p = {.fd = interrupt_fd(), .events = POLLIN};

    poll(&p, 1, LOOK_MS);
    return interrupt_check(e) < 0 ? e->code : task_agent_check(&l->agent, e);
}

/* "/job:ps/task:0 (a:1), /job:worker/task:2 (b:2)" */
static size_t list_silent(char *out, size_t size, const struct launch *l, const enum answer *answers)
{
    size_t n = 0, at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < tasks_count(&l->tasks); i++) {
        const struct listed_agent *w = &l->tasks.all.nodes[i];
        char name[TASK_NAME];

        if (answers[i] == ANSWERS)
            continue;
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s (%s)", n ? ", " : "", tasks_name(name, w),
                                   w->address);
        n++;
    }
    return n;
}

static int await_tasks(struct launch *l, struct err *e)
{
    size_t n = tasks_count(&l->tasks);
    enum answer *answers = calloc(n, sizeof *answers);
    char silent[WAITED_FOR] = "", before[WAITED_FOR] = "";
    int rc = answers ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu tasks", n);

    while (rc == 0 && (rc = tasks_ask(answers, l->tasks.all.nodes, n, e)) == 0 &&
           list_silent(silent, sizeof silent, l, answers) > 0) {
        if (strcmp(silent, before) != 0)
            console_info("Waiting until %s for %s.", l->until_text, silent);
        memcpy(before, silent, sizeof before);
        if (clock_now() > l->until)
            rc = err_set(e, ERR_TIMEOUT, "after %g s there is no answer from %s", l->opt->task_timeout_s,
                         silent);
        else
            rc = wait_a_moment(l, e);
    }
    free(answers);
    return rc;
}

/* Makes the checks that need no agent, before this task waits for the others. */
static int check_job(const struct launch *l, struct err *e)
{
    struct submission s;
    int rc = submission_init(&s, l->opt, e) < 0 ? e->code : stage_read(&s, e);

    if (rc == 0 && (size_t)s.settings.server_count < l->tasks.all.n_servers) {
        rc = err_set(e, ERR_USAGE,
                     "--ps_hosts: rule %s takes no servers, so their tasks would never get a node",
                     s.settings.codec);
        err_hint(e, "Leave --ps_hosts out, or choose a rule with servers: job_submit codecs list.");
    }
    submission_clear(&s);
    return rc;
}

/* True if the agent of another task answers: that task waits for this one. */
static bool is_awaited(const struct launch *l)
{
    size_t n = tasks_count(&l->tasks);
    enum answer *answers = calloc(n, sizeof *answers);
    bool is_found = false;
    struct err ignored;

    if (answers && tasks_ask(answers, l->tasks.all.nodes, n, &ignored) == 0)
        for (size_t i = 0; i < n; i++)
            is_found |= answers[i] == ANSWERS;
    free(answers);
    return is_found;
}

/* Runs the chief's agent for SHOWN_S: tasks that wait for the chief see it start and end, and end too,
 * instead of waiting until --task-timeout. */
static void notify_other_tasks(struct launch *l)
{
    double until = clock_now() + SHOWN_S;
    struct err ignored;

    if (!is_awaited(l) || task_agent_start(&l->agent, l->tasks.own, l->tasks.token_file, false, &ignored) < 0)
        return;
    console_info("There is no job; notifying the other tasks, which wait for one.");
    while (clock_now() < until && wait_a_moment(l, &ignored) == 0)
        ;
    task_agent_stop(&l->agent);
}

static int run_chief(struct launch *l, struct err *e)
{
    if (await_tasks(l, e) < 0)
        return e->code;
    console_info("The agents of all %zu tasks answer.", tasks_count(&l->tasks));
    return verb_submit(l->opt, e);
}

/* *is_gone: the chief's agent has answered, and now no program listens at its address, or it has not answered
 * for --agent-timeout. */
static int look_for_chief(bool *is_gone, struct launch *l, struct err *e)
{
    enum answer answer;

    *is_gone = false;
    if (tasks_ask(&answer, tasks_chief(&l->tasks), 1, e) < 0)
        return e->code;
    if (answer == ANSWERS)
        l->chief_answered_at = clock_now();
    else
        *is_gone = l->chief_answered_at > 0 &&
                   (answer == ANSWERS_NEVER || clock_now() > l->chief_answered_at + l->opt->agent_timeout_s);
    return 0;
}

static int look_for_job(struct launch *l, struct err *e)
{
    struct job_view now;
    char id[REPLY_ID];

    if (task_agent_job(&l->agent, id, &now, e) < 0)
        return e->code;
    if (!id[0])
        return 0;
    if (!l->job[0]) /* only a chief can have submitted it, even if its agent has not answered yet */
        l->chief_answered_at = clock_now();
    if (strcmp(id, l->job) != 0 || now.state != l->view.state)
        console_info("Job %s: %s%s%s%s", id, job_state_name(now.state), now.message[0] ? ": " : "",
                     now.message, text_stop(now.message));
    memcpy(l->job, id, sizeof l->job);
    l->view = now;
    return 0;
}

static int status_of(const struct job_view *v)
{
    if (v->state == JOB_SUCCEEDED)
        return 0;
    return v->state == JOB_CANCELLED && strcmp(v->reason, REASON_JOB_FAILED) != 0 ? EXIT_CANCELLED
                                                                                  : EXIT_JOB_FAILED;
}

static int run_follower(struct launch *l, struct err *e)
{
    char name[TASK_NAME];
    const char *chief = tasks_chief(&l->tasks)->address;
    bool is_gone;

    console_info("Waiting until %s for the job of %s, the chief, at %s.", l->until_text,
                 tasks_name(name, tasks_chief(&l->tasks)), chief);
    for (;;) {
        if (look_for_chief(&is_gone, l, e) < 0 || look_for_job(l, e) < 0)
            return e->code;
        if (l->job[0] && job_state_is_terminal(l->view.state) && is_gone)
            return status_of(&l->view);
        if (!l->job[0] && is_gone)
            return err_set(e, ERR_UNREACHABLE, "the chief at %s has ended without a job", chief);
        if (!l->job[0] && clock_now() > l->until)
            return err_set(e, ERR_TIMEOUT, "within %g s the chief at %s has submitted no job",
                           l->opt->task_timeout_s, chief);
        if (wait_a_moment(l, e) < 0)
            return e->code;
    }
}

static int run_tasks(struct launch *l, struct err *e)
{
    bool is_chief = tasks_is_chief(&l->tasks);
    char name[TASK_NAME];
    int rc;

    if (is_chief && check_job(l, e) < 0) {
        notify_other_tasks(l);
        return e->code;
    }
    if (task_agent_start(&l->agent, l->tasks.own, l->tasks.token_file, l->opt->trainer[0], e) < 0)
        return e->code;
    console_info("%s runs agent %s; its log is %s.", tasks_name(name, l->tasks.own), l->tasks.own->address,
                 l->agent.log);
    l->until = clock_now() + l->opt->task_timeout_s;
    text_hour(l->until_text, clock_wall() + l->opt->task_timeout_s);
    rc = is_chief ? run_chief(l, e) : run_follower(l, e);
    task_agent_stop(&l->agent);
    return rc;
}

int verb_launch(const struct options *o, struct err *e)
{
    static struct launch l;
    int rc;

    l.opt = o;
    if (verb_check_arguments(o, e) < 0 || tasks_open(&l.tasks, o, e) < 0)
        return e->code;
    rc = run_tasks(&l, e);
    tasks_clear(&l.tasks);
    return rc;
}
