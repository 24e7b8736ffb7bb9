#include "submit/prove.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json.h"
#include "shared/proof.h"
#include "submit/http.h"
#include "submit/reply.h"

enum { ANSWER_MAX = 4096 };

/* Proofs are waited for one after the other, so the more agents have not answered, the less the next one
 * gets: a list of silent ones takes some 8 s and a quarter of a second for each. */
static const double PROVE_S = 5, PROVE_LEAST_S = 0.25;

static double patience(int n_silent)
{
    return fmax(PROVE_S / ((1.0 + n_silent) * (1.0 + n_silent)), PROVE_LEAST_S);
}

static int refuse(struct err *e, const char *label, const char *sources)
{
    err_set(
        e, ERR_AUTH,
        "%s does not know this token: it may have been taken back, or this may be another user's program; "
        "nothing was sent to it",
        label);
    return err_hint(e, "The token came from %.300s.", sources);
}

static int take_answer(char pin[BASE64_TEXT], const struct http_request *r,
                       const uint8_t digest[SHA256_BYTES], const char *nonce, const char *sources,
                       struct err *e)
{
    char claimed[BASE64_TEXT], proof[BASE64_TEXT], expected[BASE64_TEXT];
    json_t *doc;
    int rc;

    if (r->status == 429 || r->status >= 500) {
        reply_problem(e, r->status, r->reply, r->reply_len);
        return err_at(e, "%s", r->peer);
    }
    if (r->status != 200 || json_parse(&doc, r->reply ? r->reply : "", r->reply_len, "answer", e) < 0)
        return refuse(e, r->peer, sources);
    rc = json_get_text(claimed, sizeof claimed, doc, "pin", "", e) < 0 ||
                 json_get_text(proof, sizeof proof, doc, "proof", "", e) < 0 || !is_base64url(claimed) ||
                 !is_base64url(proof)
             ? ERR_AUTH
             : 0;
    json_decref(doc);
    if (rc == 0)
        proof_make(expected, digest, nonce, claimed);
    if (rc < 0 || !equal_in_constant_time(expected, proof, sizeof proof))
        return refuse(e, r->peer, sources);
    memcpy(pin, claimed, BASE64_TEXT);
    return 0;
}

static int ask(struct http_request *r, struct err *e)
{
    struct http *h = http_new(e); /* of its own: its connection is never used for anything else */
    int rc;

    if (!h)
        return e->code;
    rc = http_start(h, r, e);
    while (rc == 0 && r->busy)
        http_poll(h, 1);
    http_free(h);
    if (rc == 0 && r->err.code)
        *e = r->err;
    return rc < 0 ? rc : r->err.code;
}

/* Why an agent cannot prove anything by this token. */
static int unprovable(struct err *e, const char *label, const char *token, const char *sources)
{
    if (!token[0]) {
        err_set(e, ERR_AUTH,
                "%s cannot prove who it is, and nothing is sent to it: there is no token that it could know",
                label);
        return err_hint(e, "Join it (`agent token invite` on its machine). Looked for a token: %.300s.",
                        sources);
    }
    err_set(
        e, ERR_AUTH,
        "%s: a token of less than %d characters could be guessed by the program that proves that it knows it",
        label, PROOF_TOKEN_MIN);
    return err_hint(e, "`agent token rotate` makes a longer one. The token came from %.300s.", sources);
}

int prove_agent(char pin[BASE64_TEXT], const char *label, const char *address, const char *token,
                const char *sources, struct err *e)
{
    static int n_silent; /* of this process's agents */
    uint8_t digest[SHA256_BYTES], raw[SHA256_BYTES];
    char nonce[BASE64_TEXT], key[PROOF_KEY];
    bool may_ask = strlen(token) >= PROOF_TOKEN_MIN;
    struct http_request r = {.method = "GET",
                             .peer = label,
                             .is_unproven = true,
                             .max_reply = ANSWER_MAX,
                             .timeout_s = patience(n_silent)};
    int rc;

    sha256(digest, token, strlen(token));
    proof_key(key, digest);
    random_bytes(raw, sizeof raw);
    base64url(nonce, raw);
    /* That no agent is there is said in any case. */
    if (may_ask)
        snprintf(r.url, sizeof r.url, "https://%s/v1/prove?nonce=%s&key=%s", address, nonce, key);
    else
        snprintf(r.url, sizeof r.url, "https://%s/healthz", address);
    rc = ask(&r, e);
    n_silent += rc < 0;
    if (rc == 0)
        rc = may_ask ? take_answer(pin, &r, digest, nonce, sources, e) : unprovable(e, label, token, sources);
    free(r.reply);
    return rc;
}
