#include "runner/shm/shm_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/base/crypto.h"

enum { PREFIX = 6 /* "\0psgd-" */ };

static socklen_t address_of(struct sockaddr_un *out, const uint8_t name[SHM_NAME_BYTES])
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path, "\0psgd-", PREFIX);
    hex_encode(out->sun_path + PREFIX, name, SHM_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + PREFIX + 2 * SHM_NAME_BYTES);
}

static int unless(bool has_failed, int fd)
{
    int why = errno;

    if (has_failed && fd >= 0)
        close(fd);
    errno = why;
    return has_failed ? -1 : fd;
}

static int own_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int own_listen(void *owner, const uint8_t name[SHM_NAME_BYTES])
{
    struct sockaddr_un at;
    socklen_t len = address_of(&at, name);
    int fd = own_socket();

    (void)owner;
    return unless(fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, SOMAXCONN) < 0, fd);
}

static int own_connect(void *owner, const uint8_t name[SHM_NAME_BYTES])
{
    struct sockaddr_un at;
    socklen_t len = address_of(&at, name);
    int fd = own_socket();

    (void)owner;
    return unless(fd < 0 || connect(fd, (struct sockaddr *)&at, len) < 0, fd);
}

/* With all pages allocated, no later store or load can fail for lack of memory. */
static int own_memory(void *owner, size_t bytes)
{
    int fd = memfd_create("psgd-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)owner;
    return unless(fd < 0 || fallocate(fd, 0, 0, (off_t)bytes) < 0 ||
                      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0,
                  fd);
}

const struct shm_source shm_own = {.listen = own_listen, .connect = own_connect, .memory = own_memory};
