/* Any text as each file by which the processes of a job folder meet. What is accepted must be in its range,
 * so that the others accept what is made of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/folder/meeting.h"
#include "shared/job/job_folder.h"
#include "tests/fuzz/fuzz_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char launch[] = "0123456789abcdef"; /* of the files of the corpus */
static const char key[] = "abababababababababababababababababababababababababababababababab";
static const char offer[] = "{\"launch\":\"0123456789abcdef\",\"name\":\"\",\"machine\":\"one\"}";

static void write_input(const char *name, const uint8_t *bytes, size_t len)
{
    char path[64];

    snprintf(path, sizeof path, JOB_FOLDER_MEET "/%s", name);
    fuzz_folder_write(path, bytes, len);
}

static void come(struct meeting *m, int rank)
{
    const struct meeting_member mine = {.node = rank, .machine = "one", .attempt = 1, .state = JOB_FAILED};
    struct err e;

    must(meeting_open(m, fuzz_folder, rank, 2, &mine, &e) == 0);
    snprintf(m->launch, sizeof m->launch, "%s", launch);
    snprintf(m->members[rank].nonce, sizeof m->members[rank].nonce, "%s", launch);
}

static bool has_failed(int rc, const struct err *e)
{
    must(rc >= 0 || (rc == e->code && e->text[0]));
    return rc <= 0;
}

/* Whether process 1 accepts the plan that is there. */
static bool is_accepted(const struct meeting *leader)
{
    struct meeting m;
    struct err e;
    bool is_so;

    come(&m, 1);
    memcpy(m.members[1].nonce, leader->members[1].nonce, sizeof m.members[1].nonce);
    is_so = meeting_gather(&m, &e) == 1 && m.attempt == leader->attempt;
    meeting_close(&m);
    return is_so;
}

/* Process 0, with the text as process 1's files. */
static void lead(const uint8_t *bytes, size_t len)
{
    struct meeting m;
    struct err e = {0};

    come(&m, 0);
    write_input("offer.json", (const uint8_t *)offer, strlen(offer));
    write_input("hello-1.json", bytes, len);
    if (has_failed(meeting_gather(&m, &e), &e))
        goto end;
    must(m.attempt >= 2 && m.attempt <= JOB_FOLDER_ATTEMPTS_MAX && m.members[1].host[0]);
    must(is_accepted(&m));
    must(meeting_say_ready(&m, 1, key, &e) == 0);
    write_input("ready-1.json", bytes, len);
    if (!has_failed(meeting_start(&m, &e), &e))
        must(m.members[1].port >= 1 && m.members[1].port <= UINT16_MAX);
    write_input("ended-1.json", bytes, len);
    meeting_read_ends(&m);
    must(!m.members[1].is_ended || job_state_is_terminal(m.members[1].end));
end:
    meeting_close(&m);
}

static void check_stop(struct meeting *m)
{
    char reason[200];
    bool has_failed;

    if (meeting_is_stopped(m, reason, &has_failed))
        must(strnlen(reason, sizeof reason) < sizeof reason);
}

/* Process 1, with the text as process 0's files, and a user's. */
static void follow(const uint8_t *bytes, size_t len)
{
    struct meeting m;
    struct err e = {0};

    come(&m, 1);
    write_input("plan.json", bytes, len);
    if (!has_failed(meeting_gather(&m, &e), &e))
        must(m.attempt >= 1 && m.attempt <= JOB_FOLDER_ATTEMPTS_MAX);
    write_input("start.json", bytes, len);
    if (!has_failed(meeting_start(&m, &e), &e))
        for (int r = 0; r < 2; r++)
            must(m.members[r].port >= 1 && m.members[r].port <= UINT16_MAX);
    write_input("stop.json", bytes, len);
    check_stop(&m);
    write_input("cancel.json", bytes, len);
    check_stop(&m);
    write_input("offer.json", bytes, len);
    has_failed(meeting_gather(&m, &e), &e);
    meeting_close(&m);
}

/* An empty folder. */
static void begin_meeting(void)
{
    struct err e;

    fuzz_folder_remove();
    must(file_mkdirs(fuzz_folder, 0700, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_folder_open("meeting");
    begin_meeting();
    lead(bytes, len);
    begin_meeting();
    follow(bytes, len);
    return 0;
}
