#include "submit/job/job_keys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/private.h"

/* Creates the file by link(), which fails if another process has created it meanwhile: its secret is then
 * used. */
static int make_secret(const char *path, const char *dir, struct err *e)
{
    char hex[SHA256_HEX], fresh[PATH_MAX];
    uint8_t raw[SHA256_BYTES];
    int rc;

    if (file_mkdirs(dir, 0700, e) < 0)
        return e->code;
    if (snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid()) >= (int)sizeof fresh)
        return err_set(e, ERR_CONFIG, "%s: path too long", path);
    random_bytes(raw, sizeof raw);
    hex_encode(hex, raw, sizeof raw);
    rc = file_write(fresh, hex, sizeof hex - 1, 0600, e);
    explicit_bzero(raw, sizeof raw);
    explicit_bzero(hex, sizeof hex);
    if (rc == 0 && link(fresh, path) < 0 && errno != EEXIST)
        rc = err_errno(e, ERR_IO, "%s", path);
    unlink(fresh);
    return rc;
}

int job_keys_secret(uint8_t out[SHA256_BYTES], struct err *e)
{
    char dir[PATH_MAX], path[PATH_MAX], *text;
    size_t len;
    int rc;

    if (file_state_dir(dir, sizeof dir, e) < 0 || file_join(path, sizeof path, dir, "job.secret", e) < 0 ||
        (access(path, F_OK) < 0 && make_secret(path, dir, e) < 0) ||
        private_read(&text, &len, path, SHA256_HEX, e) < 0)
        return e->code;
    rc = hex_decode(out, SHA256_BYTES, text) ? 0
                                             : err_set(e, ERR_CONFIG, "%s: not 64 hexadecimal digits", path);
    secret_free(text);
    return rc;
}

void job_keys_of_agent(char out[BASE64_TEXT], const uint8_t secret[SHA256_BYTES], const char *job, int node)
{
    uint8_t key[SHA256_BYTES];
    char info[160];
    int n = snprintf(info, sizeof info, "psgd job key 1|%s|%d", job, node);

    hkdf_sha256(key, sizeof key, secret, SHA256_BYTES, NULL, 0, info, (size_t)n);
    base64url(out, key);
    explicit_bzero(key, sizeof key);
}
