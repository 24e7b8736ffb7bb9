/* elf -- for which machine a shared object is: the first bytes of its file, before anybody loads it. */
#ifndef PSGD_ELF_H
#define PSGD_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

struct elf_kind {
    uint8_t cell_class, byte_order; /* e_ident[EI_CLASS], e_ident[EI_DATA] */
    uint16_t machine;               /* e_machine */
    bool is_shared;                 /* what dlopen takes: e_type is ET_DYN */
};

/* ERR_CODEC: not an ELF file; ERR_NOT_FOUND, ERR_IO. */
int elf_read(struct elf_kind *out, const char *path, struct err *e);

/* Of the program that calls. */
int elf_here(struct elf_kind *out, struct err *e);

/* Could a program of the kind `here` load an object of this one? */
bool elf_fits(const struct elf_kind *object, const struct elf_kind *here);

/* "x86-64", "AArch64", ..., "ELF machine 4660". */
const char *elf_machine(char out[24], const struct elf_kind *k);

#endif
