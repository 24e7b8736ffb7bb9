/* continuation -- a text that a trained model of language goes on with: the second mode of the program
 * `predictor`, for job_submit generate. Its request is a JSON document, continuation.json:
 *
 *     "prompt": [84, 104]     tokens, at least one
 *     "tokens": 200           that are drawn at most
 *     "known": 256            tokens that may be drawn: 0 .. known - 1
 *     "end": 0                the token that ends the text and is no part of it; -1: none
 *     "temperature": 1, "top_k": 0, "top_p": 1, "seed": 1      nn/generator.h
 *
 * and its summary (shared/base/helper.h) has the "tokens" that were drawn, "ended", whether `end` was, and
 * the "seconds" that it took. */
#ifndef PSGD_CONTINUATION_H
#define PSGD_CONTINUATION_H

#include <jansson.h>

#include "nn/net.h"

enum { CONTINUATION_TOKENS_MAX = 1000000 };

/* `net` of the model `m`, with its weights. *summary belongs to the caller. ERR_CONFIG: no model of language,
 * a token beyond its vocabulary, or an invalid request. */
int continuation_run(json_t **summary, struct net *net, const struct model_spec *m, const char *folder,
                     struct err *e);

#endif
