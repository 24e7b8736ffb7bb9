#include "runner/mesh/tcp/data_key.h"

#include <nettle/curve25519.h>
#include <stdio.h>
#include <string.h>

void data_key_make(struct data_key *k)
{
    random_bytes(k->secret, sizeof k->secret);
    curve25519_mul_g(k->published, k->secret);
}

bool node_comes_earlier(int a, int b)
{
    return (a >= 0) == (b >= 0) ? (a >= 0 ? a < b : a > b) : a >= 0;
}

int data_key_pair(uint8_t out[SHA256_BYTES], const struct data_key *mine, int me,
                  const uint8_t theirs[DATA_KEY_BYTES], int peer, const struct data_key_job *job,
                  struct err *e)
{
    static const uint8_t nothing[DATA_KEY_BYTES];
    bool is_first = node_comes_earlier(me, peer);
    uint8_t shared[DATA_KEY_BYTES], salt[SHA256_BYTES + 2 * DATA_KEY_BYTES];
    char info[160];
    int n = snprintf(info, sizeof info, "psgd data plane 2|%s|%d|%d|%d", job->job, job->attempt,
                     is_first ? me : peer, is_first ? peer : me);

    curve25519_mul(shared, mine->secret, theirs);
    if (equal_in_constant_time(shared, nothing, sizeof shared))
        return err_set(e, ERR_AUTH, "the key of node %d in the list of peers is not valid", peer);
    memcpy(salt, job->secret, SHA256_BYTES);
    memcpy(salt + SHA256_BYTES, is_first ? mine->published : theirs, DATA_KEY_BYTES);
    memcpy(salt + SHA256_BYTES + DATA_KEY_BYTES, is_first ? theirs : mine->published, DATA_KEY_BYTES);
    hkdf_sha256(out, SHA256_BYTES, shared, sizeof shared, salt, sizeof salt, info, (size_t)n);
    explicit_bzero(shared, sizeof shared);
    explicit_bzero(salt, sizeof salt);
    return 0;
}
