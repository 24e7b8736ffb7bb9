/* pack: checks a job as submit does, and writes it into a folder, from which a launcher such as mpirun or
 * srun starts its nodes. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/plugin/isolation.h"
#include "submit/launch/kubernetes.h"
#include "submit/options/hosts.h"
#include "submit/options/options_table.h"
#include "submit/stages/stages.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static uint64_t packed_bytes(const struct submission *s)
{
    const struct blob *of_all[] = {&s->settings_blob, &s->codec.object, &s->server_codec.object,
                                   &s->model,         &s->test,         &s->weights,
                                   &s->trainer};
    uint64_t bytes = 0;

    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++)
        bytes += of_all[i] == &s->test && s->tests ? 0 : of_all[i]->len;
    for (int i = 0; s->shards && i < s->settings.node_count; i++)
        bytes += s->shards[i].len;
    for (int i = 0; s->tests && i < s->settings.node_count; i++)
        bytes += s->tests[i].len;
    for (size_t i = 0; s->checkpoints && i < s->n_nodes; i++)
        bytes += s->checkpoints[i].len;
    return bytes;
}

static void show_job(const struct submission *s, const char *exe_dir)
{
    const struct settings *set = &s->settings;
    char amount[TEXT_AMOUNT];

    if (s->opt->json) {
        stdout_json(true,
                    json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I}", "id", s->id, "name", set->name, "folder",
                              s->job_folder, "processes", (int)s->n_nodes, "workers", set->node_count,
                              "servers", set->server_count, "bytes", (json_int_t)packed_bytes(s)),
                    NULL, NULL);
        return;
    }
    printf("Job %s (%s) is in %s: %d worker%s", s->id, set->name, s->job_folder, set->node_count,
           set->node_count == 1 ? "" : "s");
    if (set->server_count > 0)
        printf(" and %d server%s", set->server_count, set->server_count == 1 ? "" : "s");
    printf(", %s.\n", text_bytes(amount, packed_bytes(s)));
    if (set->node_count == 1 && !options_is_given(s->opt, offsetof(struct options, settings.node_count)))
        printf("--node_count N packs a job of N workers.\n");
    if (!transport_traits[set->transport].allows_isolation)
        printf("With --transport %s nothing confines the codec, and what the nodes send is not encrypted.\n",
               transport_traits[set->transport].name);
    if (s->opt->kubernetes[0]) {
        printf("next:\n  kubectl apply -f %s/" KUBERNETES_FILE "\nthen:\n  job_submit wait %s\n",
               s->job_folder, s->job_folder);
        return;
    }
    printf("next, one of:\n");
    printf("  mpirun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    printf("  srun -n %zu %s/job_runner --job %s\n", s->n_nodes, exe_dir, s->job_folder);
    printf("then:\n  job_submit collect %s\n", s->job_folder);
}

static int check_isolation(const struct submission *s, struct err *e)
{
    const struct transport_traits *t = &transport_traits[s->settings.transport];

    if (t->allows_isolation || s->opt->require_isolation <= ISOLATION_NONE)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "--require-isolation %s: with --transport %s nothing confines the codec, as %s needs "
                   "threads, sockets and files in its process",
                   isolation_name((enum isolation)s->opt->require_isolation), t->name, t->name);
}

static int read_job(struct submission *s, struct err *e)
{
    const struct options *o = s->opt;

    if (!s->job_folder[0] && !o->output[0]) {
        err_set(e, ERR_USAGE, "pack needs a folder to write the job into: -o DIR");
        return err_hint(e, "It must be on a file system that all machines of the job share.");
    }
    if ((o->output[0] && file_absolute(s->job_folder, sizeof s->job_folder, o->output, e) < 0) ||
        verb_check_arguments(o, e) < 0)
        return e->code;
    if (s->settings.node_count > NODES_MAX)
        return err_set(e, ERR_CONFIG, "--node_count: a job has at most %d workers", NODES_MAX);
    s->counts_servers = true;
    snprintf(s->csv_style, sizeof s->csv_style, "tidy");
    if (hosts_stand_in(&s->workers, s->settings.node_count, o->servers, e) < 0 || stage_read_job(s, e) < 0)
        return e->code;
    return check_isolation(s, e) < 0 ? e->code : stage_check_job(s, e);
}

int verb_pack_job(struct submission *s, struct err *e)
{
    return read_job(s, e) < 0 ? e->code : stage_pack(s, e);
}

int verb_pack(const struct options *o, struct err *e)
{
    char exe_dir[PATH_MAX];
    struct submission s;
    struct err ignored;
    int rc = submission_init(&s, o, e);

    if (rc == 0 && (rc = kubernetes_check(o, e)) == 0 && (rc = verb_pack_job(&s, e)) == 0 &&
        o->kubernetes[0] && (rc = kubernetes_write(o, s.id, s.job_folder, s.n_nodes, e)) < 0)
        file_remove_tree(s.job_folder, &ignored);
    if (rc == 0 && (rc = file_exe_dir(exe_dir, sizeof exe_dir, e)) == 0)
        show_job(&s, exe_dir);
    submission_clear(&s);
    return rc;
}
