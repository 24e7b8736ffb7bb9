#include "runner/mesh/tcp/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/rng.h"
#include "tests/unit/unit.h"

enum { SERVER, CLIENT, ENDS };

static const uint8_t right_key[TLS_KEY_BYTES] = {1, 2, 3};
static const uint8_t other_key[TLS_KEY_BYTES] = {1, 2, 4};
static const char right_name[] = "j-abcdef|1|0|1";

/* Two ends, and the test as the wire between them: bytes that one end sends are at wire[end] until they
 * are passed on. */
struct pair {
    struct tls *tls[ENDS];
    int fd[ENDS];   /* TLS's */
    int wire[ENDS]; /* the other ends of these sockets; -1: directly connected */
    struct err e[ENDS];
    int progress[ENDS]; /* of the handshake, or the error */
};

static void pair_tls(struct pair *p, const char *client_name, const uint8_t *client_key)
{
    struct err e = {0};

    assert_ok(tls_new(&p->tls[SERVER], p->fd[SERVER], true, right_name, right_key, &e));
    assert_ok(tls_new(&p->tls[CLIENT], p->fd[CLIENT], false, client_name, client_key, &e));
    p->progress[SERVER] = p->progress[CLIENT] = TLS_WANTS_READ;
}

static void pair_open(struct pair *p)
{
    *p = (struct pair){.wire = {-1, -1}};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->fd), 0);
    pair_tls(p, right_name, right_key);
}

static void pair_open_wired(struct pair *p)
{
    *p = (struct pair){0};
    for (int i = 0; i < ENDS; i++) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        p->fd[i] = fds[0];
        p->wire[i] = fds[1];
    }
    pair_tls(p, right_name, right_key);
}

static void pair_open_tcp(struct pair *p)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *p = (struct pair){.wire = {-1, -1}};
    assert_int_equal(bind(listening, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&a, &len), 0);
    p->fd[CLIENT] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p->fd[CLIENT], (struct sockaddr *)&a, sizeof a), 0);
    p->fd[SERVER] = accept(listening, NULL, NULL);
    assert_true(p->fd[SERVER] >= 0);
    close(listening);
    pair_tls(p, right_name, right_key);
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < ENDS; i++) {
        tls_close(p->tls[i]);
        close(p->fd[i]);
        if (p->wire[i] >= 0)
            close(p->wire[i]);
    }
}

/* Passes on at most `max` bytes sent by `from`; in byte `flip` of them one bit is changed. */
static size_t pass(struct pair *p, int from, size_t max, size_t flip, int bit)
{
    uint8_t bytes[65536];
    ssize_t n = read(p->wire[from], bytes, max < sizeof bytes ? max : sizeof bytes);

    if (n <= 0)
        return 0;
    if (flip < (size_t)n)
        bytes[flip] ^= (uint8_t)(1 << bit);
    /* An end that has closed receives nothing more. */
    if (write(p->wire[!from], bytes, (size_t)n) != n)
        return 0;
    return (size_t)n;
}

static void advance(struct pair *p, int end)
{
    if (p->progress[end] > TLS_DONE)
        p->progress[end] = tls_handshake(p->tls[end], &p->e[end]);
}

static void handshake(struct pair *p)
{
    for (int turn = 0; turn < 100; turn++)
        for (int i = 0; i < ENDS; i++) {
            advance(p, i);
            if (p->wire[i] >= 0)
                pass(p, i, SIZE_MAX, SIZE_MAX, 0);
        }
}

static void assert_shaken(const struct pair *p)
{
    for (int i = 0; i < ENDS; i++)
        if (p->progress[i] != TLS_DONE)
            fail_msg("%s: %d, %s", i == SERVER ? "server" : "client", p->progress[i], p->e[i].text);
}

static ssize_t send_bytes(struct tls *t, const void *bytes, size_t len)
{
    struct iovec v = {(void *)(uintptr_t)bytes, len};

    return tls_send(t, &v, 1);
}

TEST(two_ends_with_the_same_key_communicate)
{
    struct pair p;
    char text[16] = "";

    pair_open(&p);
    handshake(&p);
    assert_shaken(&p);
    assert_string_equal(tls_cipher(p.tls[SERVER]), "AES-128-GCM");
    for (int i = 0; i < ENDS; i++) {
        assert_int_equal(tls_recv(p.tls[!i], text, sizeof text), -1);
        assert_int_equal(errno, EAGAIN);
        assert_int_equal(send_bytes(p.tls[i], "hello", 5), 5);
        assert_int_equal(tls_recv(p.tls[!i], text, 2), 2);
        assert_true(tls_has_input(p.tls[!i])); /* though poll() would wait forever */
        assert_int_equal(tls_recv(p.tls[!i], text + 2, sizeof text - 2), 3);
        assert_false(tls_has_input(p.tls[!i]));
        assert_string_equal(text, "hello");
    }
    pair_close(&p);
}

