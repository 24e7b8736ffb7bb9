/* layout -- what the dimensions of a sample's shape mean, and whether two shapes are of the same samples.
 *
 *     (values)                    a row of a table, a vector
 *     (time)                      tokens of a text
 *     (time, values)              a series
 *     (rows, columns, channels)   an image, channels last
 *
 * A sample is a flat vector in memory, last dimension fastest. So it could be read as any shape with as many
 * values, but mostly with its values in the wrong places. Two shapes are of the same samples if
 *   - they are equal;
 *   - one of them is flat, (values): the order of the values is the same;
 *   - one has two and the other three dimensions, and the first ones are equal: a row of an image is a step
 *     in time, as when a sequence model reads (28, 28, 1) as (28, 28).
 * Two different shapes of three dimensions, or of two, are not. */
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

/* Checks that `wanted`, the shape that a reader takes, and `found`, that of the data, which have as many
 * values, are of the same samples. `reader`: "model \"lenet\"", the beginning of the message. ERR_CONFIG:
 * they are not; the hint says how channels or time are moved to their place. */
int layout_check(const char *reader, const struct shape *wanted, const struct shape *found, bool are_tokens,
                 struct err *e);

#endif
