/* raw_heads -- heads of requests as bytes, and what every HTTP server of psgd answers to them: the agent, and
 * the page of `job_submit browse`. Both serve "/". */
#ifndef PSGD_TEST_RAW_HEADS_H
#define PSGD_TEST_RAW_HEADS_H

#include <stddef.h>

struct raw {
    const char *bytes; /* with $ for the server's token or cookie (request_fill) */
    size_t len;
    int status; /* 0: closed without an answer */
};
#define RAW(status, text)                                                                                    \
    {                                                                                                        \
        text, sizeof(text) - 1, status                                                                       \
    }

#define HOST   "Host: localhost\r\n"
#define COOKIE "Cookie: $\r\n"
#define END    "\r\n"

static const struct raw raw_heads[] = {
    RAW(200, "GET / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(200, "GET / HTTP/1.0\r\n" HOST COOKIE END),
    RAW(200, "HEAD / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 0\r\n" END),
    RAW(200, "GET / HTTP/1.1\r\nhost:localhost\r\nCOOKIE:\t $ \t\r\n" END),
    RAW(200,
        "GET / HTTP/1.1\r\n" HOST COOKIE "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n" END),
    /* incomplete */
    RAW(0, ""),
    RAW(0, "G"),
    RAW(0, "GET / HTTP/1.1"),
    RAW(0, "GET / HTTP/1.1\r"),
    RAW(0, "GET / HTTP/1.1\r\n" HOST COOKIE),
    RAW(0, "GET / HTTP/1.1\r\n" HOST COOKIE "\r"),
    RAW(0, "GET  HTTP/1.1\r\n" HOST COOKIE),
    /* line ends */
    RAW(400, "GET / HTTP/1.1\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.1\r\nHost: localhost\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "\n"),
    RAW(400, "GET / HTTP/1.1\rHost: localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost: localhost\r" END),
    RAW(400, "GET / HTTP/1.1\r\nHost: local\rhost\r\n" END),
    RAW(400, "\r\nGET / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "\nGET / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, " GET / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.1\r\n\r\r\n\n"),
    /* header lines */
    RAW(400, "GET / HTTP/1.1\r\nHost : localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost\t: localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n Host: localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost:\r\n localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost:\r\n\tlocalhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X: a\r\n b\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE ": a\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X Y: a\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X(Y): a\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X\200: a\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost: local\0host\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHo\0st: localhost\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\nHost: localhost\0\r\n" END),
    RAW(400, "GET /\0 HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.1\0\r\n" HOST COOKIE END),
    RAW(400, "\0GET / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X: \033[2J\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X: \177\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "X: \001\r\n" END),
    /* the request line */
    RAW(400, "get / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "Get / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET /\r\n" END),
    RAW(400, "GET / \r\n" END),
    RAW(400, "GET / HTTP/0.9\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.2\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/2.0\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/11\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.10\r\n" HOST COOKIE END),
    RAW(400, "GET / http/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET / HTTP/1.1 \r\n" HOST COOKIE END),
    RAW(400, "GET  / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET /  HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET\t/ HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET / z HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET http://localhost/ HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET //[ HTTP/1.1\r\n" HOST COOKIE "\r"
             "x"),
    RAW(400, "OPTIONS * HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "CONNECT localhost:80 HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET healthz HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "GET /h\303\244 HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\n" HOST COOKIE END),
    RAW(400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    RAW(0, "\026\003\001\002\000\001\000\001\374\003\003"),
    RAW(400, "PSGD\004\000\001\000"),
    /* lengths */
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 0\r\nContent-Length: 0\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 5\r\nContent-Length: 6\r\n" END "hello"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 5, 5\r\n" END "hello"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: +5\r\n" END "hello"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: -1\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 0x5\r\n" END "hello"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 5 5\r\n" END "hello"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length:\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 1000000000000000000\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 18446744073709551616\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Transfer-Encoding: chunked\r\n" END "0\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Transfer-Encoding: identity\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "transfer-encoding:\tchunked\r\nContent-Length: 5\r\n" END
             "0\r\n\r\n"),
    RAW(400, "GET / HTTP/1.1\r\n" END),
    RAW(400, "GET / HTTP/1.0\r\n" END),
    RAW(400, "GET / HTTP/1.1\r\n" HOST COOKIE "Host: localhost\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\nHost:\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\nHost: evil.example\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\nHost: localhost@evil.example\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\nHost: localhost, localhost\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\nHost: localhost:\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\n" HOST COOKIE "Origin: http://evil.example\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\n" HOST COOKIE "Origin: null\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\n" HOST COOKIE "Sec-Fetch-Site: cross-site\r\n" END),
    RAW(403, "GET / HTTP/1.1\r\n" HOST COOKIE "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: none\r\n" END),
    RAW(413, "GET / HTTP/1.1\r\n" HOST COOKIE "Content-Length: 5\r\n" END "hello"),
};

/* Makes a valid head of `len` bytes, its last header as long as need be. `token`: as $. */
size_t raw_head_of_length(char *out, size_t len, const char *token);
/* Makes a valid head with so many headers. */
size_t raw_head_of_headers(char *out, size_t size, int n, const char *token);

#endif
