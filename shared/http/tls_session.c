#include "shared/http/tls_session.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/utf8.h"

struct tls_keys {
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priority;
    bool asks_clients; /* for a certificate */
};

struct tls_session {
    gnutls_session_t gnutls;
    bool asks_client;
    const char *refusal; /* of the client's certificate; NULL: accepted, or none */
    char client[TLS_CLIENT_MAX + 1];
};

/* Why a certificate is not accepted: the first that applies. */
static const struct {
    unsigned status;
    const char *why;
} refusals[] = {
    {GNUTLS_CERT_SIGNER_NOT_FOUND, "no CA of --client-ca has signed it"},
    {GNUTLS_CERT_EXPIRED, "it has expired"},
    {GNUTLS_CERT_NOT_ACTIVATED, "it is not valid yet"},
    {GNUTLS_CERT_PURPOSE_MISMATCH, "its purpose is not that of a TLS client"},
    {~0u, "it is not valid"},
};

static gnutls_datum_t text(const char *t)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)t, (unsigned)strlen(t)};
}

static int add_client_ca(struct tls_keys *k, const char *pem)
{
    gnutls_datum_t ca = text(pem);
    int n = gnutls_certificate_set_x509_trust_mem(k->credentials, &ca, GNUTLS_X509_FMT_PEM);

    k->asks_clients = true;
    return n == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : n;
}

int tls_keys_new(struct tls_keys **out, const char *key_pem, const char *certificate_pem,
                 const char *client_ca, struct err *e)
{
    gnutls_datum_t key = text(key_pem), certificate = text(certificate_pem);
    struct tls_keys *k = calloc(1, sizeof *k);
    int rc = k ? gnutls_certificate_allocate_credentials(&k->credentials) : GNUTLS_E_MEMORY_ERROR;

    if (rc == 0)
        rc = gnutls_certificate_set_x509_key_mem(k->credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (rc >= 0 && client_ca)
        rc = add_client_ca(k, client_ca);
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
    t->asks_client = k->asks_clients;
    gnutls_certificate_server_set_request(t->gnutls,
                                          k->asks_clients ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
    /* Clients of another CA would send no certificate if they read our CAs' names, and not learn why. */
    gnutls_certificate_send_x509_rdn_sequence(t->gnutls, 1);
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

static bool read_name(struct tls_session *t)
{
    unsigned n;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(t->gnutls, &n);
    char name[TLS_CLIENT_MAX + 1 - 3];
    size_t len = sizeof name;
    gnutls_x509_crt_t crt;
    bool is_read;

    if (!chain || gnutls_x509_crt_init(&crt) < 0)
        return false;
    is_read = gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) == 0 &&
              gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &len) == 0 &&
              len > 0 && strlen(name) == len && utf8_is_clean(name);
    if (is_read)
        snprintf(t->client, sizeof t->client, "CN=%s", name);
    gnutls_x509_crt_deinit(crt);
    return is_read;
}

static void look_at_client(struct tls_session *t)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0;
    int rc = gnutls_certificate_verify_peers(t->gnutls, &purpose, 1, &status);
    size_t i = 0;

    if (rc == GNUTLS_E_NO_CERTIFICATE_FOUND)
        return;
    if (rc == 0 && status == 0) {
        if (!read_name(t))
            t->refusal = "its common name is missing, longer than 61 bytes, or has control characters";
        return;
    }
    while (rc == 0 && !(refusals[i].status & status))
        i++;
    t->refusal = rc == 0 ? refusals[i].why : "it cannot be read";
}

const char *tls_session_client(const struct tls_session *t, const char **refusal)
{
    *refusal = t->refusal;
    return t->client[0] ? t->client : NULL;
}

int tls_session_handshake(struct tls_session *t)
{
    int rc;

    do
        rc = gnutls_handshake(t->gnutls);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc));
    if (rc < 0 && rc != GNUTLS_E_AGAIN)
        gnutls_alert_send_appropriate(t->gnutls, rc);
    if (rc == 0 && t->asks_client)
        look_at_client(t);
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
