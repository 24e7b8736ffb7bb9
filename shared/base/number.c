#include "shared/base/number.h"

#include <stdio.h>
#include <stdlib.h>

/* A decimal of 15 digits is unchanged after conversion to a double and back, so that 0.1 is printed as 0.1;
 * two different doubles differ in 17 digits. */
const char *number_text(char text[NUMBER_TEXT_MAX], double v)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT_MAX, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return text;
}
