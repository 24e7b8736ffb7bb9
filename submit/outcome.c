#include "submit/outcome.h"

#include <string.h>

/* How likely it is that this end explains the others; smaller is likelier. A node that died or was told to
 * stop takes the others with it, and they report that they lost it. */
static int blame(const struct node *n)
{
    if (n->view.state == JOB_CANCELLED)
        return 2;
    if (n->is_lost)
        return 1;
    return strcmp(n->view.reason, "NodeLost") == 0 || strcmp(n->view.reason, "RoundTimeout") == 0 ? 3 : 0;
}

int outcome_cause(const struct submission *s)
{
    int cause = -1;

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        const struct node *c = cause < 0 ? NULL : &s->nodes[cause];

        if (!n->is_ended || n->view.state == JOB_SUCCEEDED)
            continue;
        if (!c || blame(n) < blame(c) || (blame(n) == blame(c) && n->ended_at < c->ended_at))
            cause = (int)i;
    }
    return cause;
}

enum job_state outcome_state(const struct submission *s, enum job_state unheard)
{
    int cause = outcome_cause(s);
    enum job_state least = JOB_SUCCEEDED;

    if (cause >= 0)
        return s->nodes[cause].view.state;
    for (size_t i = 0; i < s->n_nodes; i++) {
        enum job_state state = s->nodes[i].silent_since > 0 ? unheard : s->nodes[i].view.state;

        if (state < least)
            least = state;
    }
    return least;
}
