/* compare_table -- a comparison as a table for people. */
#ifndef PSGD_SUBMIT_COMPARE_TABLE_H
#define PSGD_SUBMIT_COMPARE_TABLE_H

#include "submit/results/compare.h"
#include "submit/terminal/text.h"

/* A result in its unit: "0.9742", "1.07 s", "2.37 MB"; "-": NAN. */
const char *compare_result_text(char out[TEXT_AMOUNT], enum compare_result which, double v);
/* The heading of its column, which may have the target: "accuracy", "time to 0.97". */
const char *compare_result_head(char out[TEXT_AMOUNT], enum compare_result which, double target);

/* Prints the document of compare_runs() on stdout: a line for each run. ERR_NOMEM. */
int compare_print(const json_t *doc, struct err *e);

#endif
