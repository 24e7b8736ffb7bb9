/* answering -- which agents answer, asked without a token: GET /healthz over TLS, with whatever key. */
#ifndef PSGD_SUBMIT_ANSWERING_H
#define PSGD_SUBMIT_ANSWERING_H

#include "shared/base/err.h"
#include "shared/job/worker_list.h"

enum answer {
    ANSWERS,
    ANSWERS_NOT,
    ANSWERS_NEVER /* no program listens there: the connection was refused */
};

/* Asks n agents at once; returns within ANSWER_S. ERR_NOMEM, ERR_CANCELLED. */
int answering_ask(enum answer *out, const struct listed_agent *agents, size_t n, struct err *e);

#endif
