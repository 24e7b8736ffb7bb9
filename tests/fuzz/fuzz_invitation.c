/* Any text as an invitation. An accepted one has a normalized address, and is read again from its parts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/net/invitation.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char text[INVITATION_MAX], whole[2 * INVITATION_MAX];
    struct agent_invitation in, again;
    struct err e;

    if (len >= sizeof text)
        return 0;
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (invitation_parse(&in, text, &e) < 0)
        return 0;
    snprintf(whole, sizeof whole, "%s#%s#%s", in.address, in.pin, in.code);
    if (invitation_parse(&again, whole, &e) < 0 || strcmp(in.address, again.address) != 0 ||
        strcmp(in.pin, again.pin) != 0 || strcmp(in.code, again.code) != 0 || strlen(in.pin) != 43)
        abort();
    return 0;
}
