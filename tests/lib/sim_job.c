#include "tests/lib/sim_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

bool sim_job_try(struct sim *s, const struct settings *set, const struct simulation *how, const char *codec,
                 struct err *e)
{
    char folder[UNIT_FOLDER], so[TEST_CODEC_PATH], link[sizeof folder + sizeof "/codec.so"];
    char real[PATH_MAX];
    bool is_open;

    test_codec_path(so, codec);
    unit_make_folder(folder);
    if (!realpath(so, real)) {
        perror(so);
        abort();
    }
    snprintf(link, sizeof link, "%s/codec.so", folder);
    if (symlink(real, link) < 0) {
        perror(link);
        abort();
    }
    is_open = sim_open(s, set, how, folder, NULL, e) == 0;
    unlink(link);
    rmdir(folder);
    return is_open;
}

void sim_job_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *codec)
{
    struct err e = {0};

    if (!sim_job_try(s, set, how, codec, &e)) {
        fprintf(stderr, "%s: %s\n", codec, e.text);
        abort();
    }
}
