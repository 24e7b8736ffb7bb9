/* Any text as worker.json. An accepted one has normalized addresses, each once, and nodes numbered without
 * gaps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/worker_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check(const struct worker_list *w)
{
    if (w->n_workers == 0)
        abort();
    for (size_t i = 0; i < w->n_workers + w->n_servers; i++) {
        const struct listed_agent *n = &w->nodes[i];
        char host[sizeof n->host];
        struct err e;
        int port;

        if (n->node != (i < w->n_workers ? (int)i : -2 - (int)(i - w->n_workers)))
            abort();
        if (address_parse(host, sizeof host, &port, n->address, &e) < 0 || strcmp(host, n->host) != 0 ||
            port != n->port)
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(w->nodes[k].address, n->address) == 0)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct worker_list w;
    struct err e;
    json_t *doc;

    if (json_parse(&doc, (const char *)bytes, len, "input", &e) < 0)
        return 0;
    if (worker_list_parse(&w, doc, "input", &e) == 0) {
        check(&w);
        worker_list_clear(&w);
    }
    json_decref(doc);
    return 0;
}
