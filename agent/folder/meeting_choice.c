#include "agent/folder/meeting_choice.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/address.h"

/* Whether the name stands for an address by which other machines can reach it: Debian has 127.0.1.1 for its
 * own name. */
static bool is_reachable(const char *name)
{
    struct addresses found;

    if (address_find(&found, name, 0) != 0)
        return false;
    for (size_t i = 0; i < found.n; i++)
        if (!address_is_loopback((const struct sockaddr *)&found.of[i].at))
            return true;
    return false;
}

/* Images that are copied to many machines may give all of them one name. */
static bool is_name_of_several(const struct meeting *m, const struct meeting_member *k)
{
    for (int r = 0; r < m->n; r++)
        if (strcasecmp(m->members[r].machine, k->machine) == 0 && !meeting_is_one_machine(&m->members[r], k))
            return true;
    return false;
}

/* Every process of one machine gets the same host, by which nodes see that they share it. */
void meeting_choose_hosts(struct meeting *m)
{
    m->is_on_one_machine = true;
    for (int r = 1; r < m->n; r++)
        m->is_on_one_machine &= meeting_is_one_machine(&m->members[r], &m->members[0]);
    for (int r = 0; r < m->n; r++) {
        struct meeting_member *k = &m->members[r];
        const struct meeting_member *same = m->members;

        while (same < k && !meeting_is_one_machine(same, k))
            same++;
        if (k->given[0])
            memcpy(k->host, k->given, sizeof k->host);
        else if (m->is_on_one_machine)
            snprintf(k->host, sizeof k->host, "127.0.0.1");
        else if (same < k && !same->given[0])
            memcpy(k->host, same->host, sizeof k->host);
        else if (k->address[0] && (is_name_of_several(m, k) || !is_reachable(k->machine)))
            snprintf(k->host, sizeof k->host, "%s", k->address);
        else
            memcpy(k->host, k->machine, sizeof k->host);
    }
}

static bool has_point(const struct meeting_member *k, const struct meeting_point *p)
{
    for (size_t i = 0; i < k->n_points; i++)
        if (strcmp(k->points[i].job, p->job) == 0 && k->points[i].round == p->round &&
            (k->node < 0 || k->points[i].step == p->step))
            return true;
    return false;
}

/* The latest point of which all nodes have checkpoints. */
void meeting_choose_resume(struct meeting *m)
{
    const struct meeting_member *first = &m->members[0];

    m->resumes = false;
    for (size_t i = 0; i < first->n_points; i++) {
        bool is_common = !m->resumes || first->points[i].step > m->resume.step;

        for (int r = 1; r < m->n && is_common; r++)
            is_common = has_point(&m->members[r], &first->points[i]);
        if (is_common) {
            m->resume = first->points[i];
            m->resumes = true;
        }
    }
}

void meeting_choose_attempt(struct meeting *m)
{
    m->attempt = 1;
    for (int r = 0; r < m->n; r++)
        if (m->members[r].attempt >= m->attempt)
            m->attempt = m->members[r].attempt + 1;
}

bool meeting_has_succeeded(const struct meeting *m)
{
    for (int r = 0; r < m->n; r++)
        if (m->members[r].attempt != m->members[0].attempt || m->members[r].state != JOB_SUCCEEDED)
            return false;
    return m->members[0].attempt > 0;
}
