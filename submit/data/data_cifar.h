/* data_cifar -- the records of CIFAR's binary files, in memory. */
#ifndef PSGD_DATA_CIFAR_H
#define PSGD_DATA_CIFAR_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct cifar_form {
    int label_bytes, label_at; /* labels at the head of a record; the index of the one to use */
    int n_classes;
};

/* Computes the number of records in `len` bytes. ERR_CONFIG: not a whole number. */
int cifar_count(size_t *n, size_t len, const struct cifar_form *form, struct err *e);
/* Writes x (n, 32, 32, 3), in which the planes of the file become the last dimension, and y (n).
 * ERR_CONFIG: a label out of range. */
int cifar_unpack(uint8_t *x, int32_t *y, const uint8_t *bytes, size_t n, const struct cifar_form *form,
                 struct err *e);

#endif
