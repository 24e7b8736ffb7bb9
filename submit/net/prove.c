#include "submit/net/prove.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/crypto.h"
#include "shared/base/json.h"
#include "submit/net/http_client.h"
#include "submit/net/reply.h"
#include "submit/terminal/interrupt.h"

enum { ANSWER_MAX = 4096 };

static const double PROVE_S = 5, PROVE_LEAST_S = 1;

/* The request to one address. */
struct question {
    struct http_request call;
    uint8_t digest[SHA256_BYTES]; /* of the token */
    char nonce[BASE64_TEXT];
};

static double wait_s(int n_in_vain)
{
    return fmax(PROVE_S / ((1.0 + n_in_vain) * (1.0 + n_in_vain)), PROVE_LEAST_S);
}

static bool is_provable(const struct claim *c)
{
    return strlen(c->token) >= PROOF_TOKEN_MIN;
}

static int refuse_server(struct err *e, const char *label, const char *sources)
{
    err_set(e, ERR_AUTH,
            "%s does not know this token: it may have been revoked, or this may be another user's program; "
            "nothing was sent to it",
            label);
    return err_hint(e, "The token came from %.300s.", sources);
}

static int take_answer(const struct claim *c, const struct question *q, struct err *e)
{
    const struct http_request *r = &q->call;
    char claimed[BASE64_TEXT], proof[BASE64_TEXT], expected[BASE64_TEXT];
    json_t *doc;
    int rc;

    if (r->status == 429 || r->status >= 500) {
        reply_problem(e, r->status, r->reply, r->reply_len);
        return err_at(e, "%s", r->peer);
    }
    if (r->status != 200 || json_parse(&doc, r->reply ? r->reply : "", r->reply_len, "answer", e) < 0)
        return refuse_server(e, r->peer, c->sources);
    rc = json_get_text(claimed, sizeof claimed, doc, "pin", "", e) < 0 ||
                 json_get_text(proof, sizeof proof, doc, "proof", "", e) < 0 || !is_base64url(claimed) ||
                 !is_base64url(proof)
             ? ERR_AUTH
             : 0;
    json_decref(doc);
    if (rc == 0)
        proof_make(expected, q->digest, q->nonce, claimed);
    if (rc < 0 || !equal_in_constant_time(expected, proof, sizeof proof))
        return refuse_server(e, r->peer, c->sources);
    memcpy(c->pin, claimed, BASE64_TEXT);
    return 0;
}

/* Sets the error of a claim whose token is missing or too short for a proof. */
static int unprovable(struct err *e, const struct claim *c)
{
    if (!c->token[0]) {
        err_set(e, ERR_AUTH,
                "%s cannot be authenticated, and nothing is sent to it: there is neither a pin nor a token "
                "for it",
                c->label);
        return err_hint(e, "Join it (`agent token invite` on its machine). Looked for a token: %.300s.",
                        c->sources);
    }
    err_set(e, ERR_AUTH,
            "%s: a token of less than %d characters is too short for a proof, from which it could be guessed",
            c->label, PROOF_TOKEN_MIN);
    return err_hint(e, "`agent token rotate` makes a longer one. The token came from %.300s.", c->sources);
}

static int begin_question(struct question *q, const struct claim *c, double timeout_s, struct http *h,
                          struct err *e)
{
    char key[PROOF_KEY];
    uint8_t raw[SHA256_BYTES];

    q->call = (struct http_request){.method = "GET",
                                    .peer = c->label,
                                    .is_unproven = true,
                                    .max_reply = ANSWER_MAX,
                                    .timeout_s = timeout_s};
    sha256(q->digest, c->token, strlen(c->token));
    proof_key(key, q->digest);
    random_bytes(raw, sizeof raw);
    base64url(q->nonce, raw);
    /* Without a provable token the request only finds out whether the agent answers. */
    if (is_provable(c))
        snprintf(q->call.url, sizeof q->call.url, "https://%s/v1/prove?nonce=%s&key=%s", c->address, q->nonce,
                 key);
    else
        snprintf(q->call.url, sizeof q->call.url, "https://%s/healthz", c->address);
    return http_start(h, &q->call, e);
}

static int poll_all(struct http *h, const struct question *all, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        while (all[i].call.busy) {
            http_poll(h, 1);
            if (interrupt_check(e) < 0)
                return e->code;
        }
    return 0;
}

static void check_answer(struct claim *c, const struct question *q)
{
    c->why = q->call.err;
    if (c->why.code == 0 && is_provable(c))
        take_answer(c, q, &c->why);
    else if (c->why.code == 0)
        unprovable(&c->why, c);
}

int prove_agents(struct claim *all, size_t n, struct err *e)
{
    static int n_in_vain; /* calls in which an agent did not answer */
    struct question *asked = calloc(n, sizeof *asked);
    struct http *h = http_new(e); /* separate, so that its connections are used for no other requests */
    bool is_in_vain = false;
    int rc = !h ? e->code : !asked ? err_set(e, ERR_NOMEM, "no memory for %zu agents", n) : 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = begin_question(&asked[i], &all[i], wait_s(n_in_vain), h, e);
    if (rc == 0)
        rc = poll_all(h, asked, n, e);
    for (size_t i = 0; i < n && rc == 0; i++) {
        check_answer(&all[i], &asked[i]);
        is_in_vain |= asked[i].call.err.code != 0;
    }
    n_in_vain += is_in_vain;
    for (size_t i = 0; i < n && asked; i++)
        if (h)
            http_clear(h, &asked[i].call);
    http_free(h);
    free(asked);
    return rc;
}
