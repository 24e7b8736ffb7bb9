/* layer_kinds -- all layers, a line each. LAYER(kind, NAME, parser, ops, convert, keys): `kind` in a model's
 * document, LAYER_NAME in code, parse_`parser` reads it (layer_spec.c), layer_`ops` computes it (nn/layers/),
 * to_`convert` writes it as ONNX (submit/export/onnx_layers.c), and `keys` it takes besides "kind". */
#ifndef PSGD_LAYER_KINDS_H
#define PSGD_LAYER_KINDS_H

/* clang-format off */
#define LAYER_KINDS(LAYER) \
    LAYER(dense, DENSE, dense, dense, dense, ("units", "init", "init_scale")) \
    LAYER(conv2d, CONV2D, conv2d, conv2d, conv2d, \
          ("filters", "kernel", "stride", "padding", "init", "init_scale")) \
    LAYER(max_pool, MAX_POOL, pool, max_pool, max_pool, ("size", "stride", "padding")) \
    LAYER(avg_pool, AVG_POOL, pool, avg_pool, avg_pool, ("size", "stride", "padding")) \
    LAYER(batch_norm, BATCH_NORM, norm, batch_norm, batch_norm, ("momentum", "epsilon")) \
    LAYER(layer_norm, LAYER_NORM, norm, layer_norm, layer_norm, ("epsilon")) \
    LAYER(dropout, DROPOUT, dropout, dropout, nothing, ("rate")) \
    LAYER(flatten, FLATTEN, flatten, linear, reshape, ()) \
    LAYER(reshape, RESHAPE, reshape, linear, reshape, ("shape")) \
    LAYER(embedding, EMBEDDING, embedding, embedding, embedding, \
          ("vocab", "units", "init", "init_scale")) \
    LAYER(lstm, LSTM, recurrent, lstm, lstm, ("units", "sequences", "init", "init_scale")) \
    LAYER(gru, GRU, recurrent, gru, gru, ("units", "sequences", "init", "init_scale")) \
    LAYER(mean_over_time, MEAN_OVER_TIME, mean_over_time, mean_over_time, mean_over_time, ()) \
    LAYER(linear, LINEAR, activation, linear, nothing, ()) \
    LAYER(relu, RELU, activation, relu, relu, ()) \
    LAYER(leaky_relu, LEAKY_RELU, activation, leaky_relu, leaky_relu, ("slope")) \
    LAYER(tanh, TANH, activation, tanh, tanh, ()) \
    LAYER(sigmoid, SIGMOID, activation, sigmoid, sigmoid, ()) \
    LAYER(gelu, GELU, activation, gelu, gelu, ()) \
    LAYER(softmax, SOFTMAX, activation, softmax, softmax, ())
/* clang-format on */

#endif
