#include "shared/base/number.h"

#include <stdio.h>
#include <stdlib.h>

/* Every decimal of 15 digits survives the way to a double and back, so that 0.1 stays 0.1; 17 tell any two
 * doubles apart. */
const char *number_text(char text[NUMBER_TEXT_MAX], double v)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT_MAX, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return text;
}
