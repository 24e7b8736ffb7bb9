/* number -- numbers as decimal text. */
#ifndef PSGD_NUMBER_H
#define PSGD_NUMBER_H

enum { NUMBER_TEXT_MAX = 32 }; /* bytes, with the NUL: -1.2345678901234567e-308 */

/* Writes the shortest text of 15 to 17 digits, as %g has them, that reads back to the same double. Returns
 * `text`. */
const char *number_text(char text[NUMBER_TEXT_MAX], double v);

#endif
