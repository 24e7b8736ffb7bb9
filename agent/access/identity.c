#include "agent/access/identity.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/private.h"

enum { PEM_MAX = 64 << 10, DAY_S = 86400 };

static int failed(struct err *e, const char *what, int rc)
{
    return err_set(e, ERR_INTERNAL, "%s: %s", what, gnutls_strerror(rc));
}

/* Signs the certificate with its own key. Clients that pin the key do not check its times. */
static int sign(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
    time_t now = time(NULL);
    uint8_t serial[8];
    int rc;

    random_bytes(serial, sizeof serial);
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, without leading zeros */
    if ((rc = gnutls_x509_crt_set_version(crt, 3)) < 0 ||
        (rc = gnutls_x509_crt_set_serial(crt, serial, sizeof serial)) < 0 ||
        (rc = gnutls_x509_crt_set_activation_time(crt, now - DAY_S)) < 0 ||
        (rc = gnutls_x509_crt_set_expiration_time(crt, GNUTLS_X509_NO_WELL_DEFINED_EXPIRATION)) < 0 ||
        (rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, "psgd agent", 10)) < 0 ||
        (rc = gnutls_x509_crt_set_key(crt, key)) < 0)
        return rc;
    return gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0);
}

static int write_pem(const char *path, gnutls_datum_t *pem, struct err *e)
{
    int rc = file_write(path, pem->data, pem->size, 0600, e);

    explicit_bzero(pem->data, pem->size);
    gnutls_free(pem->data);
    return rc;
}

/* Writes the certificate first: the next start would find a key without a certificate, and refuse it. */
static int make_identity(const char *key_path, const char *certificate_path, struct err *e)
{
    unsigned bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1);
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crt_t crt = NULL;
    gnutls_datum_t pem;
    int rc;

    if ((rc = gnutls_x509_privkey_init(&key)) < 0 || (rc = gnutls_x509_crt_init(&crt)) < 0 ||
        (rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, bits, 0)) < 0 || (rc = sign(crt, key)) < 0 ||
        (rc = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem)) < 0)
        rc = failed(e, "a key for TLS", rc);
    else if ((rc = write_pem(certificate_path, &pem, e)) == 0 &&
             (rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                                     &pem)) < 0)
        rc = failed(e, "a key for TLS", rc);
    else if (rc == 0)
        rc = write_pem(key_path, &pem, e);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    if (key)
        gnutls_x509_privkey_deinit(key);
    return rc;
}

/* Computes the pin of the certificate's key, which must be the public half of `key`. */
static int find_pin(char pin[BASE64_TEXT], const char *key_pem, const char *certificate_pem)
{
    const gnutls_datum_t key_text = {(unsigned char *)(uintptr_t)key_pem, (unsigned)strlen(key_pem)};
    const gnutls_datum_t crt_text = {(unsigned char *)(uintptr_t)certificate_pem,
                                     (unsigned)strlen(certificate_pem)};
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crt_t crt = NULL;
    gnutls_pubkey_t public = NULL;
    gnutls_datum_t der = {0};
    unsigned char of_key[64], of_certificate[64];
    size_t n_key = sizeof of_key, n_certificate = sizeof of_certificate;
    uint8_t digest[SHA256_BYTES];
    int rc;

    if ((rc = gnutls_x509_privkey_init(&key)) == 0 && (rc = gnutls_x509_crt_init(&crt)) == 0 &&
        (rc = gnutls_pubkey_init(&public)) == 0 &&
        (rc = gnutls_x509_privkey_import2(key, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0)) == 0 &&
        (rc = gnutls_x509_crt_import(crt, &crt_text, GNUTLS_X509_FMT_PEM)) == 0 &&
        (rc = gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, of_key, &n_key)) == 0 &&
        (rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, of_certificate, &n_certificate)) ==
            0 &&
        (rc = gnutls_pubkey_import_x509(public, crt, 0)) == 0 &&
        (rc = gnutls_pubkey_export2(public, GNUTLS_X509_FMT_DER, &der)) == 0) {
        sha256(digest, der.data, der.size);
        base64url(pin, digest);
        if (n_key != n_certificate || memcmp(of_key, of_certificate, n_key) != 0)
            rc = GNUTLS_E_CERTIFICATE_KEY_MISMATCH;
    }
    gnutls_free(der.data);
    if (public)
        gnutls_pubkey_deinit(public);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    if (key)
        gnutls_x509_privkey_deinit(key);
    return rc;
}

static int read_pair(struct identity *out, const char *certificate_path, const char *key_path, struct err *e)
{
    struct identity i = {0};
    size_t len;
    int rc;

    if (private_read(&i.key, &len, key_path, PEM_MAX, e) < 0 ||
        file_read(&i.certificate, &len, certificate_path, PEM_MAX, e) < 0) {
        identity_clear(&i);
        return e->code;
    }
    rc = find_pin(i.pin, i.key, i.certificate);
    if (rc < 0) {
        identity_clear(&i);
        return err_set(e, ERR_CONFIG, "%s and %s are not a key and its certificate: %s", key_path,
                       certificate_path, gnutls_strerror(rc));
    }
    *out = i;
    return 0;
}

int identity_load(struct identity *out, const char *dir, struct err *e)
{
    char key_path[PATH_MAX], certificate_path[PATH_MAX];
    int rc;

    if (file_join(key_path, sizeof key_path, dir, "tls.key", e) < 0 ||
        file_join(certificate_path, sizeof certificate_path, dir, "tls.crt", e) < 0 ||
        (access(key_path, F_OK) < 0 && make_identity(key_path, certificate_path, e) < 0))
        return e->code;
    rc = read_pair(out, certificate_path, key_path, e);
    if (rc == ERR_AUTH)
        err_hint(e, "Remove it, and tls.crt: other users may have the key. The agent then creates another, "
                    "and its users join again.");
    if (rc == ERR_CONFIG)
        err_hint(e, "Remove both; the agent then creates others, and its users join again.");
    return rc;
}

int identity_read(struct identity *out, const char *certificate_path, const char *key_path, struct err *e)
{
    return guarded_file(certificate_path, e) < 0 || guarded_file(key_path, e) < 0
               ? e->code
               : read_pair(out, certificate_path, key_path, e);
}

int identity_read_client_ca(struct identity *i, const char *path, struct err *e)
{
    size_t len;

    return guarded_file(path, e) < 0 ? e->code : file_read(&i->client_ca, &len, path, PEM_MAX, e);
}

void identity_clear(struct identity *i)
{
    secret_free(i->key);
    free(i->certificate);
    free(i->client_ca);
    *i = (struct identity){0};
}
