#include "submit/files/job_id.h"

#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* The milliseconds since 1970 in base 36, then random digits. */
void job_id_new(char out[JOB_ID_MAX])
{
    uint64_t ms = (uint64_t)(clock_wall() * 1e3);
    uint8_t suffix[5];

    random_bytes(suffix, sizeof suffix);
    memcpy(out, "j-", 2);
    for (int i = 9; i >= 2; i--, ms /= 36)
        out[i] = digits[ms % 36];
    for (int i = 0; i < 5; i++)
        out[10 + i] = digits[suffix[i] % 36];
    out[15] = '\0';
}

bool job_id_is_valid(const char *text)
{
    return text && strncmp(text, "j-", 2) == 0 && text[2] && strlen(text) < JOB_ID_MAX &&
           strspn(text + 2, digits) == strlen(text) - 2;
}
