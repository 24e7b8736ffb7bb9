/* elf -- the machine a shared object is for, from the first bytes of its file, before it is loaded. */
#ifndef PSGD_ELF_H
#define PSGD_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

struct elf_kind {
    uint8_t cell_class, byte_order; /* e_ident[EI_CLASS], e_ident[EI_DATA] */
    uint16_t machine;               /* e_machine */
    bool is_shared;                 /* dlopen accepts it: e_type is ET_DYN */
};

/* ERR_CODEC: not an ELF file; ERR_NOT_FOUND, ERR_IO. */
int elf_read(struct elf_kind *out, const char *path, struct err *e);

/* As elf_read, for the executable of this process. */
int elf_here(struct elf_kind *out, struct err *e);

/* Whether a program of kind `here` can load the object. */
bool elf_fits(const struct elf_kind *object, const struct elf_kind *here);

/* "x86-64", "AArch64", ..., "ELF machine 4660". */
const char *elf_machine(char out[24], const struct elf_kind *k);

#endif
