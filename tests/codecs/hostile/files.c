/* Acts on files: to write, read, make and look up files outside the run folder; devices; space on disk. */
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "acts.h"

/* In the agent's folder, of which the run folder is jobs/ID/run. */
static int write_etc(void)
{
    return opens("/etc/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_tmp(void)
{
    return opens("/tmp/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_shm(void)
{
    return opens("/dev/shm/psgd-hostile", O_WRONLY | O_CREAT);
}
static int write_beside(void)
{
    return opens("../hostile", O_WRONLY | O_CREAT);
}
static int read_passwd(void)
{
    return opens("/etc/passwd", O_RDONLY);
}
static int read_by_proc(void)
{
    return opens("/proc/self/root/etc/passwd", O_RDONLY);
}
static int read_token(void)
{
    return opens("../../../token", O_RDONLY);
}
static int read_agent_id(void)
{
    return opens("../../../id", O_RDONLY);
}
static int read_tls_key(void)
{
    return opens("../../../tls.key", O_RDONLY);
}
static int read_other_job(void)
{
    return opens("../../j-other000/run/secret", O_RDONLY);
}
static int read_journal(void)
{
    return opens("../journal.jsonl", O_RDONLY);
}
static int write_journal(void)
{
    return opens("../journal.jsonl", O_WRONLY | O_APPEND);
}
static int write_package(void)
{
    return opens("../packages/settings.json", O_WRONLY);
}
static int list_jobs(void)
{
    return lists("../..");
}
static int list_root(void)
{
    return lists("/");
}
static int make_symlink(void)
{
    return made(symlink("/etc/passwd", "metrics.csv"), "metrics.csv");
}
static int make_hardlink(void)
{
    return made(link("node.log", "metrics.csv"), "metrics.csv");
}
static int make_fifo(void)
{
    return made(mkfifo("metrics.csv", 0600), "metrics.csv");
}
static int make_folder(void)
{
    return mkdir("folder", 0700) < 0 ? errno : rmdir("folder");
}
static int make_setuid(void)
{
    return result(chmod("acts.txt", 04755));
}
/* Of a new file, without chmod(). */
static int make_setuid_anew(void)
{
    int fd = open("metrics.csv", O_WRONLY | O_CREAT | O_CLOEXEC, 06755), why = result(fd);

    close(fd);
    unlink("metrics.csv");
    return why;
}
static int make_setuid_old_call(void)
{
    return made(syscall(SYS_creat, "metrics.csv", 06755), "metrics.csv");
}
static int make_setuid_unnamed(void)
{
    int fd = open(".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 06755), why = result(fd);

    close(fd);
    return why;
}
/* rename() that leaves a character device, of an overlay file system, in its place. */
static int make_device(void)
{
    enum { WHITEOUT = 4 };
    int fd = open("renamed", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    long rc = syscall(SYS_renameat2, AT_FDCWD, "renamed", AT_FDCWD, "metrics.csv", WHITEOUT);
    int why = made(rc, "metrics.csv");

    close(fd);
    unlink("renamed");
    return why;
}
static int rename_out(void)
{
    int why = result(rename("acts.txt", "../acts.txt"));

    rename("../acts.txt", "acts.txt");
    return why;
}
/* Whether a file exists, and its type; Landlock does not forbid these calls. */
static int ask_stat(void)
{
    struct stat st;

    return result(stat("/etc/passwd", &st));
}
static int ask_statx(void)
{
    struct statx st;

    return result(statx(AT_FDCWD, "/etc/passwd", 0, STATX_SIZE, &st));
}
static int ask_access(void)
{
    return result(access("/etc/passwd", F_OK));
}
static int ask_path(void)
{
    return opens("/etc/passwd", O_PATH);
}
static int ask_size(void)
{
    struct statfs st;

    return result(statfs("/etc", &st));
}
static int ask_link(void)
{
    char to[64];

    return result(readlink("/etc/mtab", to, sizeof to));
}
static int ask_above(void)
{
    struct stat st;

    return result(stat("../../../id", &st));
}
static int ask_process(void)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d", hostile_now->pid);
    return opens(path, O_PATH);
}
/* By folders that are open, of which one could be of another tree. */
static int ask_by_folder(void)
{
    struct stat st;
    int rc = ENOENT;

    for (int fd = 0; fd < 1024; fd++)
        if (fstatat(fd, "../../../id", &st, 0) == 0)
            rc = 0;
    return rc;
}
/* Where chdir() has succeeded, it undoes that. */
static int go_elsewhere(void)
{
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int why = result(chdir("/etc"));

    if (here < 0 || fchdir(here) < 0)
        why = 0;
    close(here);
    return why;
}
static int go_above(void)
{
    int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), why;
    struct stat st;

    /* Of a tree of its own there are folders above this one, which are empty. */
    why = chdir("../../..") < 0 ? errno : result(stat("id", &st));
    if (here < 0 || fchdir(here) < 0)
        why = 0;
    close(here);
    return why;
}

/* To the size that it has. */
static int truncate_outside(void)
{
    struct stat st = {0};

    stat("../journal.jsonl", &st);
    return result(truncate("../journal.jsonl", st.st_size));
}
static int device_mem(void)
{
    return opens("/dev/mem", O_RDONLY);
}
static int device_kmsg(void)
{
    return opens("/dev/kmsg", O_RDWR);
}
static int parent_mem(void)
{
    return opens_of_parent("mem", O_RDWR);
}
static int parent_environ(void)
{
    return opens_of_parent("environ", O_RDONLY);
}
static int parent_root(void)
{
    return opens_of_parent("root/etc/passwd", O_RDONLY);
}
/* A file of 8 GiB, most of which is a hole. */
static int large_file(void)
{
    int fd = open("large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : result(ftruncate(fd, (off_t)8 << 30));

    if (fd >= 0)
        close(fd);
    unlink("large");
    return why;
}

/* Room beyond a file's end, which the limit of its size does not count. */
static int reserve_disk(void)
{
    int fd = open("reserved", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : result(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)5 << 30));

    if (fd >= 0)
        close(fd);
    unlink("reserved");
    return why;
}
static int watch_files(void)
{
    return result(inotify_init());
}

/* A descriptor of a regular file or folder elsewhere than in the job's folder was left open. */
static int stolen_file(void)
{
    char here[4096], link[64], at[4096];
    int rc = EBADF;
    size_t n;

    if (!getcwd(here, sizeof here))
        return errno;
    n = strlen(here) - strlen("/run"); /* the job's folder */
    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;
        ssize_t len;

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        len = readlink(link, at, sizeof at - 1);
        if (len < 0 || fstat(fd, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
            continue;
        at[len] = '\0';
        /* Figures about memory are read from /proc and /sys, the codec from a copy in memory. */
        if (strncmp(at, here, n) != 0 && strncmp(at, "/proc/", 6) != 0 && strncmp(at, "/sys/", 5) != 0 &&
            strncmp(at, "/memfd:psgd", 11) != 0)
            rc = 0;
    }
    return rc;
}

const struct act hostile_files[] = {
    ACT(write_etc),
    ACT(write_tmp),
    ACT(write_shm),
    ACT(write_beside),
    ACT(read_passwd),
    ACT(read_by_proc),
    ACT(read_token),
    ACT(read_agent_id),
    ACT(read_tls_key),
    ACT(read_other_job),
    ACT(read_journal),
    ACT(write_journal),
    ACT(write_package),
    ACT(list_jobs),
    ACT(list_root),
    ACT(make_symlink),
    ACT(make_hardlink),
    ACT(make_fifo),
    ACT(make_folder),
    ACT(make_setuid),
    ACT(rename_out),
    ACT(device_mem),
    ACT(device_kmsg),
    ACT(parent_mem),
    ACT(parent_environ),
    ACT(parent_root),
    ACT(large_file),
    ACT(watch_files),
    ACT(stolen_file),
    ACT(ask_stat),
    ACT(ask_statx),
    ACT(ask_access),
    ACT(ask_path),
    ACT(ask_size),
    ACT(ask_link),
    ACT(ask_above),
    ACT(ask_process),
    ACT(ask_by_folder),
    ACT(go_elsewhere),
    ACT(go_above),
    ACT(reserve_disk),
    ACT(truncate_outside),
    ACT(make_setuid_anew),
    ACT(make_setuid_old_call),
    ACT(make_setuid_unnamed),
    ACT(make_device),
    {0},
};
