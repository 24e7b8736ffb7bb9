#include "tests/lib/sim_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/cluster.h"

void sim_job_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *codec)
{
    char folder[] = "/tmp/psgd-sim-XXXXXX", so[TEST_CODEC_PATH], link[sizeof folder + sizeof "/codec.so"];
    char real[PATH_MAX];
    struct err e = {0};

    test_codec_path(so, codec);
    if (!realpath(so, real) || !mkdtemp(folder)) {
        perror(so);
        abort();
    }
    snprintf(link, sizeof link, "%s/codec.so", folder);
    if (symlink(real, link) < 0 || sim_open(s, set, how, folder, &e) < 0) {
        fprintf(stderr, "%s: %s\n", link, e.text);
        abort();
    }
    unlink(link);
    rmdir(folder);
}
