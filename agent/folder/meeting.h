/* meeting -- how the processes of a job folder find each other, through files in DIR/meet: process 0 leads.
 *
 *   offer.json    of the leader: {"launch"}, random, new in each launch, with "name", the launcher's of the
 *                 launch, and "machine"
 *   hello-R.json  of process R, for each new offer: {"launch","nonce","machine","boot","host","address",
 *                 "attempt","state","checkpoints"}, with a sentence, "failed", if it has failed, and with
 *                 "cancelled" if it was asked to end
 *   plan.json     of the leader, once there is a hello for its offer of each process: {"launch","attempt",
 *                 "one_machine","members":[{"nonce","machine","boot","host"}],"resume":{...} or null}, or,
 *                 with a sentence, "refused", and with "has_failed" if a process has failed
 *   ready-R.json  of process R, when its runner has loaded all: {"launch","port","data_key"}, or
 *                 {"launch","failed","cancelled"}
 *   start.json    of the leader: {"launch","ports","data_keys"}, or {"launch","failed"}
 *   ended-R.json  of process R: {"launch","state","reason","message"}
 *   stop.json     of the leader: {"launch","reason","has_failed"}: the others are to end
 *   cancel.json   of `job_submit cancel`: {"reason"}
 *   checkpoint.json of `job_submit checkpoint`: {}; the leader removes it and has its node ask for one
 *
 * Files of an earlier launch, which may have been killed anywhere, are never taken for those of this one: a
 * hello counts if it has the launch of the leader, which is new, and a plan if it has the nonce of the hello,
 * which is new as well. Each file is replaced as a whole. A network file system keeps what it knows of a
 * folder for up to a minute; opening the folder makes it look again, so that is done before each poll. */
#ifndef PSGD_MEETING_H
#define PSGD_MEETING_H

#include "agent/folder/meeting_member.h"
#include "shared/base/crypto.h"
#include "shared/base/err.h"

struct meeting_offer {
    char launch[MEETING_ID], name[MEETING_NAME], machine[MEETING_NAME];
};

/* Reads the offer in the job folder. False: there is none, or it is damaged. */
bool meeting_read_offer(struct meeting_offer *out, const char *job_folder);

/* Begins a launch: the leader writes its offer. `mine`: without nonce. ERR_NOMEM, ERR_IO. */
int meeting_open(struct meeting *m, const char *dir, int rank, int n, const struct meeting_member *mine,
                 struct err *e);
void meeting_close(struct meeting *m);

/* Each step returns 1 when it is done, 0 while it waits, an error otherwise; it is called again and again.
 *
 * All processes have met, and the attempt, the hosts and the checkpoints are known; the offers of launches
 * with other names are ignored. ERR_CONFLICT: the job has succeeded already. ERR_REFUSED: the leader has
 * refused, and *e has its sentence. ERR_LOST: a process has failed; ERR_CANCELLED, in the leader: was asked
 * to end. ERR_CONFIG: a file of this launch is damaged. */
int meeting_gather(struct meeting *m, struct err *e);
/* Says that this node is ready at the port, with the public half of its key in hex; from now on it waits for
 * the others. */
int meeting_say_ready(struct meeting *m, int port, const char *data_key, struct err *e);
/* All nodes are ready, and members[].port and .data_key are known. May be called before this one is.
 * ERR_LOST, ERR_CANCELLED, ERR_CONFIG: as above. */
int meeting_start(struct meeting *m, struct err *e);

/* The leader gives up: the others read why. */
void meeting_give_up(struct meeting *m, const struct err *why);
/* This process has failed before the start, and the others are to end. Call it again and again: true once it
 * has told all that have to know, the leader each other process when it comes, another one the leader. No
 * effect if the leader was first to give up. */
bool meeting_tell_failure(struct meeting *m, const struct err *why);
/* Says how this node has ended. */
void meeting_say_ended(struct meeting *m, enum job_state state, const char *reason, const char *message);
/* The leader: reads who else has ended. */
void meeting_read_ends(struct meeting *m);
/* The leader: has the others end, as this one has. */
void meeting_say_stop(struct meeting *m, const char *reason, bool has_failed);
/* Whether the leader, or `job_submit cancel`, wants this node to end; `reason` has the sentence. */
bool meeting_is_stopped(struct meeting *m, char reason[200], bool *has_failed);

/* The leader: whether `job_submit checkpoint` has asked for a checkpoint since the last call. */
bool meeting_takes_checkpoint(struct meeting *m);

/* Whom the present step waits for: "process 1 (node 1), process 2 (node -2)", or "the address of NAME,
 * process 1 (node 1)" where a name has no address yet. */
void meeting_missing(const struct meeting *m, char *out, size_t size);
/* What the nodes of this launch have in common, from the job's secret. */
void meeting_key(uint8_t out[SHA256_BYTES], const struct meeting *m, const uint8_t secret[SHA256_BYTES]);

#endif
