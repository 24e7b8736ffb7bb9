/* affinity -- may the nodes of a machine spin while they wait? */
#ifndef PSGD_AFFINITY_H
#define PSGD_AFFINITY_H

#include <stdbool.h>

int affinity_processors(void); /* on which this process may run; at least 1 */
/* With so many nodes on these processors one of them nearly always has something to compute: none spins. */
bool affinity_is_crowded(int n_nodes);

#endif
