#include "agent/access/trainer_policy.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/access/digest_list.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"

static const char default_python[] = "python3";

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* A link is not resolved: the interpreter of a virtual environment is one, and finds the environment's
 * packages by the folder that the link is in. */
static int find_python(char out[PATH_MAX], const char *named, struct err *e)
{
    if (!named[0]) {
        if (!file_find_program(out, PATH_MAX, default_python))
            out[0] = '\0';
        return 0;
    }
    if (strchr(named, '/') ? file_absolute(out, PATH_MAX, named, e) < 0 || !is_program(out)
                           : !file_find_program(out, PATH_MAX, named))
        return err_set(e, ERR_USAGE, "--trainer-python %s: there is no such program", named);
    return 0;
}

static int find_data(char out[PATH_MAX], const char *named, struct err *e)
{
    struct stat st;

    if (!named[0])
        return 0;
    if (file_absolute(out, PATH_MAX, named, e) < 0)
        return e->code;
    if (stat(out, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_USAGE, "--trainer-data %s: there is no such folder", named);
    if (!utf8_is_clean(out))
        return err_set(e, ERR_USAGE, "--trainer-data: its path is not UTF-8, or has control characters");
    return 0;
}

int trainer_rules_set(struct trainer_rules *r, const struct agent_options *opt, struct err *e)
{
    char python[PATH_MAX];

    *r = (struct trainer_rules){.policy = (enum trainer_policy)opt->trainers,
                                .isolation = (enum trainer_isolation)opt->trainer_isolation};
    memcpy(r->list, opt->trainer_list, sizeof r->list);
    if (!r->list[0] && file_join(r->list, sizeof r->list, opt->dir, "trainers.allow", e) < 0)
        return e->code;
    if (find_data(r->data, opt->trainer_data, e) < 0 || find_python(python, opt->trainer_python, e) < 0)
        return e->code;
    if (python[0] && file_absolute(r->python, sizeof r->python, python, e) < 0)
        return e->code;
    if (!utf8_is_clean(r->python)) /* it is sent as JSON, and printed */
        return err_set(e, ERR_USAGE, "--trainer-python: its path is not UTF-8, or has control characters");
    return 0;
}

int trainer_rules_check(const struct trainer_rules *r, const struct agent_isolation *own, struct err *e)
{
    if (r->policy == TRAINERS_NONE || r->isolation == TRAINER_ISOLATION_NONE)
        return 0;
    if (own->landlock_abi == 0)
        return err_set(e, ERR_AUTH,
                       "--trainer-isolation %s: this kernel has no Landlock (it needs Linux 5.13 and "
                       "lsm=landlock)",
                       trainer_isolation_name(r->isolation));
    if (r->isolation != TRAINER_ISOLATION_USER || (own->has_own_user && own->has_own_tree))
        return 0;
    err_set(e, ERR_AUTH,
            "--trainer-isolation user: this agent cannot give each program a user and a tree of folders of "
            "its own (%s)",
            own->lacks[0] ? own->lacks : "the kernel, or its container, forbids a namespace of mounts");
    return err_hint(e, "Only root can; --trainer-isolation files needs neither.");
}

static int refuse_all(const char *name, struct err *e)
{
    err_set(e, ERR_TRAINER, "this agent runs no training programs, and so not %s (--trainers none)", name);
    return err_hint(e, "Its owner can allow them: agent --trainers allowlist, or any. SECURITY.md says what "
                       "such a program may do.");
}

int trainer_admit(const struct trainer_rules *r, const char *name, const char *hex, struct err *e)
{
    int listed;

    if (r->policy == TRAINERS_NONE)
        return refuse_all(name, e);
    if (r->policy == TRAINERS_ANY || !hex[0])
        return 0;
    listed = digest_list_has(r->list, hex, e);
    if (listed < 0)
        return e->code = ERR_TRAINER;
    if (listed)
        return 0;
    err_set(e, ERR_TRAINER,
            "training program %s (its package has SHA-256 %s) is not on this agent's list (--trainers "
            "allowlist)",
            name, hex);
    return err_hint(e, "To allow it, add a line with %s to %s on that agent's machine.", hex, r->list);
}
