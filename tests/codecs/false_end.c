/* false_end -- in its third step it reports the end of its node as a success and ends the process with
 * status 0. Option `with` selects the files that it leaves: nothing more; a model file that is none; one
 * of all steps; also rows up to the last step; also a report of the last step; also a digest of its
 * weights that is none. Its model has to be softmax. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec_events.h"

enum { WITH_NOTHING, WITH_NO_MODEL, WITH_MODEL, WITH_ROWS, WITH_PROGRESS, WITH_SUM, WITH_MAX = WITH_SUM };

struct false_end {
    int with;
};

/* The host's descriptor of the file, which it may have opened as another user; else a new one. */
static int descriptor(const char *name, int flags)
{
    struct stat file, open_one;

    for (int fd = 3; fd < 256 && stat(name, &file) == 0; fd++)
        if (fstat(fd, &open_one) == 0 && open_one.st_ino == file.st_ino && open_one.st_dev == file.st_dev)
            return fd;
    return open(name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
}

static void put(const char *name, int flags, const void *bytes, size_t len)
{
    if (write(descriptor(name, flags), bytes, len) != (ssize_t)len)
        abort();
}

/* The working folder is .../jobs/ID/run. */
static void find_job(char id[64])
{
    char path[4096];
    const char *jobs = getcwd(path, sizeof path) ? strstr(path, "/jobs/j-") : NULL;

    if (!jobs || sscanf(jobs, "/jobs/%63[^/]", id) != 1)
        abort();
}

static void write_model(uint64_t step)
{
    static const float values[7850];
    char id[64] = "", header[512];
    uint64_t len;
    int n;

    find_job(id);
    n = snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"job_id\":\"%s\",\"step\":\"%" PRIu64 "\"},"
                 "\"layer0.dense.weight\":{\"dtype\":\"F32\",\"shape\":[784,10],\"data_offsets\":[0,31360]},"
                 "\"layer0.dense.bias\":{\"dtype\":\"F32\",\"shape\":[10],\"data_offsets\":[31360,31400]}}",
                 id, step);
    while (n % 8 != 0)
        header[n++] = ' ';
    len = (uint64_t)n;
    put("final.safetensors", O_TRUNC, &len, sizeof len);
    put("final.safetensors", O_APPEND, header, (size_t)n);
    put("final.safetensors", O_APPEND, values, sizeof values);
}

static int false_end_on_step(struct codec *c)
{
    const struct false_end *l = c->state;
    char text[512];
    int n;

    if (c->run->step < 3)
        return CODEC_GO;
    if (l->with == WITH_NO_MODEL)
        put("final.safetensors", 0, "weights", 7);
    if (l->with >= WITH_MODEL)
        write_model(c->run->n_steps);
    n = snprintf(text, sizeof text, "9.9,0,worker,1,1,1,%" PRIu64 ",99,0.01,1,0.1,0,0,0,0,0,0,0,0,0,0\n",
                 c->run->n_steps);
    if (l->with >= WITH_ROWS)
        put("train.csv", O_APPEND, text, (size_t)n);
    n = snprintf(text, sizeof text,
                 "{\"event\":\"progress\",\"epoch\":1,\"epochs\":1,\"step\":%" PRIu64 ",\"steps\":%" PRIu64
                 ",\"loss\":0.01,\"accuracy\":1}\n",
                 c->run->n_steps, c->run->n_steps);
    if (l->with >= WITH_PROGRESS)
        put("events.jsonl", O_APPEND, text, (size_t)n);
    n = snprintf(text, sizeof text, "{\"event\":\"result\",\"params_sha256\":\"%064d\"}\n", 0);
    if (l->with >= WITH_SUM)
        put("events.jsonl", O_APPEND, text, (size_t)n);
    n = snprintf(text, sizeof text,
                 "{\"event\":\"end\",\"state\":\"succeeded\",\"message\":\"all is well\"}\n");
    put("events.jsonl", O_APPEND, text, (size_t)n);
    _exit(0);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct false_end, with, 0, 0, WITH_MAX, "what it leaves"),
    {0},
};

static const struct codec_events false_end = {.on_step = false_end_on_step};

CODEC_PLUGIN(.name = "false_end", .source = "a test", .state_size = sizeof(struct false_end),
             .options = options, .more = CODEC_MORE(.events = &false_end))
