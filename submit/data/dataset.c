#include "submit/data/dataset.h"

#include <stdlib.h>

void dataset_clear(struct dataset *d)
{
    free(d->train_x);
    free(d->train_y);
    free(d->test_x);
    free(d->test_y);
    free(d->train_t);
    free(d->train_groups);
    free(d->test_t);
    free(d->class_names);
    free(d->words);
    free(d->columns);
    data_warnings_clear(&d->warnings);
    *d = (struct dataset){0};
}
