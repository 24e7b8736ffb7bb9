/* own_tree -- a tree of directories of the process's own, where root runs the agent or the kernel has user
 * namespaces. It contains the run folder, at its path, and /proc/self, by which codecs are loaded from memory
 * (shared/base/file.h), and nothing else. Landlock restricts which files can be opened, but neither
 * hides that a file exists (stat, access, readlink, O_PATH) nor forbids to enter a directory (chdir). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/sandbox/sandbox.h"

/* Linux 5.2, with the same numbers on all architectures. */
enum {
    CALL_OPEN_TREE = 428,
    CALL_MOVE_MOUNT = 429,
    CALL_FSOPEN = 430,
    CALL_FSCONFIG = 431,
    CALL_FSMOUNT = 432,
    CALL_MOUNT_SETATTR = 442 /* 5.12 */
};
enum {
    TREE_CLONE = 1,
    FS_CLOEXEC = 1,
    FS_SET_STRING = 1,
    FS_CREATE = 6,
    FROM_FD = 4,
    ATTR_RDONLY = 1,
    ATTR_PLAIN = 0xe /* no set-user-id programs, devices or programs */
};

struct attributes {
    uint64_t set, clear, propagation, userns_fd;
};

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return is_written;
}

/* In its namespace the process keeps its user id, and there is no other user. */
static bool map_user(uid_t uid, gid_t gid)
{
    char users[64], groups[64];

    snprintf(users, sizeof users, "%u %u 1", (unsigned)uid, (unsigned)uid);
    snprintf(groups, sizeof groups, "%u %u 1", (unsigned)gid, (unsigned)gid);
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/gid_map", groups);
}

static bool enter_namespace(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();

    if (uid == 0)
        return unshare(CLONE_NEWNS) == 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && map_user(uid, gid);
}

/* Returns a directory as a mount of its own, which stays that directory when its path changes. */
static int copy_tree(const char *path)
{
    return (int)syscall(CALL_OPEN_TREE, AT_FDCWD, path, TREE_CLONE | O_CLOEXEC);
}

static bool place_tree(int tree, int root, const char *path)
{
    return syscall(CALL_MOVE_MOUNT, tree, "", root, path, FROM_FD) == 0;
}

/* Returns an empty file system in memory, mounted at /proc, where the next calls need it. */
static int make_root(void)
{
    int fs = (int)syscall(CALL_FSOPEN, "tmpfs", FS_CLOEXEC), root = -1;

    if (fs >= 0 && syscall(CALL_FSCONFIG, fs, FS_CREATE, NULL, NULL, 0) == 0)
        root = (int)syscall(CALL_FSMOUNT, fs, FS_CLOEXEC, ATTR_PLAIN);
    if (fs >= 0) {
        int error = errno;

        close(fs);
        errno = error;
    }
    if (root >= 0 && !place_tree(root, AT_FDCWD, "/proc")) {
        int error = errno;

        close(root);
        errno = error;
        root = -1;
    }
    return root;
}

/* `path` is absolute. */
static bool make_folders(int root, const char *path)
{
    char part[PATH_MAX];

    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        size_t len = end ? (size_t)(end - path) : strlen(path);

        if (len >= sizeof part)
            return false;
        memcpy(part, path, len);
        part[len] = '\0';
        if (part[1] && mkdirat(root, part + 1, 0755) < 0 && errno != EEXIST)
            return false;
        if (!end)
            return true;
    }
}

static bool make_read_only(int root)
{
    const struct attributes a = {.set = ATTR_RDONLY};

    return syscall(CALL_MOUNT_SETATTR, root, "", AT_EMPTY_PATH, &a, sizeof a) == 0;
}

/* Returns the root of the tree, or -1 and sets errno. `here`: the run folder's path; NULL: none. */
static int make_tree(const char *here)
{
    const mode_t mask = umask(0022); /* the user that the process becomes can then enter the folders */
    int self = copy_tree("/proc/self"), folder = here ? copy_tree(".") : -1;
    int root = self >= 0 && (folder >= 0 || !here) ? make_root() : -1, error;
    bool is_made = root >= 0 && make_folders(root, "/proc/self") && place_tree(self, root, "proc/self");

    if (is_made && here)
        is_made = make_folders(root, here) && place_tree(folder, root, here + 1);
    is_made = is_made && make_read_only(root);
    error = errno;
    umask(mask);
    if (self >= 0)
        close(self);
    if (folder >= 0)
        close(folder);
    if (root >= 0 && !is_made) {
        umount2("/proc", MNT_DETACH);
        close(root);
    }
    errno = error;
    return is_made ? root : -1;
}

/* Replaces `folder_fd`, because in the previous tree ".." leads to every directory. */
static int enter_tree(const char *here, int folder_fd)
{
    int fd;

    if (umount2(".", MNT_DETACH) < 0 || chdir(here ? here : "/") < 0)
        return -1;
    if (folder_fd < 0)
        return 0;
    fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || dup3(fd, folder_fd, O_CLOEXEC) < 0)
        return -1;
    return close(fd);
}

/* Folders for a training program of a user of its own, who may not enter the agent's folder, or root's home,
 * where the program's places are: in the program's namespace an empty folder is mounted over such a folder,
 * with the places in it at their paths. */

enum { TRAINER_PLACES = 5, RECURSIVE = 0x8000 /* AT_RECURSIVE */ };

