/* Any file as members.json. What is read must be valid, and unchanged after another member was added and the
 * file written and read again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/access/members.h"
#include "shared/base/utf8.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char folder[64], path[96], lock[96];

static void remove_files(void)
{
    unlink(path);
    unlink(lock);
    rmdir(folder);
}

static void write_input(const uint8_t *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

static bool is_same(const struct member *a, const struct member *b)
{
    /* Times are written in milliseconds. */
    return strcmp(a->name, b->name) == 0 && a->scope == b->scope && a->since - b->since < 0.001 &&
           b->since - a->since < 0.001 && memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static bool is_valid(const struct member *m)
{
    return m->name[0] && strnlen(m->name, sizeof m->name) <= MEMBER_NAME && utf8_is_clean(m->name) &&
           m->scope <= SCOPE_ADMIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct members first, second;
    char token[BASE64_TEXT];
    struct err e;

    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/dev/shm/psgd-fuzz-members-%ld", (long)getpid());
        snprintf(path, sizeof path, "%s/members.json", folder);
        snprintf(lock, sizeof lock, "%s/members.lock", folder);
        must(mkdir(folder, 0700) == 0 && atexit(remove_files) == 0);
    }
    write_input(bytes, len);
    if (members_open(&first, folder, &e) < 0) {
        must(e.text[0] && first.n == 0);
        members_close(&first);
        return 0;
    }
    for (size_t i = 0; i < first.n; i++)
        must(is_valid(&first.list[i]));
    if (members_add(&first, "one more", SCOPE_READ, 0, token, &e) == 0) {
        must(members_open(&second, folder, &e) == 0 && second.n == first.n);
        for (size_t i = 0; i < first.n; i++)
            must(is_same(&first.list[i], &second.list[i]));
        members_close(&second);
    }
    members_close(&first);
    return 0;
}
