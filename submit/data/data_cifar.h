/* data_cifar -- the records of CIFAR's binary files, in memory. */
#ifndef PSGD_DATA_CIFAR_H
#define PSGD_DATA_CIFAR_H

#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

struct cifar_form {
    int label_bytes, label_at; /* a record begins with so many labels; the one that counts */
    int n_classes;
};

/* How many records `len` bytes are. ERR_CONFIG: not a whole number of them. */
int cifar_count(size_t *n, size_t len, const struct cifar_form *form, struct err *e);
/* x (n, 32, 32, 3): the planes of the file become the last dimension; y (n).
 * ERR_CONFIG: a label that there is not. */
int cifar_unpack(uint8_t *x, int32_t *y, const uint8_t *bytes, size_t n, const struct cifar_form *form,
                 struct err *e);

#endif
