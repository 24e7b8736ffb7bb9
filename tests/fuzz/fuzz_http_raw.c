/* Any bytes to a live agent, over a connection, with its token in place of each $. It must answer a request
 * as before after each of them, 2xx only where tests/lib/request_check.h allows it, 400 to what is no valid
 * head, nothing to half a head, and of 5xx only 503 and 507. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/fuzz/must.h"
#include "tests/lib/agent_fixture.h"
#include "tests/lib/request_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct fixture f;

static void close_fixture(void)
{
    fixture_close(&f);
}

static int status_of(const char *bytes, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    static struct client c;
    const char *answer;

    client_open(&c, &f);
    send(c.fd, bytes, len, MSG_NOSIGNAL);
    shutdown(c.fd, SHUT_WR);
    client_expect_close(&c, &f);
    client_close(&c);
    answer = strncmp(c.text, go_on, sizeof go_on - 1) == 0 ? c.text + sizeof go_on - 1 : c.text;
    return strlen(answer) > 12 ? atoi(answer + 9) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const char canary[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static struct checked_request rq;
    static char request[64 << 10];
    enum checked checked;
    size_t n;
    int status;

    if (!f.server) {
        fixture_open(&f);
        atexit(close_fixture);
    }
    n = request_fill(request, sizeof request, (const char *)bytes, len, f.token);
    checked = request_read(&rq, request, n);
    status = status_of(request, n);
    if (checked != CHECKED_OK)
        must(status == (checked == CHECKED_INVALID && !request_is_tls(request, n) ? 400 : 0));
    must(status < 200 || status >= 300 || request_may_succeed(&rq, f.agent.address, f.token));
    must(status < 500 || status == 503 || status == 507);
    must(status_of(canary, sizeof canary - 1) == 200);
    return 0;
}
