/* address -- finds and classifies IP addresses. */
#ifndef PSGD_ADDRESS_H
#define PSGD_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

enum {
    ADDRESSES_MAX = 8, /* of one name; the others are left out */
    ADDRESS_TEXT = 64  /* numeric, with the scope of a link-local one */
};

struct address {
    struct sockaddr_storage at;
    socklen_t len;
};

/* A name can have several addresses, of which some do not answer: /etc/hosts of Debian and Ubuntu has
 * 127.0.0.1 and ::1 for localhost. */
struct addresses {
    size_t n;
    struct address of[ADDRESSES_MAX]; /* in the order in which to try them; each once */
};

/* Resolves a name, to one address or more; waits for name servers. The order is getaddrinfo's (RFC 6724),
 * with IPv6 and IPv4 in turn, so that the second one is of the other kind (RFC 8305). Returns 0, or an error
 * for gai_strerror. */
int address_find(struct addresses *out, const char *host, int port);

/* Writes the address without its port. */
void address_text(char out[ADDRESS_TEXT], const struct sockaddr_storage *a);

/* The same without a scope; "" if it is neither IPv4 nor IPv6. */
void address_host(char *out, size_t size, const struct sockaddr *a);

/* Returns the port of an IPv4 or IPv6 address. */
int address_port(const struct sockaddr_storage *a);

/* Whether the two are one address; ports and scopes are not compared. */
bool address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Returns a TCP socket that listens at the address, non-blocking; port 0 becomes the port that the system has
 * chosen. -1: errno has the reason. */
int address_listen(struct address *a);

/* Whether this is a loopback address, which reaches only this machine. */
bool address_is_loopback(const struct sockaddr *a);

#endif
