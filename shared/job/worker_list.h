/* worker_list -- worker.json: the machines a job may use, and the form of their addresses.
 *   {"PS": "host" | ["host", ...], "Worker": ["host:port", ...],
 *    "Spare": ["host:port", ...],
 *    "nodes": {"host:port": {"token_file": "...", "advertise": "host", "fingerprint": "sha256//BASE64="}}}
 *   [["PS", "host"], ["Worker", "host"], ...]                 the older form
 *   ["host:port", ...]                                        workers only: Parallel-SGD's executors.json
 * An address is host, host:port or [v6]:port, with or without http:// before it; the default port is 15387.
 * Workers are nodes 0, 1, ...; servers -2, -3, ... in the order of the file. A spare takes the place of an
 * agent that does not answer; for a job with --retries, so does a worker beyond --node_count. */
#ifndef PSGD_WORKER_LIST_H
#define PSGD_WORKER_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

enum { AGENT_PORT = 15387, ADDRESS_MAX = 272 };

struct listed_agent {
    int node;                  /* worker 0, 1, ...; server -2, -3, ...; of a spare not set */
    char address[ADDRESS_MAX]; /* "host:port" or "[v6]:port", normalized */
    char host[256];            /* without brackets */
    int port;
    char token_file[1024]; /* "": none named */
    char advertise[256];   /* host at which other nodes reach this node; "": the agent's choice */
    char pin[BASE64_TEXT]; /* fingerprint of the only key that the agent may have, in base64url; "": any */
};

struct worker_list {
    size_t n_workers, n_servers, n_spares;
    struct listed_agent *nodes; /* workers first, then servers, then spares */
};

/* Does not change *out on failure. ERR_CONFIG: not JSON (line and column), a bad address, the same address
 * twice. */
int worker_list_read(struct worker_list *out, const char *path, struct err *e);
int worker_list_parse(struct worker_list *out, const json_t *doc, const char *what, struct err *e);
void worker_list_clear(struct worker_list *w);

/* Whether its host is this machine: 127.x.y.z, ::1, localhost. */
bool listed_agent_is_loopback(const struct listed_agent *w);

/* "host", "host:port", "[v6]:port" -> host, in lower case or in IPv6's canonical form, and port.
 * ERR_CONFIG. */
int address_parse(char *host, size_t size, int *port, const char *text, struct err *e);

#endif
