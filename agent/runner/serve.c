/* serve -- a parameter server's part: hears workers until the last one has left. */
#include <math.h>

#include "agent/runner/node.h"
#include "shared/clock.h"

int node_serve(struct node *n, struct err *e)
{
    n->progress.loss = n->progress.accuracy = NAN;
    while (!exchange_is_over(n->exchange)) {
        bool came;

        /* Workers compute as long as they like; one that dies is noticed by its connection. */
        if (node_pump(n, clock_now() + 60, &came, e) < 0 || node_record_comm(n, e) < 0)
            return e->code;
        n->progress.sent_bytes = exchange_totals(n->exchange)->sent_bytes;
        n->progress.recv_bytes = exchange_totals(n->exchange)->recv_bytes;
        if (report_is_due(n->report))
            report_progress(n->report, &n->progress);
    }
    report_progress(n->report, &n->progress);
    return 0;
}
