/* agent_fixture -- a whole agent with its HTTP server inside the test's own process, on a free loopback
 * port, with tests/lib/fake_runner.sh as runner. It runs only inside fixture_turn and its callers. */
#ifndef PSGD_TEST_AGENT_FIXTURE_H
#define PSGD_TEST_AGENT_FIXTURE_H

#include "agent/agent_open.h"
#include "agent/http/api_server.h"

struct fixture {
    struct agent agent;
    struct api_server *server;
    struct agent_options opt;
    char folder[64], token[64];
    struct sockaddr_storage at; /* of the server */
    socklen_t at_len;
};

/* opt.queue and so on may be set before; {0} has the defaults. Fails the test on any error. */
void fixture_open(struct fixture *f);
/* Ends the agent as SIGKILL does: without notifying any client. Its folder and its runners stay. */
void fixture_crash(struct fixture *f);
/* Opens it again on the same folder. */
void fixture_reopen(struct fixture *f);
void fixture_close(struct fixture *f); /* kills the runners and removes the folder */

void fixture_turn(struct fixture *f);

/* One TCP connection. */
struct client {
    int fd;
    size_t n;
    char text[1 << 19]; /* bytes received so far, zero-terminated */
    bool is_closed;
};

void client_open(struct client *c, struct fixture *f);
void client_close(struct client *c);
void client_send(struct client *c, const char *bytes, size_t len);
void client_get(struct client *c, struct fixture *f, const char *path, const char *more_headers);
/* Turns until `expected` arrived; fails the test after a minute. */
void client_expect(struct client *c, struct fixture *f, const char *expected);
void client_expect_close(struct client *c, struct fixture *f);
bool client_receives_nothing(struct client *c); /* nothing has arrived so far */

/* One request and its answer on a connection of its own, with the token. */
struct reply {
    int status;
    char text[1 << 19]; /* head and body */
    const char *body;
};
int ask(struct fixture *f, struct reply *r, const char *method, const char *path, const char *body);
int ask_bytes(struct fixture *f, struct reply *r, const char *method, const char *path, const char *headers,
              const void *body, size_t len);

/* Whether the answer's JSON has this text or number at key. */
bool reply_has(const struct reply *r, const char *key, const char *value);

/* Writes its digest to `hex`. */
void blob_send(char hex[SHA256_HEX], struct fixture *f, const void *bytes, size_t len);

/* The beginning of a shared object for this machine: the part that an agent inspects. */
enum { OBJECT_BYTES = 64 };
void object_begin(uint8_t out[OBJECT_BYTES]);

/* The steps of a job with one worker, whose runner behaves as named. */
int job_reserve(struct fixture *f, struct reply *r, const char *id, bool no_queue);
void job_send_packages(struct fixture *f, const char *id, const char *behave);
/* Its packages: settings named after the behavior, of four steps, and a model of two parameters. */
enum { FAKE_SETTINGS_MAX = 256 };
int fake_settings(char out[FAKE_SETTINGS_MAX], const char *behave);
extern const char fake_model[];
int job_send_start(struct fixture *f, struct reply *r, const char *id);
void job_until(struct fixture *f, const char *id, const char *state); /* fails the test after a minute */
void job_run(struct fixture *f, const char *id, const char *behave);  /* up to `running` */

/* Neither ended nor waiting to be reaped by another process. */
bool process_is_running(int pid);

#endif
