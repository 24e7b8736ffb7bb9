/* hosts -- the list of a job's agents: the file of --workers, or, as in TensorFlow, --ps_hosts and
 * --worker_hosts, each "host:port,host:port,...". */
#ifndef PSGD_SUBMIT_HOSTS_H
#define PSGD_SUBMIT_HOSTS_H

#include "shared/job/worker_list.h"
#include "submit/options/submit_options.h"

/* Reads the list. ERR_USAGE: a host in the options is no address, or is named twice; else as
 * worker_list_read(). */
int hosts_read(struct worker_list *out, const struct options *o, struct err *e);
/* Makes a list of that many addresses, to which no request is sent: for a job that is only checked. */
int hosts_stand_in(struct worker_list *out, int n_workers, int n_servers, struct err *e);
/* The name of the list in messages: that of the file, or "the list of hosts". */
const char *hosts_name(const struct options *o);
/* The number of entries of "host:port,...". */
int hosts_count(const char *list);

#endif
