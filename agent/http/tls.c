#include "agent/http/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

struct tls_keys {
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
};

struct tls_session {
    gnutls_session_t gnutls;
};

static gnutls_datum_t text(const char *t)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)t, (unsigned)strlen(t)};
}

int tls_keys_new(struct tls_keys **out, const struct identity *id, struct err *e)
{
    gnutls_datum_t key = text(id->key), certificate = text(id->certificate);
    struct tls_keys *k = calloc(1, sizeof *k);
    int rc = k ? gnutls_certificate_allocate_credentials(&k->credentials) : GNUTLS_E_MEMORY_ERROR;

    if (rc == 0)
        rc = gnutls_certificate_set_x509_key_mem(k->credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (rc >= 0)
        rc = gnutls_priority_init(&k->priority, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    if (rc < 0) {
        tls_keys_free(k);
        return err_set(e, ERR_CONFIG, "TLS: %s", gnutls_strerror(rc));
    }
    *out = k;
    return 0;
}

void tls_keys_free(struct tls_keys *k)
{
    if (!k)
        return;
    if (k->priority)
        gnutls_priority_deinit(k->priority);
    if (k->credentials)
        gnutls_certificate_free_credentials(k->credentials);
    free(k);
}

struct tls_session *tls_session_new(const struct tls_keys *k, int fd)
{
    struct tls_session *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    if (gnutls_init(&t->gnutls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        free(t);
        return NULL;
    }
    gnutls_priority_set(t->gnutls, k->priority);
    gnutls_credentials_set(t->gnutls, GNUTLS_CRD_CERTIFICATE, k->credentials);
    gnutls_certificate_server_set_request(t->gnutls, GNUTLS_CERT_IGNORE);
    gnutls_transport_set_int(t->gnutls, fd);
    return t;
}

void tls_session_free(struct tls_session *t)
{
    if (!t)
        return;
    gnutls_deinit(t->gnutls);
    free(t);
}

void tls_session_bye(struct tls_session *t)
{
    gnutls_bye(t->gnutls, GNUTLS_SHUT_WR);
}

int tls_session_handshake(struct tls_session *t)
{
    int rc;

    do
        rc = gnutls_handshake(t->gnutls);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc));
    if (rc < 0 && rc != GNUTLS_E_AGAIN)
        gnutls_alert_send_appropriate(t->gnutls, rc);
    return rc == 0 ? 1 : rc == GNUTLS_E_AGAIN ? 0 : -1;
}

/* The result of a GnuTLS call as that of a system call. */
static ssize_t as_call(ssize_t rc)
{
    if (rc >= 0)
        return rc;
    errno = rc == GNUTLS_E_AGAIN ? EAGAIN : EPIPE;
    return -1;
}

ssize_t tls_session_recv(struct tls_session *t, void *out, size_t len)
{
    ssize_t rc;

    do
        rc = gnutls_record_recv(t->gnutls, out, len);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal((int)rc));
    return as_call(rc);
}

ssize_t tls_session_send(struct tls_session *t, const void *bytes, size_t len)
{
    ssize_t rc;

    do
        rc = gnutls_record_send(t->gnutls, bytes, len);
    while (rc == GNUTLS_E_INTERRUPTED);
    return as_call(rc);
}