TEST(a_buffer_may_be_empty)
{
    struct iovec v[3] = {{NULL, 0}, {(char[]){'h', 'e'}, 2}, {NULL, 0}};
    struct pair p;
    char text[4] = "";

    pair_open(&p);
    handshake(&p);
    assert_shaken(&p);
    assert_int_equal(tls_send(p.tls[CLIENT], v, 3), 2);
    assert_int_equal(tls_recv(p.tls[SERVER], text, sizeof text), 2);
    assert_string_equal(text, "he");
    assert_int_equal(tls_send(p.tls[CLIENT], v, 1), 0);
    pair_close(&p);
}

TEST(plaintext_never_appears_on_the_wire)
{
    struct pair p;
    uint8_t zeros[1000] = {0}, wire[2000];
    ssize_t n;
    int n_zero = 0;

    pair_open_wired(&p);
    handshake(&p);
    assert_shaken(&p);
    assert_int_equal(send_bytes(p.tls[CLIENT], zeros, sizeof zeros), sizeof zeros);
    n = read(p.wire[CLIENT], wire, sizeof wire);
    assert_true(n > (ssize_t)sizeof zeros);
    for (ssize_t i = 0; i < n; i++)
        n_zero += wire[i] == 0;
    assert_true(n_zero < 50);
    pair_close(&p);
}

/* The bytes at offset `at` of a stream. */
static void fill(uint8_t *out, size_t len, size_t at)
{
    for (size_t i = 0; i < len; i++, at++)
        out[i] = (uint8_t)(at * 2654435761u >> 13);
}

/* Sends and receives `total` bytes each way in chunks of odd sizes, as a mesh does: a header and a
 * payload. */
static void both_ways(struct pair *p, size_t total)
{
    enum { CHUNK = 300000 };
    static uint8_t out[CHUNK], in[CHUNK], expected[CHUNK];
    size_t sent[ENDS] = {0}, got[ENDS] = {0}, chunk[ENDS] = {1, 1};
    struct rng rng;

    rng_init(&rng, 7, 0, 0);
    while (got[0] < total || got[1] < total)
        for (int i = 0; i < ENDS; i++) {
            size_t len = chunk[i] < total - sent[i] ? chunk[i] : total - sent[i];
            size_t header = len < 64 ? len : 64;
            struct iovec v[2];
            ssize_t n;

            fill(out, len, sent[i]);
            v[0] = (struct iovec){out, header};
            v[1] = (struct iovec){out + header, len - header};
            /* Sends until the kernel accepts no more; after EAGAIN the same bytes must be passed again. */
            n = len > 0 ? tls_send(p->tls[i], v, 2) : 0;
            if (n < 0) {
                assert_int_equal(errno, EAGAIN);
            } else {
                sent[i] += (size_t)n;
                chunk[i] = rng_below(&rng, CHUNK) + 1;
            }
            n = tls_recv(p->tls[!i], in, rng_below(&rng, CHUNK) + 1);
            if (n < 0) {
                assert_int_equal(errno, EAGAIN);
                continue;
            }
            fill(expected, (size_t)n, got[i]);
            assert_memory_equal(in, expected, (size_t)n);
            got[i] += (size_t)n;
        }
}

TEST(megabytes_arrive_unchanged_despite_partial_writes)
{
    struct pair p;

    pair_open(&p);
    handshake(&p);
    assert_shaken(&p);
    both_ways(&p, 20 << 20);
    pair_close(&p);
    pair_open_tcp(&p);
    handshake(&p);
    assert_shaken(&p);
    both_ways(&p, 20 << 20);
    pair_close(&p);
}

TEST(bytes_may_arrive_in_any_chunks)
{
    uint8_t text[100], in[100];

    fill(text, sizeof text, 0);
    for (size_t chunk = 1; chunk < 8; chunk++) {
        struct pair p;
        size_t got = 0;

        pair_open_wired(&p);
        for (int i = 0; i < 10000 && (p.progress[SERVER] > 0 || p.progress[CLIENT] > 0); i++)
            for (int end = 0; end < ENDS; end++) {
                advance(&p, end);
                pass(&p, end, chunk, SIZE_MAX, 0);
            }
        assert_shaken(&p);
        assert_int_equal(send_bytes(p.tls[CLIENT], text, sizeof text), sizeof text);
        while (pass(&p, CLIENT, chunk, SIZE_MAX, 0) > 0) {
            ssize_t n = tls_recv(p.tls[SERVER], in + got, sizeof in - got);

            assert_true(n > 0 || errno == EAGAIN);
            got += n > 0 ? (size_t)n : 0;
        }
        assert_int_equal(got, sizeof text);
        assert_memory_equal(in, text, sizeof text);
        pair_close(&p);
    }
}

