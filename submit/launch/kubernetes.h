/* kubernetes -- a job folder as a job of Kubernetes: an Indexed Job, whose pods run the job's processes, and
 * the headless Service by which a pod has a name that other pods find. */
#ifndef PSGD_SUBMIT_KUBERNETES_H
#define PSGD_SUBMIT_KUBERNETES_H

#include <jansson.h>

#include "submit/options/submit_options.h"

#define KUBERNETES_FILE "kubernetes.json" /* in the job folder: kubectl apply -f DIR/kubernetes.json */

/* Checks the options of --kubernetes. ERR_USAGE. */
int kubernetes_check(const struct options *o, struct err *e);
/* The two objects as a List, which the caller owns. `folder`: the job folder, whose last name is its path in
 * the volume unless --volume has one. NULL: no memory. */
json_t *kubernetes_json(const struct options *o, const char *id, const char *folder, size_t n_processes);
/* Writes them into the folder. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int kubernetes_write(const struct options *o, const char *id, const char *folder, size_t n_processes,
                     struct err *e);

#endif
