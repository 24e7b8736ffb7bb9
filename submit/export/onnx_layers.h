/* onnx_layers -- converts layers to ONNX nodes. */
#ifndef PSGD_SUBMIT_ONNX_LAYERS_H
#define PSGD_SUBMIT_ONNX_LAYERS_H

#include "submit/export/onnx_graph.h"

/* Indexed by enum layer_kind: applies layer number `layer` to g->at; the result becomes g->at. */
extern void (*const onnx_convert[N_LAYER_KINDS])(struct onnx_graph *g, int layer);

/* Transposes g->at, if it is an image, to channels last, as in psgd. */
void onnx_channels_last(struct onnx_graph *g);

/* Computes g->lengths from g->at, the tokens of texts; for layers that run along the text. */
void onnx_find_lengths(struct onnx_graph *g);

#endif
