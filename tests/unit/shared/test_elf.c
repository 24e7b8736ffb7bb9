#include "shared/plugin/elf.h"

#include <elf.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

static struct err e;

/* The first bytes of a file, written to a folder of the test's own. */
static void write_head(char path[128], const char *folder, const uint8_t *head, size_t len)
{
    snprintf(path, 128, "%s/object", folder);
    assert_ok(file_write(path, head, len, 0600, &e));
}

TEST(this_program_matches_this_machine_and_names_it)
{
    struct elf_kind here;
    char name[24];

    assert_ok(elf_here(&here, &e));
    assert_true(elf_fits(&here, &here));
    assert_true(strlen(elf_machine(name, &here)) > 2);
}

TEST(an_object_is_identified_by_class_byte_order_and_machine)
{
    static const struct {
        uint8_t head[20];
        const char *name;
        bool is_shared, fits;
    } cases[] = {
        {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [16] = ET_DYN, [18] = EM_X86_64},
         "x86-64",
         true,
         true},
        {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [16] = ET_REL, [18] = EM_X86_64},
         "x86-64",
         false,
         true},
        {{0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, [16] = ET_DYN, [18] = EM_X86_64},
         "x86-64",
         true,
         false},
        {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [16] = ET_DYN, [18] = EM_AARCH64},
         "AArch64",
         true,
         false},
        {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2MSB, [17] = ET_DYN, [19] = EM_PPC64},
         "PowerPC64",
         true,
         false},
        {{0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, [16] = ET_DYN, [18] = 0x34, 0x12},
         "ELF machine 4660",
         true,
         false},
    };
    const struct elf_kind here = {.cell_class = ELFCLASS64, .byte_order = ELFDATA2LSB, .machine = EM_X86_64};
    const char *folder = unit_folder();

    for (size_t i = 0; i < N_OF(cases); i++) {
        char path[128], name[24];
        struct elf_kind k;

        write_head(path, folder, cases[i].head, sizeof cases[i].head);
        assert_ok(elf_read(&k, path, &e));
        assert_string_equal(elf_machine(name, &k), cases[i].name);
        assert_int_equal(k.is_shared, cases[i].is_shared);
        assert_int_equal(elf_fits(&k, &here), cases[i].fits);
    }
    unit_remove(folder);
}

TEST(a_file_that_is_not_elf_is_reported_as_such)
{
    static const uint8_t text[] = "#!/bin/sh\nexit 0\nexit 1\n";
    const char *folder = unit_folder();
    struct elf_kind k;
    char path[128];

    write_head(path, folder, text, sizeof text);
    assert_int_equal(elf_read(&k, path, &e), ERR_CODEC);
    assert_error_has("/object: not an ELF file");
    write_head(path, folder, (const uint8_t *)"\177ELF\2\1", 6);
    assert_int_equal(elf_read(&k, path, &e), ERR_CODEC);
    assert_int_equal(elf_read(&k, "/nowhere/codec.so", &e), ERR_NOT_FOUND);
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(elf_read(&k, path, &e), ERR_CODEC);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_program_matches_this_machine_and_names_it),
        cmocka_unit_test(an_object_is_identified_by_class_byte_order_and_machine),
        cmocka_unit_test(a_file_that_is_not_elf_is_reported_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
