/* setting_error -- an error of a setting in the words of the command line. */
#ifndef PSGD_SUBMIT_SETTING_ERROR_H
#define PSGD_SUBMIT_SETTING_ERROR_H

#include "shared/base/err.h"

/* "/block_ratio: text", as shared/job/settings.h reports it, becomes "--block-ratio: text"; an error of a
 * setting that no option sets becomes "settings: /KEY: text". Returns e->code. */
int setting_error(struct err *e);

#endif
