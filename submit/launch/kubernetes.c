#include "submit/launch/kubernetes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"

/* In a container of packaging/Containerfile. */
#define RUNNER "/usr/lib/psgd/job_runner"
#define MOUNT  "/job"

enum {
    LABEL_MAX = 63, /* of a label of the DNS (RFC 1123), which names of Kubernetes are */
    NAME_MAX_BYTES = 80,
    GRACE_S = 60 /* from SIGTERM to SIGKILL: as a node needs for its last checkpoint */
};

static const char label_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

/* RFC 1123; with `dots` several of them, as the name of a claim. */
static bool is_name(const char *text, size_t len, bool dots)
{
    for (size_t at = 0; at <= len;) {
        const char *part = text + at;
        size_t n = 0;

        while (at + n < len && (!dots || part[n] != '.'))
            n++;
        if (n == 0 || n > LABEL_MAX || strspn(part, label_letters) < n || part[0] == '-' ||
            part[n - 1] == '-')
            return false;
        at += n + 1;
    }
    return true;
}

static bool has_parent(const char *path)
{
    for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
        if (strcspn(p, "/") == 2 && strncmp(p, "..", 2) == 0)
            return true;
    return false;
}

static int check_volume(const char *volume, struct err *e)
{
    size_t len = strcspn(volume, "/");

    if (!volume[0]) {
        err_set(e, ERR_USAGE, "--kubernetes needs --volume: where the pods find the job folder");
        return err_hint(e, "--volume CLAIM names the PersistentVolumeClaim, ReadWriteMany, in which it lies; "
                           "--volume /PATH a folder that all nodes of the cluster have.");
    }
    if (has_parent(volume) || !utf8_is_clean(volume))
        return err_set(e, ERR_USAGE, "--volume: \"..\" and control characters are no part of the path");
    if (len > 0 && !is_name(volume, len, true))
        return err_set(e, ERR_USAGE,
                       "--volume: \"%.*s\" is no name of a claim: small letters, digits, \"-\" and \".\"",
                       (int)len, volume);
    return 0;
}

int kubernetes_check(const struct options *o, struct err *e)
{
    if (!o->kubernetes[0] && (o->volume[0] || o->name_space[0] || o->pod_memory_gib))
        return err_set(e, ERR_USAGE,
                       "--%s is an option of a job on Kubernetes: --kubernetes IMAGE is missing",
                       o->volume[0]       ? "volume"
                       : o->name_space[0] ? "namespace"
                                          : "memory");
    if (!o->kubernetes[0])
        return 0;
    if (o->settings.transport != TRANSPORT_TCP) {
        err_set(e, ERR_USAGE, "--transport %s: pods of --kubernetes have no launcher of MPI",
                transport_traits[o->settings.transport].name);
        return err_hint(e, "Leave --transport out: TCP is encrypted between pods.");
    }
    if (!utf8_is_clean(o->kubernetes) || strchr(o->kubernetes, ' '))
        return err_set(e, ERR_USAGE, "--kubernetes: \"%.100s\" is no name of an image", o->kubernetes);
    if (o->name_space[0] && !is_name(o->name_space, strlen(o->name_space), false))
        return err_set(e, ERR_USAGE,
                       "--namespace: \"%.100s\" is no name: at most %d small letters, digits and \"-\"",
                       o->name_space, LABEL_MAX);
    return check_volume(o->volume, e);
}

/* {"name","labels"[,"namespace"]} */
static json_t *metadata_json(const struct options *o, const char *name)
{
    json_t *out = json_pack("{s:s, s:{s:s, s:s}}", "name", name, "labels", "app.kubernetes.io/name", "psgd",
                            "psgd/job", name);

    if (out && o->name_space[0])
        json_object_set_new(out, "namespace", json_string(o->name_space));
    return out;
}

/* A pod's name has an address as soon as the pod has one, because the others wait for it before any of them
 * is ready. */
static json_t *service_json(const struct options *o, const char *name)
{
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:{s:s}, s:b}}", "apiVersion", "v1", "kind", "Service",
                     "metadata", metadata_json(o, name), "spec", "clusterIP", "None", "selector", "psgd/job",
                     name, "publishNotReadyAddresses", 1);
}

static json_t *volume_json(const struct options *o)
{
    if (o->volume[0] == '/')
        return json_pack("{s:s, s:{s:o, s:s}}", "name", "job", "hostPath", "path",
                         json_text(o->volume, SIZE_MAX), "type", "Directory");
    return json_pack("{s:s, s:{s:s%}}", "name", "job", "persistentVolumeClaim", "claimName", o->volume,
                     strcspn(o->volume, "/"));
}

