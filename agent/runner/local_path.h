/* local_path -- workers that all run on one machine share memory (meeting.h). Everybody tells everybody
 * whether it can, once, over the mesh, and it is done only where all can: so all do, or none.
 *
 *   local_path_begin(&p, mesh, n_workers, me, n_floats);
 *   until it is settled: local_path_on_message for each FRAME_LOCAL, local_path_advance after each poll
 *   local_path_take */
#ifndef PSGD_LOCAL_PATH_H
#define PSGD_LOCAL_PATH_H

#include "agent/runner/meeting.h"
#include "agent/runner/mesh.h"

enum { LOCAL_PATH_BYTES = MEETING_NAME_BYTES + MEETING_SECRET_BYTES }; /* of the longest message */

struct local_path {
    struct mesh *mesh; /* borrowed */
    int n_workers, me;
    struct meeting *meeting; /* NULL: this worker cannot */
    double deadline;         /* clock_now: whoever has not joined by then does not */
    bool has_said;           /* whether it can: all have joined its memory, or some will not */
    bool all_can;            /* of those that have said so, this one included */
    int n_heard;             /* others that have said whether they can: */
    bool heard[MEETING_MAX];
    struct err why; /* this worker cannot, or another */
};

/* Tells the others how to come to this worker's memory of so many bytes, or that it cannot. The mesh links
 * all workers; more than MEETING_MAX have nothing to say to each other, and share nothing. */
int local_path_begin(struct local_path *p, struct mesh *m, int n_workers, int me, size_t bytes,
                     struct err *e);
/* Takes its buffer. ERR_PROTOCOL: not what that peer has to say. */
int local_path_on_message(struct local_path *p, struct mesh_event *ev, struct err *e);
int local_path_advance(struct local_path *p, struct err *e);
bool local_path_is_settled(const struct local_path *p);
/* All have come to it; NULL where it is not to be. The caller's to close. */
struct meeting *local_path_take(struct local_path *p);

#endif
