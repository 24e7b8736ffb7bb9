/* onnx_layers -- the nodes that do what a kind of layer does. */
#ifndef PSGD_SUBMIT_ONNX_LAYERS_H
#define PSGD_SUBMIT_ONNX_LAYERS_H

#include "submit/export/onnx_graph.h"

/* By enum layer_kind: what layer number `layer` makes of g->at becomes g->at. */
extern void (*const onnx_convert[N_LAYER_KINDS])(struct onnx_graph *g, int layer);

/* g->at, if it is an image, lies as psgd has it. */
void onnx_channels_last(struct onnx_graph *g);

/* g->lengths from g->at, the tokens of texts; for layers that go along them. */
void onnx_find_lengths(struct onnx_graph *g);

#endif
