#include "runner/mesh/tcp/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* GnuTLS reads each record in two calls and sends each one in its own. With buffers of this size in between,
 * system calls are as large as without TLS; the bytes stay in the cache while the next records are made. */
enum {
    RECORD = 16384,
    RECORD_OVERHEAD = 256,
    STAGE_IN = 4 * RECORD,
    STAGE_OUT = 4 * (RECORD + RECORD_OVERHEAD)
};

/* The only suite of GnuTLS 3.7 for external keys that is as fast as the data plane: its PSK binder is tied to
 * SHA-256, and by default it chooses ChaCha20, at a fifth of the speed. */
static const char priority[] = "NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+DHE-PSK:+GROUP-X25519:+SIGN-ALL";

struct tls {
    gnutls_session_t session;
    gnutls_psk_server_credentials_t server; /* exactly one of the two is set */
    gnutls_psk_client_credentials_t client;
    int fd;
    bool is_finished; /* the handshake, except for bytes still in `out` */
    int broken;       /* errno that ended the connection; 0: it is usable */
    char identity[TLS_IDENTITY_MAX];
    uint8_t key[TLS_KEY_BYTES];
    size_t taken; /* bytes of the caller in `out` that tls_send has not yet returned as sent */
    size_t out_first, out_end, in_first, in_end;
    size_t unfinished;     /* bytes that GnuTLS has read since the last complete record */
    uint8_t first[RECORD]; /* header and start of the payload, joined in one record */
    uint8_t in[STAGE_IN], out[STAGE_OUT];
};

static ssize_t hold_records(gnutls_transport_ptr_t p, const giovec_t *v, int n)
{
    struct tls *t = p;
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += v[i].iov_len;
    if (len > sizeof t->out - t->out_end) {
        gnutls_transport_set_errno(t->session, EAGAIN);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        memcpy(t->out + t->out_end, v[i].iov_base, v[i].iov_len);
        t->out_end += v[i].iov_len;
    }
    return (ssize_t)len;
}

static ssize_t pull(gnutls_transport_ptr_t p, void *out, size_t len)
{
    struct tls *t = p;
    ssize_t n = 0;

    if (t->in_first == t->in_end) {
        do
            n = recv(t->fd, t->in, sizeof t->in, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n <= 0) {
            /* After close_notify GnuTLS reads no more: an end of file here came without one. */
            if (n == 0 || errno != EAGAIN)
                t->broken = n == 0 ? ECONNRESET : errno;
            gnutls_transport_set_errno(t->session, errno);
            return n;
        }
        t->in_first = 0;
        t->in_end = (size_t)n;
    }
    if (len > t->in_end - t->in_first)
        len = t->in_end - t->in_first;
    memcpy(out, t->in + t->in_first, len);
    t->in_first += len;
    t->unfinished += len;
    return (ssize_t)len;
}

/* Sends all of `out`. Returns 0, or -1 with errno. */
static int send_records(struct tls *t)
{
    while (t->out_first < t->out_end) {
        ssize_t n = send(t->fd, t->out + t->out_first, t->out_end - t->out_first,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                t->broken = errno;
            return -1;
        }
        t->out_first += (size_t)n;
    }
    t->out_first = t->out_end = 0;
    return 0;
}

void tls_close(struct tls *t)
{
    if (!t)
        return;
    if (t->is_finished && !t->broken && send_records(t) == 0 && gnutls_bye(t->session, GNUTLS_SHUT_WR) == 0)
        send_records(t);
    if (t->session)
        gnutls_deinit(t->session);
    if (t->server)
        gnutls_psk_free_server_credentials(t->server);
    if (t->client)
        gnutls_psk_free_client_credentials(t->client);
    explicit_bzero(t, sizeof *t);
    free(t);
}

static int find_key(gnutls_session_t session, const gnutls_datum_t *identity, gnutls_datum_t *key)
{
    const struct tls *t = gnutls_session_get_ptr(session);

    if (identity->size != strlen(t->identity) || memcmp(identity->data, t->identity, identity->size) != 0)
        return -1;
    key->data = gnutls_malloc(TLS_KEY_BYTES);
    if (!key->data)
        return -1;
    memcpy(key->data, t->key, TLS_KEY_BYTES);
    key->size = TLS_KEY_BYTES;
    return 0;
}

static int set_credentials(struct tls *t, bool is_server)
{
    const gnutls_datum_t identity = {(unsigned char *)t->identity, (unsigned)strlen(t->identity)};
    const gnutls_datum_t key = {t->key, TLS_KEY_BYTES};
    int rc;

    if (is_server) {
        rc = gnutls_psk_allocate_server_credentials(&t->server);
        if (rc < 0)
            return rc;
        gnutls_psk_set_server_credentials_function2(t->server, find_key);
        return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->server);
    }
    rc = gnutls_psk_allocate_client_credentials(&t->client);
    if (rc == 0)
        rc = gnutls_psk_set_client_credentials2(t->client, &identity, &key, GNUTLS_PSK_KEY_RAW);
    return rc < 0 ? rc : gnutls_credentials_set(t->session, GNUTLS_CRD_PSK, t->client);
}

int tls_new(struct tls **out, int fd, bool is_server, const char *identity, const uint8_t key[TLS_KEY_BYTES],
            struct err *e)
{
    struct tls *t = calloc(1, sizeof *t);
    int rc = GNUTLS_E_MEMORY_ERROR;

