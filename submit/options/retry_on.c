#include "submit/options/retry_on.h"

#include <stddef.h>
#include <string.h>

#include "shared/job/reason.h"

static const struct {
    const char *name, *reason;
} names[] = {
    {"node_lost", REASON_NODE_LOST},
    {"runner_died", REASON_RUNNER_DIED},
    {"oom", REASON_OUT_OF_MEMORY},
    {"interrupted", REASON_INTERRUPTED},
    {"agent_restarted", REASON_AGENT_RESTARTED},
    {"agent_stopped", REASON_AGENT_STOPPED},
    {"round_timeout", REASON_ROUND_TIMEOUT},
    {"disk_full", REASON_DISK_FULL},
    {"journal_failed", REASON_JOURNAL_FAILED},
};

/* The reason that the first n characters name; NULL: none. */
static const char *find_reason(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0)
            return names[i].reason;
    return NULL;
}

int retry_on_check(const char *list, struct err *e)
{
    for (;; list++) {
        size_t n = strcspn(list, ",");

        if (!find_reason(list, n))
            return err_set(e, ERR_USAGE, "--retry-on: \"%.*s\" is not one of %s", (int)(n < 40 ? n : 40),
                           list, RETRY_ON_NAMES);
        list += n;
        if (!*list)
            return 0;
    }
}

bool retry_on_has(const char *list, const char *reason)
{
    for (;; list++) {
        size_t n = strcspn(list, ",");
        const char *named = find_reason(list, n);

        if (named && strcmp(named, reason) == 0)
            return true;
        list += n;
        if (!*list)
            return false;
    }
}
