/* why: prints one sentence about a job's state, from its agents' journals, or from the files here if no agent
 * answers. */
#include <string.h>
#include <unistd.h>

#include "submit/files/run_file.h"
#include "submit/job/outcome.h"
#include "submit/results/job_index.h"
#include "submit/results/queue_status.h"
#include "submit/results/run_json.h"
#include "submit/results/why.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static const double ask_s = 3;

/* Adds the list of files from the folder's run.json; if no agent answers, takes all of that run.json, which
 * has the end of each node. The folder may be that of another job by now. */
static void merge_run_file(json_t **run, const struct submission *s, bool has_answers)
{
    struct err ignored;
    json_t *kept;

    if (run_file_read(&kept, s->folder, &ignored) < 0)
        return;
    if (!json_equal(json_object_get(kept, "id"), json_object_get(*run, "id"))) {
        json_decref(kept);
    } else if (has_answers) {
        json_object_set(*run, "files", json_object_get(kept, "files"));
        json_decref(kept);
    } else {
        json_decref(*run);
        *run = kept;
    }
}

static int describe_job(json_t **out, struct submission *s, bool has_answers, struct err *e)
{
    struct err ignored;

    if (outcome_update(s))
        job_index_save(s, &ignored);
    *out = run_json(s);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory");
    merge_run_file(out, s, has_answers);
    return 0;
}

/* Asks the agents. If none answers, the index has the end of a job that was watched. */
static int ask_agents(json_t **out, const struct options *o, const char *id, struct err *e)
{
    struct submission s;
    size_t n_answers = 0;
    int rc = submission_init(&s, o, e) < 0 || job_index_load(&s, id, e) < 0 ? e->code : 0;

    if (rc == 0)
        rc = queue_state_refuse(&s, e);
    if (rc == 0)
        n_answers = submitted_job_ask_nodes(&s, ask_s);
    if (rc == 0)
        rc = interrupt_check(e);
    if (rc == 0 && n_answers == 0 && !job_state_is_terminal(s.state)) {
        *e = s.nodes[0].silence;
        rc = err_hint(e,
                      "Its runners need no agent and may still run; its end is known once an agent answers.");
    }
    if (rc == 0 && n_answers < s.n_nodes)
        console_info("%zu of %zu agents answer%s", n_answers, s.n_nodes,
                     n_answers == 0 ? "; this is what was recorded when the job was watched." : ".");
    if (rc == 0)
        rc = describe_job(out, &s, n_answers > 0, e);
    submission_clear(&s);
    return rc;
}

int verb_why(const struct options *o, struct err *e)
{
    const char *job = o->args.n_operands > 0 ? o->args.operands[0] : NULL, *said;
    json_t *run, *why;
    int rc;

    rc = job && access(job, F_OK) == 0 ? run_file_read(&run, job, e) : ask_agents(&run, o, job, e);
    if (rc < 0)
        return rc;
    rc = why_json(&why, run, e);
    json_decref(run);
    if (rc < 0)
        return rc;
    if (o->json) {
        stdout_json(true, why, NULL, NULL);
        return 0;
    }
    said = json_string_value(json_object_get(why, "why"));
    text_print("%s%s\nKept: %s.\nnext: %s\n", said, text_stop(said),
               json_string_value(json_object_get(why, "kept")),
               json_string_value(json_object_get(why, "next")));
    json_decref(why);
    return 0;
}