    if (t && strlen(identity) < sizeof t->identity) {
        t->fd = fd;
        strcpy(t->identity, identity);
        memcpy(t->key, key, sizeof t->key);
        rc = gnutls_init(&t->session,
                         (is_server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK | GNUTLS_NO_TICKETS);
    }
    if (rc == 0)
        rc = gnutls_priority_set_direct(t->session, priority, NULL);
    if (rc == 0)
        rc = set_credentials(t, is_server);
    if (rc < 0) {
        tls_close(t);
        return err_set(e, ERR_NOMEM, "TLS: %s", gnutls_strerror(rc));
    }
    gnutls_session_set_ptr(t->session, t);
    gnutls_transport_set_ptr(t->session, t);
    gnutls_transport_set_vec_push_function(t->session, hold_records);
    gnutls_transport_set_pull_function(t->session, pull);
    *out = t;
    return 0;
}

/* Ends the connection with the socket's error, or EBADMSG if the socket has none. Returns -1 with errno. */
static int break_off(struct tls *t)
{
    if (!t->broken)
        t->broken = EBADMSG;
    errno = t->broken;
    return -1;
}

static int handshake_failed(struct tls *t, int rc, struct err *e)
{
    break_off(t);
    if (t->broken != EBADMSG)
        return err_set(
            e, ERR_LOST,
            "the connection ended in the TLS handshake: the key differs, or the process has ended");
    gnutls_alert_send_appropriate(t->session, rc);
    send_records(t);
    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED)
        return err_set(e, ERR_AUTH, "the other end refused the TLS handshake: %s",
                       gnutls_alert_get_name(gnutls_alert_get(t->session)));
    return err_set(e, ERR_AUTH, "the TLS handshake failed: %s", gnutls_strerror(rc));
}

int tls_handshake(struct tls *t, struct err *e)
{
    int rc = 0;

    while (!t->is_finished && (rc = gnutls_handshake(t->session)) < 0 && rc != GNUTLS_E_AGAIN)
        if (gnutls_error_is_fatal(rc))
            return handshake_failed(t, rc, e);
    if (rc == 0) {
        t->is_finished = true;
        explicit_bzero(t->key, sizeof t->key);
    }
    if (send_records(t) < 0)
        return t->broken ? err_set(e, ERR_LOST, "TLS handshake: %s", strerror(t->broken)) : TLS_WANTS_WRITE;
    return t->is_finished ? TLS_DONE : TLS_WANTS_READ;
}

const char *tls_cipher(const struct tls *t)
{
    return gnutls_cipher_get_name(gnutls_cipher_get(t->session));
}

/* Returns the bytes of the next record, from byte `at` of `v` on: of one part if it fills a record, else
 * gathered from several. */
static size_t next_record(struct tls *t, const void **bytes, const struct iovec *v, int n, size_t at)
{
    size_t len = 0;
    int i = 0;

    for (; i < n && at >= v[i].iov_len; i++)
        at -= v[i].iov_len;
    if (i < n && (v[i].iov_len - at >= RECORD || i == n - 1)) {
        *bytes = (const uint8_t *)v[i].iov_base + at;
        return v[i].iov_len - at < RECORD ? v[i].iov_len - at : RECORD;
    }
    for (; i < n && len < RECORD; i++, at = 0) {
        size_t part = v[i].iov_len - at < RECORD - len ? v[i].iov_len - at : RECORD - len;

        if (part > 0) /* the base of an empty part may be NULL */
            memcpy(t->first + len, (const uint8_t *)v[i].iov_base + at, part);
        len += part;
    }
    *bytes = t->first;
    return len;
}

/* Bytes in `out` when the socket buffer was full belong to the bytes that the caller passes again. */
ssize_t tls_send(struct tls *t, const struct iovec *v, int n)
{
    ssize_t taken, rc = 0;
    const void *bytes;
    size_t len;

    while (!t->broken && rc >= 0 && sizeof t->out - t->out_end >= RECORD + RECORD_OVERHEAD &&
           (len = next_record(t, &bytes, v, n, t->taken)) > 0) {
        rc = gnutls_record_send(t->session, bytes, len);
        t->taken += rc > 0 ? (size_t)rc : 0;
    }
    if (t->broken || rc < 0)
        return break_off(t);
    if (send_records(t) < 0)
        return -1;
    taken = (ssize_t)t->taken;
    t->taken = 0;
    return taken;
}

ssize_t tls_recv(struct tls *t, void *out, size_t len)
{
    ssize_t n;

    if (t->broken)
        return break_off(t);
    do
        n = gnutls_record_recv(t->session, out, len);
    while (n < 0 && n != GNUTLS_E_AGAIN && !gnutls_error_is_fatal((int)n));
    if (n >= 0) {
        t->unfinished = 0;
        return n;
    }
    if (n != GNUTLS_E_AGAIN || t->broken)
        return break_off(t);
    errno = EAGAIN;
    return -1;
}

bool tls_has_input(const struct tls *t)
{
    return t->in_first < t->in_end || gnutls_record_check_pending(t->session) > 0;
}

size_t tls_unfinished(const struct tls *t)
{
    return t->unfinished;
}
