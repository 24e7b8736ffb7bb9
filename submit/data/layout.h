/* layout -- what the dimensions of a sample's shape mean, and whether two shapes are of the same samples.
 *
 *     (values)                    a row of a table, a vector
 *     (time)                      tokens of a text
 *     (time, values)              a series
 *     (rows, columns, channels)   an image, channels last
 *
 * A sample is a flat vector in memory, last dimension fastest, so shapes with as many values could all be
 * read as each other; of most of them the numbers would be mixed up. Same samples are:
 *   - equal shapes;
 *   - any shape and a flat one, (values): the order of the values is the same;
 *   - two and three dimensions whose first one is equal: a row of an image is a step in time, as a sequence
 *     model reads (28, 28, 1) as (28, 28).
 * Two shapes of three dimensions that differ are not, nor are two of two. */
#ifndef PSGD_LAYOUT_H
#define PSGD_LAYOUT_H

#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/job/layer_spec.h"

enum { LAYOUT_TEXT = 96 };

/* "(28, 28, 1) (rows, columns, channels)" */
const char *layout_text(char out[LAYOUT_TEXT], const struct shape *s, bool are_tokens);
/* The meaning of dimension i of a shape: "rows". */
const char *layout_dimension(const struct shape *s, bool are_tokens, int i);

/* The reader of samples takes those of shape `wanted`, the data has those of shape `found`, of as many
 * values. `reader`: "model \"lenet\"", the beginning of a sentence. ERR_CONFIG: they are not of the same
 * samples; the hint says how images are turned channels last. */
int layout_check(const char *reader, const struct shape *wanted, const struct shape *found, bool are_tokens,
                 struct err *e);

#endif
