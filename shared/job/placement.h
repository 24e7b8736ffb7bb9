/* placement -- which parameter server holds which parameters (--placement). Every codec sees its server's
 * part as one contiguous range of the vector of all parameters, so a placement is an order of that vector:
 *
 *   range        the model's order, in ranges of equal length, which may begin inside a tensor
 *   round_robin  whole tensors: tensor t of the trained ones, in the model's order from 0, is on server
 *                t mod S of S, as TensorFlow's replica_device_setter places variables. The tensors of a
 *                server lie together, in the model's order
 *
 * In both the running statistics are last, so round_robin leaves them to the last server. Names and shapes do
 * not change: model files, checkpoints and records list tensors in the model's order. */
#ifndef PSGD_PLACEMENT_H
#define PSGD_PLACEMENT_H

#include "shared/job/model_spec.h"

#define PLACEMENT_CHOICES "range|round_robin"
enum placement { PLACEMENT_RANGE, PLACEMENT_ROUND_ROBIN };

/* ERR_CONFIG: a server would get no tensor. */
int placement_check(enum placement p, const struct model_spec *m, int n_servers, struct err *e);
/* Sets the offsets of a model's tensors, before a net is made of it, and *ranges (n_servers + 1): where each
 * server's range begins, and the end of the last; the caller frees it. *ranges is NULL if the ranges have
 * equal lengths; the job may then have no servers. ERR_CONFIG as placement_check; ERR_NOMEM. */
int placement_lay_out(size_t **ranges, enum placement p, struct model_spec *m, int n_servers, struct err *e);

#endif
