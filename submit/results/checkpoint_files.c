#include "submit/results/checkpoint_files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"

void checkpoint_file_name(char out[64], int node, const char *ending)
{
    if (node < 0)
        snprintf(out, 64, "checkpoints/ps-%d%s.safetensors", -2 - node, ending);
    else
        snprintf(out, 64, "checkpoints/node-%d%s.safetensors", node, ending);
}

static const char *meta(const struct tensor_file *f, const char *key)
{
    const char *text = tensor_file_meta(f, key);

    return text ? text : "";
}

void checkpoint_position_of(struct checkpoint_position *out, const struct tensor_file *f)
{
    snprintf(out->job, sizeof out->job, "%.60s", meta(f, "job_id"));
    snprintf(out->epoch, sizeof out->epoch, "%.20s", meta(f, "epoch"));
    snprintf(out->step, sizeof out->step, "%.20s", meta(f, "step"));
    snprintf(out->round, sizeof out->round, "%.20s", meta(f, "round"));
}

bool checkpoint_is_at(const struct tensor_file *f, const struct checkpoint_position *p, int node)
{
    return strcmp(meta(f, "job_id"), p->job) == 0 && strcmp(meta(f, "round"), p->round) == 0 &&
           (node < 0 || strcmp(meta(f, "epoch"), p->epoch) == 0);
}

static bool open_in(struct tensor_file *f, const char *folder, int node, const char *ending)
{
    char name[64], path[PATH_MAX];
    struct err ignored;

    checkpoint_file_name(name, node, ending);
    return file_join(path, sizeof path, folder, name, &ignored) == 0 &&
           tensor_file_open(f, path, &ignored) == 0;
}

/* Whether the last or second last checkpoint of the node there is at the position. */
static bool has_one_at(const char *folder, const struct checkpoint_position *p, int node)
{
    static const char *const endings[] = {"", CHECKPOINT_PREVIOUS};
    bool is_found = false;

    for (size_t k = 0; k < sizeof endings / sizeof *endings && !is_found; k++) {
        struct tensor_file f;

        if (!open_in(&f, folder, node, endings[k]))
            continue;
        is_found = checkpoint_is_at(&f, p, node);
        tensor_file_close(&f);
    }
    return is_found;
}

static bool all_have(const char *folder, const struct checkpoint_position *p, const struct job_node *nodes,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!has_one_at(folder, p, nodes[i].at.node))
            return false;
    return true;
}

bool checkpoint_find_common(uint64_t *step, const char *folder, const struct job_node *nodes, size_t n)
{
    static const char *const endings[] = {"", CHECKPOINT_PREVIOUS};

    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
        struct checkpoint_position p;
        struct tensor_file f;

        if (!open_in(&f, folder, nodes[0].at.node, endings[k]))
            continue;
        checkpoint_position_of(&p, &f);
        tensor_file_close(&f);
        *step = strtoull(p.step, NULL, 10);
        if (all_have(folder, &p, nodes, n))
            return true;
    }
    return false;
}
