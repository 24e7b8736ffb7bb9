/* flood -- worker 0 writes 100,000 lines to its runner's events in its third step. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec_events.h"

enum { LINES = 100000, AT_ONCE = 100 };

static const char line[] = "{\"event\":\"log\",\"level\":\"info\",\"text\":\"and so on\"}\n";

/* The runner's descriptor: the codec may be a user that cannot open the file. */
static int events_fd(void)
{
    struct stat file, open_file;
    int fd = 3;

    if (stat("events.jsonl", &file) < 0)
        return -1;
    while (fd < 1024 &&
           (fstat(fd, &open_file) < 0 || open_file.st_ino != file.st_ino || open_file.st_dev != file.st_dev))
        fd++;
    return fd < 1024 ? fd : -1;
}

static int flood_on_step(struct codec *c)
{
    char lines[AT_ONCE * (sizeof line - 1)];
    int fd = events_fd();

    if (c->run->node != 0 || c->run->step != 3)
        return CODEC_GO;
    for (int i = 0; i < AT_ONCE; i++)
        memcpy(lines + (size_t)i * (sizeof line - 1), line, sizeof line - 1);
    for (int i = 0; i < LINES / AT_ONCE; i++)
        if (write(fd, lines, sizeof lines) != (ssize_t)sizeof lines)
            return codec_fail(c, "the events cannot be flooded");
    return CODEC_GO;
}

static const struct codec_events flood = {.on_step = flood_on_step};

CODEC_PLUGIN(.name = "flood", .source = "a test", .more = CODEC_MORE(.events = &flood))
