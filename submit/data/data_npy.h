/* data_npy -- NumPy arrays as bytes: .npy (format 1.0 and 2.0,
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), and .npz, a zip file of them. */
#ifndef PSGD_DATA_NPY_H
#define PSGD_DATA_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { NPY_DIMS = 4 };
/* Kind and bytes of a value: b1 is a bool, u unsigned, i signed, f floating. */
enum npy_type {
    NPY_B1,
    NPY_U1,
    NPY_U2,
    NPY_U4,
    NPY_U8,
    NPY_I1,
    NPY_I2,
    NPY_I4,
    NPY_I8,
    NPY_F2,
    NPY_F4,
    NPY_F8,
    N_NPY_TYPES
};

struct npy_array {
    enum npy_type type;
    bool is_big_endian;
    int n_dims;
    size_t shape[NPY_DIMS];
    size_t n;            /* values: the product of the shape */
    const uint8_t *data; /* in the given bytes, C order; not aligned */
};

/* ERR_CONFIG: not an .npy file, an unsupported type or order, no samples, or `len` does not match the
 * shape. */
int npy_parse(struct npy_array *a, const uint8_t *bytes, size_t len, struct err *e);
/* A data_promise (data_sets.h): the length of the file, by its header, which is in the first bytes. */
int npy_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e);
bool npy_is_float(const struct npy_array *a);
double npy_value(const struct npy_array *a, size_t i); /* of any type */
/* a of no floating type; beyond the largest int64_t that is returned. */
int64_t npy_integer(const struct npy_array *a, size_t i);

/* Reads one member of a zip file, an .npy file, stored or deflated, and checks its CRC-32; the caller frees.
 * Unpacks no more than its first DATA_HEAD bytes if the array in it has another size than the member. No
 * zip64, no encryption. ERR_NOT_FOUND: no member of that name. ERR_CONFIG: not a zip file, or one that
 * contradicts itself, or the array. */
int zip_member(uint8_t **out, size_t *out_len, const uint8_t *zip, size_t len, const char *name,
               struct err *e);

#endif
