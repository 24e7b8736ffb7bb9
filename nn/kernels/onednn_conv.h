/* onednn_conv -- convolutions by oneDNN, prepared when a layer is made. Compiled without it (make ONEDNN=),
 * there is nothing to prepare and conv_columns does the work. */
#ifndef PSGD_ONEDNN_CONV_H
#define PSGD_ONEDNN_CONV_H

#include "nn/layers/layer.h"

/* l->own: what conv_onednn works with; NULL: oneDNN has no code of its own for this shape. ERR_NOMEM. */
int onednn_conv_open(struct layer *l, struct err *e);
void onednn_conv_close(struct layer *l);

#endif
