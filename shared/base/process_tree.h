/* process_tree -- ends the processes that a process has started, and those that these have started, whatever
 * session or process group they have moved to. A process whose parent has ended is found only if its new
 * parent, the nearest subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)), is the root or beneath it. */
#ifndef PSGD_PROCESS_TREE_H
#define PSGD_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sends SIGKILL to each descendant of `root`, and returns how many there were that had not ended. Children
 * of the root for which `is_kept` returns true stay, with their descendants; NULL: none stays. A process that
 * forks meanwhile may have been missed: call again until the result is 0. Descendants are all stopped before
 * the first is killed, so that only a process that has just been forked can be missed. */
size_t process_tree_kill(pid_t root, bool (*is_kept)(void *arg, pid_t child), void *arg);

/* For a subreaper: ends the descendants of this process but those that are kept, in several rounds, and waits
 * for the children among them. */
void process_end_orphans(bool (*is_kept)(void *arg, pid_t child), void *arg);

#endif
