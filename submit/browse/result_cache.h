/* result_cache -- the lines of many results, kept in ~/.cache/psgd/results/ for the next process that lists
 * the same folders with the same program, because reading 10,000 run.json takes seconds. */
#ifndef PSGD_BROWSE_RESULT_CACHE_H
#define PSGD_BROWSE_RESULT_CACHE_H

#include "submit/browse/result_list.h"

/* With fewer results nothing is saved. */
enum { RESULT_CACHE_LEAST = 200 };

/* Fills a new list, before its first scan, which drops what is gone and reads what has changed. Without a
 * valid file the list stays empty. */
void result_cache_load(struct result_list *l);
/* Saves the list, unless it has not changed since. A failure only costs time later. */
void result_cache_save(struct result_list *l);

#endif
