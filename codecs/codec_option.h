/* codec_option -- the options of a codec: fields of its state that the user sets by
 * --codec 'NAME:alpha=0.5,graph=ring'. A codec lists them by the macros below, in a table that ends with {0}:
 *
 *     static const struct codec_option options[] = {
 *         CODEC_OPTION(struct diloco, lr, 0.7, 0, 1e3, "learning rate of the outer step"),
 *         {0},
 *     };
 *
 * The host refuses a value of another type or out of range, and documents them. The type of an option is the
 * type of its field. */
#ifndef PSGD_CODEC_OPTION_H
#define PSGD_CODEC_OPTION_H

#include <stdbool.h>
#include <stddef.h>

enum codec_type {
    CODEC_FLOAT, /* float */
    CODEC_INT,   /* int */
    CODEC_BOOL,  /* bool: true, false */
    CODEC_CHOICE /* int: the index in `choices`, from 0 */
};
struct codec_option {
    const char *name; /* a-z, 0-9, _; not "every" in a rule where that is the number of local steps */
    enum codec_type type;
    size_t offset;        /* of the field in the state */
    double def, min, max; /* def NAN (float only): unset, the codec chooses */
    const char *choices;  /* CODEC_CHOICE: "ring|exponential"; the first is the default */
    const char *help;
};
#define CODEC_OPTION(struct_, field, def_, min_, max_, help_)                                                \
    {                                                                                                        \
        .name = #field,                                                                                      \
        .type = _Generic(((struct_ *)0)->field, float                                                        \
                         : CODEC_FLOAT, int                                                                  \
                         : CODEC_INT, bool                                                                   \
                         : CODEC_BOOL),                                                                      \
        .offset = offsetof(struct_, field), .def = (def_), .min = (min_), .max = (max_), .help = (help_)     \
    }
#define CODEC_OPTION_CHOICE(struct_, field, choices_, help_)                                                 \
    {                                                                                                        \
        .name = #field,                                                                                      \
        .type = _Generic(((struct_ *)0)->field, int                                                          \
                         : CODEC_CHOICE),                                                                    \
        .offset = offsetof(struct_, field), .choices = (choices_), .help = (help_)                           \
    }

#endif