static void assert_refused(const char *client_name, const uint8_t *client_key)
{
    struct pair p = {.wire = {-1, -1}};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p.fd), 0);
    pair_tls(&p, client_name, client_key);
    handshake(&p);
    assert_int_equal(p.progress[SERVER], ERR_AUTH);
    assert_int_equal(p.progress[CLIENT], ERR_AUTH);
    assert_non_null(strstr(p.e[CLIENT].text, "refused the TLS handshake"));
    pair_close(&p);
}

TEST(another_key_or_identity_is_refused_and_both_ends_report_it)
{
    assert_refused(right_name, other_key);
    assert_refused("j-abcdef|1|0|2", right_key);
    assert_refused("j-abcdef|1|0|", right_key);
    assert_refused("j-abcdef|1|0|11", right_key);
    assert_refused("x", right_key);
}

/* A client with the key that offers a weaker or slower suite is not psgd. */
TEST(other_cipher_suites_are_refused)
{
    static const struct {
        const char *offers;
        bool is_taken;
    } cases[] = {
        {"NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+DHE-PSK:+GROUP-X25519:+SIGN-ALL", true},
        {"NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+PSK:+GROUP-X25519:+SIGN-ALL", false}, /* no forward secrecy */
        {"NONE:+VERS-TLS1.3:+CHACHA20-POLY1305:+AEAD:+DHE-PSK:+GROUP-X25519:+SIGN-ALL", false},
        {"NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+DHE-PSK:+GROUP-SECP256R1:+SIGN-ALL", false},
        {"NONE:+VERS-TLS1.2:+AES-128-GCM:+AEAD:+COMP-NULL:+ECDHE-PSK:+DHE-PSK:+PSK:+GROUP-ALL:+SIGN-ALL",
         false},
    };
    const gnutls_datum_t key = {(unsigned char *)(uintptr_t)right_key, TLS_KEY_BYTES};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct pair p;
        gnutls_session_t client;
        gnutls_psk_client_credentials_t psk;
        int rc = GNUTLS_E_AGAIN;

        pair_open(&p);
        assert_int_equal(gnutls_init(&client, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
        assert_int_equal(gnutls_priority_set_direct(client, cases[i].offers, NULL), 0);
        assert_int_equal(gnutls_psk_allocate_client_credentials(&psk), 0);
        assert_int_equal(gnutls_psk_set_client_credentials(psk, right_name, &key, GNUTLS_PSK_KEY_RAW), 0);
        assert_int_equal(gnutls_credentials_set(client, GNUTLS_CRD_PSK, psk), 0);
        assert_int_equal(fcntl(p.fd[CLIENT], F_SETFL, O_NONBLOCK), 0);
        gnutls_transport_set_int(client, p.fd[CLIENT]);
        for (int turn = 0; turn < 20 && rc != 0; turn++) {
            rc = gnutls_handshake(client);
            advance(&p, SERVER);
        }
        assert_int_equal(rc == 0, cases[i].is_taken);
        assert_int_equal(p.progress[SERVER], cases[i].is_taken ? (int)TLS_DONE : (int)ERR_AUTH);
        gnutls_deinit(client);
        gnutls_psk_free_client_credentials(psk);
        pair_close(&p);
    }
}

TEST(bytes_that_are_not_tls_are_refused)
{
    for (int end = 0; end < ENDS; end++) {
        struct pair p;

        pair_open_wired(&p);
        assert_int_equal(write(p.wire[end], "PSGD\1\0\1\0 and more of a frame", 28), 28);
        advance(&p, end);
        assert_int_equal(p.progress[end], ERR_AUTH);
        pair_close(&p);
    }
}

TEST(a_peer_that_disconnects_in_the_handshake_is_lost)
{
    for (int end = 0; end < ENDS; end++) {
        struct pair p;

        pair_open_wired(&p);
        advance(&p, end);
        shutdown(p.wire[end], SHUT_WR);
        advance(&p, end);
        assert_int_equal(p.progress[end], ERR_LOST);
        pair_close(&p);
    }
}

TEST(only_a_close_notify_is_a_regular_end)
{
    uint8_t in[2000], text[1000] = {1};

    for (size_t cut = 0;; cut += 7) {
        struct pair p;
        size_t wire, got = 0;
        ssize_t n;

        pair_open_wired(&p);
        handshake(&p);
        assert_shaken(&p);
        assert_int_equal(send_bytes(p.tls[CLIENT], text, sizeof text), sizeof text);
        tls_close(p.tls[CLIENT]); /* sends close_notify */
        p.tls[CLIENT] = NULL;
        wire = pass(&p, CLIENT, cut, SIZE_MAX, 0);
        shutdown(p.wire[SERVER], SHUT_WR);
        while ((n = tls_recv(p.tls[SERVER], in, sizeof in)) > 0)
            got += (size_t)n;
        if (wire < cut) { /* nothing was truncated */
            assert_int_equal(n, 0);
            assert_int_equal(got, sizeof text);
            pair_close(&p);
            break;
        }
        assert_int_equal(n, -1);
        assert_int_equal(errno, ECONNRESET);
        assert_int_equal(tls_recv(p.tls[SERVER], in, sizeof in), -1); /* and stays so */
        assert_int_equal(errno, ECONNRESET);
        pair_close(&p);
    }
}

/* Type and version in cleartext before each record are constants (RFC 8446, 5.2), which GnuTLS does not
 * always check: a change there has no effect. */
TEST(every_flipped_bit_of_a_record_is_detected)
{
    enum { RECORD = 5 + 20 + 1 + 16 };
    uint8_t in[100], text[20] = "gradients";

    for (size_t bit = 0; bit < 8 * 2 * RECORD; bit++) {
        size_t at = bit / 8, n_right = 0;
        bool is_constant = at % RECORD < 3;
        struct pair p;
        ssize_t n;

        pair_open_wired(&p);
        handshake(&p);
        assert_shaken(&p);
        for (int i = 0; i < 2; i++)
            assert_int_equal(send_bytes(p.tls[CLIENT], text, sizeof text), sizeof text);
        assert_int_equal(pass(&p, CLIENT, SIZE_MAX, at, (int)(bit % 8)), 2 * RECORD);
        shutdown(p.wire[SERVER], SHUT_WR); /* with a changed length it would wait for more */
        for (; (n = tls_recv(p.tls[SERVER], in, sizeof in)) > 0; n_right++) {
            assert_int_equal(n, sizeof text);
            assert_memory_equal(in, text, sizeof text);
        }
        assert_true(n < 0 && (errno == EBADMSG || errno == ECONNRESET));
        assert_true(n_right == at / RECORD || (is_constant && n_right == 2));
        pair_close(&p);
    }
}

/* Some bytes of a handshake have no meaning, for example the version of its records (RFC 8446, 5.1): a
 * change there has no effect. */
TEST(a_flipped_bit_of_a_handshake_ends_it_or_has_no_effect)
{
    for (int from = 0; from < ENDS; from++) {
        size_t refused = 0, length;

        for (size_t at = 0;; at++) {
            uint8_t in[10] = {0};
            struct pair p;

            length = 0;
            pair_open_wired(&p);
            for (int turn = 0; turn < 6; turn++)
                for (int i = 0; i < ENDS; i++) {
                    advance(&p, i);
                    if (i == from)
                        length += pass(&p, i, SIZE_MAX, at - length, (int)(at % 8));
                    else
                        pass(&p, i, SIZE_MAX, SIZE_MAX, 0);
                }
            if (p.progress[SERVER] == TLS_DONE && p.progress[CLIENT] == TLS_DONE) {
                assert_int_equal(send_bytes(p.tls[from], "word", 4), 4);
                pass(&p, from, SIZE_MAX, SIZE_MAX, 0);
                assert_int_equal(tls_recv(p.tls[!from], in, sizeof in), 4);
                assert_memory_equal(in, "word", 4);
            } else {
                assert_true(p.progress[!from] != TLS_DONE);
                refused++;
            }
            pair_close(&p);
            if (at >= length)
                break;
        }
        assert_true(length > 100 && refused > length / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ends_with_the_same_key_communicate),
        cmocka_unit_test(a_buffer_may_be_empty),
        cmocka_unit_test(plaintext_never_appears_on_the_wire),
        cmocka_unit_test(megabytes_arrive_unchanged_despite_partial_writes),
        cmocka_unit_test(bytes_may_arrive_in_any_chunks),
        cmocka_unit_test(another_key_or_identity_is_refused_and_both_ends_report_it),
        cmocka_unit_test(other_cipher_suites_are_refused),
        cmocka_unit_test(bytes_that_are_not_tls_are_refused),
        cmocka_unit_test(a_peer_that_disconnects_in_the_handshake_is_lost),
        cmocka_unit_test(only_a_close_notify_is_a_regular_end),
        cmocka_unit_test(every_flipped_bit_of_a_record_is_detected),
        cmocka_unit_test(a_flipped_bit_of_a_handshake_ends_it_or_has_no_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
