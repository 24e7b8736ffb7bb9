/* npz -- writes a file for numpy.load: a zip archive without compression, one .npy (version 1.0) per
 * tensor. Sources: NumPy, numpy.lib.format; PKWARE, .ZIP File Format Specification 6.3.10, 4.3.7, 4.3.12,
 * 4.3.16. */
#ifndef PSGD_SUBMIT_NPZ_H
#define PSGD_SUBMIT_NPZ_H

#include "shared/records/tensor_file.h"

/* Replaces `path`. ERR_CONFIG: a tensor type that numpy does not have (BF16), or an archive of more than 4
 * GiB, the maximum of a plain zip. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int npz_write(const char *path, const struct tensor_view *t, size_t n, struct err *e);

#endif
