#include "submit/job/node_reservation.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/plugin/isolation.h"
#include "shared/records/weights.h"
#include "shared/trainer/trainer_package.h"

json_t *node_reservation_json(const struct submission *s, const struct job_node *n)
{
    const char *user = getenv("USER");
    char host[65] = "";
    char submitter[128];
    const struct codec_blobs *codec = submission_codec(s, n);
    json_t *o;

    gethostname(host, sizeof host - 1);
    snprintf(submitter, sizeof submitter, "%.48s@%s", user && user[0] ? user : "unknown", host);
    o = json_pack("{s:s, s:i, s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:b, s:f}", "id", s->id, "attempt",
                  s->attempt, "node", n->at.node, "role", node_role(n), "name", s->settings.name, "codec",
                  node_is_server(n) ? s->settings.server_codec : s->settings.codec, "codec_sha256",
                  codec->object.hex, "codec_source_sha256", codec->source.hex, "node_count",
                  s->settings.node_count, "server_count", s->settings.server_count, "submitter",
                  json_text(submitter, SIZE_MAX), "no_queue", (int)s->opt->no_queue, "time_limit_s",
                  s->settings.time_limit_s);
    if (s->settings.starts_from != STARTS_FROM_SEED) /* an agent that does not support it refuses */
        json_object_set_new(o, "weights", json_true());
    if (s->settings.executor) /* as above */
        json_object_set_new(o, "executor", json_true());
    if (s->settings.trainer[0]) { /* as above */
        json_object_set_new(o, "trainer", json_string(s->settings.trainer));
        json_object_set_new(o, "trainer_sha256", json_string(s->trainer.hex));
    }
    if (s->opt->require_isolation >= 0)
        json_object_set_new(o, "require_isolation",
                            json_string(isolation_name((enum isolation)s->opt->require_isolation)));
    return o;
}

int node_package_files(struct package_file out[PACKAGE_FILES_MAX], const struct submission *s,
                       const struct job_node *n, enum package p)
{
    const struct codec_blobs *codec = submission_codec(s, n);

    switch (p) {
    case PACKAGE_SETTINGS:
        out[0] = (struct package_file){"settings.json", &s->settings_blob};
        return 1;
    case PACKAGE_CODEC:
        out[0] = (struct package_file){CODEC_OBJECT_NAME, &codec->object};
        out[1] = (struct package_file){CODEC_MANIFEST_NAME, &codec->manifest};
        out[2] = (struct package_file){CODEC_SOURCE_NAME, &codec->source};
        return codec->source.len ? 3 : 2;
    case PACKAGE_MODEL:
        out[0] = (struct package_file){"model.json", &s->model};
        out[1] = (struct package_file){PREPROCESSING_FILE, &s->preprocessing};
        return s->preprocessing.len ? 2 : 1;
    case PACKAGE_WEIGHTS:
        out[0] = (struct package_file){"weights.safetensors",
                                       s->checkpoints ? &s->checkpoints[n - s->nodes] : &s->weights};
        return 1;
    case PACKAGE_TRAINER:
        out[0] = (struct package_file){TRAINER_PACKAGE_NAME, &s->trainer};
        return 1;
    case PACKAGE_DATA:
    case N_PACKAGES:
        break;
    }
    if (node_is_server(n))
        return 0;
    out[0] = (struct package_file){"train.safetensors", &s->shards[n->at.node]};
    if (s->settings.executor)
        return 1;
    out[1] = (struct package_file){"test.safetensors", s->tests ? &s->tests[n->at.node] : &s->test};
    return 2;
}

json_t *node_package_json(const struct submission *s, const struct job_node *n, enum package p)
{
    struct package_file files[PACKAGE_FILES_MAX];
    int n_files = node_package_files(files, s, n, p);
    json_t *names = json_object();
    json_t *o = json_pack("{s:o}", "files", names);

    for (int i = 0; o && i < n_files; i++)
        json_object_set_new(names, files[i].name, json_string(files[i].blob->hex));
    return o;
}
