#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/address.h"
#include "tests/lib/own_root.h"

static struct sockaddr_storage address_of(const char *host)
{
    struct addresses a;

    assert_int_equal(address_find(&a, host, 7), 0);
    assert_int_equal(a.n, 1);
    return a.of[0].at;
}

TEST(numeric_addresses_are_found_written_and_compared)
{
    static const char *const hosts[] = {"127.0.0.1", "10.0.0.3", "::1", "fd00::5"};
    char text[ADDRESS_TEXT];

    for (size_t i = 0; i < N_OF(hosts); i++) {
        const struct sockaddr_storage a = address_of(hosts[i]);

        address_text(text, &a);
        assert_string_equal(text, hosts[i]);
        assert_int_equal(address_is_loopback((const struct sockaddr *)&a), i % 2 == 0);
        for (size_t k = 0; k < N_OF(hosts); k++) {
            const struct sockaddr_storage b = address_of(hosts[k]);

            assert_int_equal(address_is_same(&a, &b), i == k);
        }
    }
}

/* In a mount namespace with this /etc/hosts. */
static void look_up(const char *hosts)
{
    struct addresses a;
    char text[ADDRESS_TEXT];

    if (!own_root(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL) < 0)
        _exit(2);
    if (address_find(&a, "many.test", 7) != 0 || a.n != ADDRESSES_MAX)
        _exit(3);
    for (size_t i = 1; i < 4; i++) /* in turn, as long as there are both */
        if (a.of[i].at.ss_family == a.of[i - 1].at.ss_family)
            _exit(4);
    if (address_find(&a, "Twice.Test", 7) != 0 || a.n != 1)
        _exit(5);
    address_text(text, &a.of[0].at);
    _exit(strcmp(text, "127.0.0.9") == 0 ? 0 : 6);
}

TEST(a_name_has_up_to_eight_addresses_of_both_kinds_in_turn)
{
    const char *folder = unit_folder();
    char path[UNIT_FOLDER + 16];
    int status;
    pid_t child;
    FILE *f;

    snprintf(path, sizeof path, "%s/hosts", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 1; i <= 9; i++)
        fprintf(f, "fd00::%d many.test\n", i);
    fputs("127.0.0.5 many.test\n127.0.0.6 many.test\n127.0.0.9 twice.test\n127.0.0.9 twice.test\n", f);
    fclose(f);
    child = fork();
    assert_true(child >= 0);
    if (child == 0)
        look_up(path);
    assert_int_equal(waitpid(child, &status, 0), child);
    unit_remove(folder);
    if (WEXITSTATUS(status) == 2)
        skip(); /* a file of names of one's own is not to be had here */
    assert_int_equal(status, 0);
}

TEST(a_listener_gets_a_free_port_and_no_other_socket_the_same_one)
{
    struct addresses a;
    struct address second;
    int fd;

    assert_int_equal(address_find(&a, "127.0.0.1", 0), 0);
    fd = address_listen(&a.of[0]);
    assert_true(fd >= 0);
    assert_in_range(address_port(&a.of[0].at), 1, 65535);
    second = a.of[0];
    assert_int_equal(address_listen(&second), -1);
    assert_int_equal(errno, EADDRINUSE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numeric_addresses_are_found_written_and_compared),
        cmocka_unit_test(a_name_has_up_to_eight_addresses_of_both_kinds_in_turn),
        cmocka_unit_test(a_listener_gets_a_free_port_and_no_other_socket_the_same_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
