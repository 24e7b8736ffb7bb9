/* Any line from a runner. An accepted one must be written to the journal as one line that fits a reader's
 * buffer, and read back as the same line. */
#include <stdlib.h>
#include <string.h>

#include "agent/jobs/event.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct event ev, back;
    char *line, *again;
    struct err e;

    if (len > RUNNER_LINE_MAX || event_parse_line(&ev, (const char *)bytes, len, true, &e) < 0)
        return 0;
    must(ev.kind <= EVENT_READY && ev.seq == 0);
    if (ev.kind == EVENT_READY)
        return 0;
    ev.seq = 1;
    line = event_line(&ev);
    must(line && strlen(line) <= EVENT_LINE_MAX && strchr(line, '\n') == line + strlen(line) - 1);
    must(event_parse_line(&back, line, strlen(line) - 1, false, &e) == 0);
    again = event_line(&back);
    must(strcmp(line, again) == 0);
    free(line);
    free(again);
    return 0;
}
