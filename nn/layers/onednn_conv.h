/* onednn_conv -- convolutions by oneDNN, prepared when a layer is created. Without oneDNN (make ONEDNN=)
 * nothing is prepared and conv_columns computes them. */
#ifndef PSGD_ONEDNN_CONV_H
#define PSGD_ONEDNN_CONV_H

#include "nn/layers/layer.h"

/* l->own: the state of conv_onednn; NULL: oneDNN has no optimized code for this shape. ERR_NOMEM. */
int onednn_conv_open(struct layer *l, struct err *e);
void onednn_conv_close(struct layer *l);

#endif
