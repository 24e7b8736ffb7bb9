#include "submit/stages/earlier_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "submit/options/hosts.h"

static const char *meta_text(const struct tensor_file *f, const char *key)
{
    const char *text = tensor_file_meta(f, key);

    return text ? text : "";
}

bool earlier_checkpoint_is_of_attempt(const struct submission *s)
{
    return s->attempt > 1 && strcmp(s->resume, s->opt->resume) != 0;
}

/* The servers come from the list of agents, so the error of settings_check_resume() could name no option. */
static int check_servers(const struct submission *s, const json_t *then, struct err *e)
{
    int n = (int)json_integer_value(json_object_get(then, "server_count"));

    if (n == s->settings.server_count)
        return 0;
    err_set(e, ERR_CONFIG, "the earlier job had %d parameter server%s, this one has %d of %s", n,
            n == 1 ? "" : "s", s->settings.server_count, hosts_name(s->opt));
    return err_hint(e, "Name a list with as many under \"PS\": --workers FILE.");
}

int earlier_checkpoint_settings(json_t **out, const struct tensor_file *f, struct err *e)
{
    const char *text = meta_text(f, "settings");

    *out = NULL;
    return json_parse(out, text, strlen(text), "its settings", e);
}

int earlier_checkpoint_check(const struct submission *s, const struct tensor_file *f, int node,
                             const json_t *then, struct err *e)
{
    const char *arch = meta_text(f, "arch");
    bool is_servers = node < 0 && s->server_codec.object.len > 0;

    if (weights_check_node(f, node, e) < 0)
        return e->code;
    if (strlen(arch) != s->model.len || memcmp(arch, s->model.bytes, s->model.len) != 0)
        return err_set(e, ERR_CONFIG, "it is of another model than this job's, %s", s->settings.model);
    if (check_servers(s, then, e) < 0 || settings_check_resume(&s->settings, then, e) < 0)
        return e->code;
    if (weights_check_codec(f, is_servers ? s->settings.server_codec : s->settings.codec,
                            (is_servers ? &s->server_codec : &s->codec)->object.hex, e) < 0)
        return err_hint(e, "Resume needs the same file of the codec.");
    return weights_check(f, "model/", &s->model_spec, e);
}

int earlier_checkpoint_check_end(const struct submission *s, long epoch, struct err *e)
{
    if (epoch < s->settings.epochs)
        return 0;
    err_set(e, ERR_CONFIG, "epoch %ld is reached already", epoch);
    return err_hint(e,
                    "--epochs N is the last epoch of the job: use N greater than %ld; --max-steps and "
                    "--max-mb count the steps of the earlier job, too.",
                    epoch);
}

/* The SHA-256 of a file in run.json; NULL: not listed. */
static const char *sum_of(const json_t *earlier, const char *name)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(earlier, "files"), i, file)
    {
        const char *own = json_string_value(json_object_get(file, "name"));

        if (own && strcmp(own, name) == 0)
            return json_string_value(json_object_get(file, "sha256"));
    }
    return NULL;
}

int earlier_checkpoint_open(struct tensor_file *f, char path[PATH_MAX], const struct submission *s,
                            const json_t *earlier, int node, const char *ending, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char name[64], hex[SHA256_HEX];
    const char *sum;
    uint64_t bytes;

    checkpoint_file_name(name, node, ending);
    /* run.json lists neither copies that were made while the job ran nor files of earlier attempts. */
    sum = earlier_checkpoint_is_of_attempt(s) && strcmp(s->resume, s->folder) != 0 ? NULL
                                                                                   : sum_of(earlier, name);
    if (file_join(path, PATH_MAX, s->resume, name, e) < 0 || sha256_file(digest, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, digest, sizeof digest);
    if (!sum || strcmp(sum, hex) == 0)
        return tensor_file_open(f, path, e);
    return err_set(e, ERR_CONFLICT, "%s is damaged: its SHA-256 is not the one in run.json", path);
}

bool earlier_checkpoint_is_missing(int code)
{
    return code == ERR_NOT_FOUND || code == ERR_CONFLICT;
}

int earlier_checkpoint_find(struct tensor_file *f, char path[PATH_MAX], const struct submission *s,
                            const json_t *earlier, int node, const struct checkpoint_position *p,
                            struct err *e)
{
    static const char *const endings[] = {"", CHECKPOINT_PREVIOUS};
    char has[PATH_MAX + 128] = "it has none";
    int missing = ERR_NOT_FOUND;

    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
        if (earlier_checkpoint_open(f, path, s, earlier, node, endings[k], e) < 0) {
            if (!earlier_checkpoint_is_missing(e->code))
                return e->code;
            if (e->code == ERR_CONFLICT) {
                missing = e->code;
                snprintf(has, sizeof has, "%s", e->text);
            }
            continue;
        }
        if (checkpoint_is_at(f, p, node))
            return 0;
        if (missing == ERR_NOT_FOUND)
            snprintf(has, sizeof has, "it has one of step %.20s of %.50s", meta_text(f, "step"),
                     meta_text(f, "job_id"));
        tensor_file_close(f);
    }
    err_set(e, missing, "node(%d): no checkpoint of step %s of %s in %s: %s", node, p->step, p->job,
            s->resume, has);
    return err_hint(e, "job_submit fetch %s gets it if its agent still has it.", p->job);
}
