/* The all-reduce of path_allreduce.c on two levels: the workers of each machine sum their vectors, in shared
 * memory where they can, one worker of each machine combines these sums with the other machines', and the
 * result comes back the same way. So one vector goes through a machine's link each way, however many workers
 * it has. */
#include "runner/exchange/path.h"
#include "runner/exchange/paths/allreduce.h"

const struct path path_tree = {.has_levels = true,
                               .events = allreduce_events,
                               .close = allreduce_close,
                               .open = allreduce_open,
                               .n_later = allreduce_n_later};