/* Of a claim, the job folder is a folder in its volume. */
static json_t *mount_json(const struct options *o, const char *folder)
{
    const char *in = o->volume + strcspn(o->volume, "/");
    json_t *out = json_pack("{s:s, s:s}", "name", "job", "mountPath", MOUNT);

    in += strspn(in, "/");
    if (out && o->volume[0] != '/')
        json_object_set_new(out, "subPath", json_text(in[0] ? in : strrchr(folder, '/') + 1, SIZE_MAX));
    return out;
}

/* No more than the profile "restricted" of Kubernetes' pod security allows. */
static json_t *container_json(const struct options *o, const char *name, const char *folder)
{
    char host[2 * NAME_MAX_BYTES + 32], memory[16], threads[16];
    json_t *out;

    snprintf(host, sizeof host, "%s-$(JOB_COMPLETION_INDEX).%s", name, name);
    snprintf(memory, sizeof memory, "%dGi", o->pod_memory_gib);
    snprintf(threads, sizeof threads, "%d", o->settings.threads > 0 ? o->settings.threads : 1);
    out = json_pack("{s:s, s:s, s:[s], s:[s,s,s,s], s:[o], s:{s:{s:s}}, s:{s:b, s:{s:[s]}}}", "name",
                    "job-runner", "image", o->kubernetes, "command", RUNNER, "args", "--job", MOUNT, "--host",
                    host, "volumeMounts", mount_json(o, folder), "resources", "requests", "cpu", threads,
                    "securityContext", "allowPrivilegeEscalation", 0, "capabilities", "drop", "ALL");
    if (out && o->pod_memory_gib)
        json_object_update_new(json_object_get(out, "resources"),
                               json_pack("{s:{s:s}, s:{s:s, s:s}}", "limits", "memory", memory, "requests",
                                         "cpu", threads, "memory", memory));
    return out;
}

/* Only the user that packed the job can read the folder. */
static json_t *pod_json(const struct options *o, const char *name, const char *folder)
{
    return json_pack(
        "{s:{s:{s:s, s:s}}, s:{s:s, s:s, s:b, s:b, s:i, s:{s:I, s:I, s:b, s:{s:s}}, s:[o], s:[o]}}",
        "metadata", "labels", "app.kubernetes.io/name", "psgd", "psgd/job", name, "spec", "restartPolicy",
        "Never", "subdomain", name, "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "terminationGracePeriodSeconds", GRACE_S, "securityContext", "runAsUser", (json_int_t)getuid(),
        "runAsGroup", (json_int_t)getgid(), "runAsNonRoot", (int)(getuid() != 0), "seccompProfile", "type",
        "RuntimeDefault", "containers", container_json(o, name, folder), "volumes", volume_json(o));
}

/* A pod that fails ends the job, as a process of mpirun does: the others cannot go on without it, and a pod
 * of its number would find them gone. */
static json_t *job_json(const struct options *o, const char *name, const char *folder, size_t n_processes)
{
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:I, s:I, s:i, s:o}}", "apiVersion", "batch/v1", "kind", "Job",
                     "metadata", metadata_json(o, name), "spec", "completionMode", "Indexed", "completions",
                     (json_int_t)n_processes, "parallelism", (json_int_t)n_processes, "backoffLimit", 0,
                     "template", pod_json(o, name, folder));
}

json_t *kubernetes_json(const struct options *o, const char *id, const char *folder, size_t n_processes)
{
    char name[NAME_MAX_BYTES];

    snprintf(name, sizeof name, "psgd-%s", id);
    return json_pack("{s:s, s:s, s:[o, o]}", "apiVersion", "v1", "kind", "List", "items",
                     service_json(o, name), job_json(o, name, folder, n_processes));
}

int kubernetes_write(const struct options *o, const char *id, const char *folder, size_t n_processes,
                     struct err *e)
{
    json_t *all = kubernetes_json(o, id, folder, n_processes);
    char *text = all ? json_dump_line(all, JSON_INDENT(2)) : NULL, path[PATH_MAX];
    int rc = text ? file_join(path, sizeof path, folder, KUBERNETES_FILE, e)
                  : err_set(e, ERR_NOMEM, "no memory for " KUBERNETES_FILE);

    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0600, e);
    free(text);
    json_decref(all);
    return rc;
}
