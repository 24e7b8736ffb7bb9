/* option_words -- values of options that Parallel-SGD has. */
#ifndef PSGD_SUBMIT_OPTION_WORDS_H
#define PSGD_SUBMIT_OPTION_WORDS_H

/* Parallel-SGD's names of double buffering, as further choices of --optimizer. */
#define OPTIONS_LATE "|fast|double_buffering_gradient_averaging"

/* Of --csv-style: the first is psgd's own, and has no files of Parallel-SGD (classic/classic.h). */
#define CSV_STYLES "tidy|classic|classic-0.9"

#endif