/* A path as it is given, or as it is without links: each has to be open to all. */
struct reached_places {
    const char *paths[2 * TRAINER_PLACES];
    char real[TRAINER_PLACES][PATH_MAX];
    int trees[2 * TRAINER_PLACES]; /* copies; -1: none is needed */
    size_t n;
    int roots[2 * TRAINER_PLACES]; /* of the empty folders */
    size_t n_roots;
};

/* Writes the first folder on the way to `path` that others than its owner may not enter. False: none. */
static bool find_closed(char out[PATH_MAX], const char *path)
{
    struct stat st;

    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        size_t len = end ? (size_t)(end - path) : strlen(path);

        if (len >= PATH_MAX)
            return false;
        memcpy(out, path, len);
        out[len] = '\0';
        if (stat(out, &st) == 0 && S_ISDIR(st.st_mode) && !(st.st_mode & S_IXOTH))
            return true;
        if (!end)
            return false;
    }
}

static void add_path(struct reached_places *r, const char *path)
{
    if (path && path[0] == '/')
        r->paths[r->n++] = path;
}

static void list_paths(struct reached_places *r, const struct trainer_places *p)
{
    const char *const given[TRAINER_PLACES] = {p->own, p->prefixes[0], p->prefixes[1], p->read_only[0],
                                               p->read_only[1]};

    for (size_t i = 0; i < TRAINER_PLACES; i++) {
        add_path(r, given[i]);
        if (given[i] && given[i][0] && realpath(given[i], r->real[i]) && strcmp(r->real[i], given[i]) != 0)
            add_path(r, r->real[i]);
    }
}

/* Mounts an empty folder over the first closed one on the way to `path`, if there is one. */
static bool open_way(struct reached_places *r, const char *path)
{
    char closed[PATH_MAX];
    int fs, root = -1;

    if (!find_closed(closed, path))
        return true;
    fs = (int)syscall(CALL_FSOPEN, "tmpfs", FS_CLOEXEC);
    if (fs >= 0 && syscall(CALL_FSCONFIG, fs, FS_SET_STRING, "mode", "755", 0) == 0 &&
        syscall(CALL_FSCONFIG, fs, FS_CREATE, NULL, NULL, 0) == 0)
        root = (int)syscall(CALL_FSMOUNT, fs, FS_CLOEXEC, ATTR_PLAIN);
    if (fs >= 0)
        close(fs);
    if (root < 0 || !place_tree(root, AT_FDCWD, closed))
        return false;
    r->roots[r->n_roots++] = root;
    return true;
}

/* Below a folder that open_way has made, and nowhere else: other folders exist. */
static bool make_way(const char *path)
{
    char part[PATH_MAX];

    for (const char *end = strchr(path + 1, '/');; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", end ? (int)(end - path) : (int)strlen(path), path);
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return false;
        if (!end)
            return true;
    }
}

static bool place_all(struct reached_places *r)
{
    bool is_placed = true;

    for (size_t i = 0; i < r->n && is_placed; i++)
        is_placed = r->trees[i] < 0 || (open_way(r, r->paths[i]) && make_way(r->paths[i]) &&
                                        place_tree(r->trees[i], AT_FDCWD, r->paths[i]));
    for (size_t i = 0; i < r->n_roots; i++) {
        is_placed = is_placed && make_read_only(r->roots[i]);
        close(r->roots[i]);
    }
    return is_placed;
}

int own_tree_for_trainer(const struct trainer_places *p)
{
    struct reached_places r = {.n = 0};
    char closed[PATH_MAX];
    const mode_t mask = umask(0022);
    bool is_needed = false, is_done;

    list_paths(&r, p);
    for (size_t i = 0; i < r.n; i++)
        is_needed = is_needed || find_closed(closed, r.paths[i]);
    if (is_needed && (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
        return -1;
    for (size_t i = 0; i < r.n; i++)
        r.trees[i] = find_closed(closed, r.paths[i]) ? (int)syscall(CALL_OPEN_TREE, AT_FDCWD, r.paths[i],
                                                                    TREE_CLONE | O_CLOEXEC | RECURSIVE)
                                                     : -1;
    is_done = place_all(&r);
    for (size_t i = 0; i < r.n; i++)
        if (r.trees[i] >= 0)
            close(r.trees[i]);
    umask(mask);
    return is_done ? 0 : -1;
}

/* Returns 0 and writes the reason, with errno. */
static int cannot(char *why, size_t size, const char *step)
{
    snprintf(why, size, "%s: %s", step, strerror(errno));
    return 0;
}

int sandbox_own_tree(int folder_fd, char *why, size_t size, struct err *e)
{
    char path[PATH_MAX], *here = folder_fd < 0 ? NULL : path;
    int root, rc;

    if (here && !getcwd(path, sizeof path))
        return cannot(why, size, "the run folder's path");
    if (!enter_namespace() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return cannot(why, size, "a namespace of mounts");
    if ((root = make_tree(here)) < 0)
        return cannot(why, size, "making the tree");
    /* Afterwards the previous tree is mounted over this one, at the same place. */
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) {
        cannot(why, size, "pivot_root");
        rc = umount2("/proc", MNT_DETACH) < 0 || (here && chdir(here) < 0) ? -1 : 0;
    } else {
        rc = enter_tree(here, folder_fd) < 0 ? -1 : 1;
    }
    close(root);
    return rc < 0 ? err_errno(e, ERR_IO, "a tree of directories of its own") : rc;
}
