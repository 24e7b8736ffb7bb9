#include "shared/plugin/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The fields that are read have the same offsets in files of both classes. */
enum { TYPE_AT = EI_NIDENT, MACHINE_AT = EI_NIDENT + 2, LOOK_BYTES = EI_NIDENT + 4 };

static uint16_t half(const uint8_t *p, uint8_t byte_order)
{
    return byte_order == ELFDATA2MSB ? (uint16_t)(p[0] << 8 | p[1]) : (uint16_t)(p[1] << 8 | p[0]);
}

int elf_read(struct elf_kind *out, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    uint8_t head[LOOK_BYTES];
    ssize_t n;

    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    n = read(fd, head, sizeof head);
    close(fd);
    if (n != sizeof head || memcmp(head, ELFMAG, SELFMAG) != 0)
        return err_set(e, ERR_CODEC, "%s: not an ELF file", path);
    *out = (struct elf_kind){.cell_class = head[EI_CLASS],
                             .byte_order = head[EI_DATA],
                             .is_shared = half(head + TYPE_AT, head[EI_DATA]) == ET_DYN,
                             .machine = half(head + MACHINE_AT, head[EI_DATA])};
    return 0;
}

int elf_here(struct elf_kind *out, struct err *e)
{
    return elf_read(out, "/proc/self/exe", e);
}

bool elf_fits(const struct elf_kind *object, const struct elf_kind *here)
{
    return object->cell_class == here->cell_class && object->byte_order == here->byte_order &&
           object->machine == here->machine;
}

const char *elf_machine(char out[24], const struct elf_kind *k)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } known[] = {
        {EM_X86_64, "x86-64"},   {EM_386, "x86"},      {EM_AARCH64, "AArch64"}, {EM_ARM, "ARM"},
        {EM_PPC64, "PowerPC64"}, {EM_RISCV, "RISC-V"}, {EM_S390, "S/390"},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].machine == k->machine) {
            snprintf(out, 24, "%s", known[i].name);
            return out;
        }
    snprintf(out, 24, "ELF machine %u", k->machine);
    return out;
}
