/* folder_process -- whether the process of a node of a job folder lives, which may be on another machine. */
#ifndef PSGD_SUBMIT_FOLDER_PROCESS_H
#define PSGD_SUBMIT_FOLDER_PROCESS_H

#include <jansson.h>
#include <stdbool.h>

/* What was seen of its states. */
struct folder_process {
    double changed_at; /* when the last one was written, by the clock of the file system; the caller's */
    double written_s;  /* by that of the process */
    double heard_at;   /* clock_now() at which it was new; 0: not known */
};

/* Whether the process of the node in the folder `node`, with this state, has ended, as one that was killed.
 * Where its lock says nothing, a process that writes its state is alive. */
bool folder_process_is_gone(struct folder_process *p, const char *node, const json_t *state);
/* Makes it the state of a node whose process has ended without reporting an end. */
void folder_process_note_gone(json_t *state);

#endif
