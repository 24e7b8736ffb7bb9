/* layer_kinds -- all layers.
 *
 *   kind          keys (default)                                      in -> out
 *   dense         units, init (glorot_uniform), bias (true)           any -> (units)
 *   ... with positionwise (false)                                     (time, n) -> (time, units)
 *   conv2d        filters, kernel, stride (1), padding (valid), init  (h, w, c) -> (h', w', filters)
 *   max_pool      size, stride (size), padding (valid)                (h, w, c) -> (h', w', c)
 *   avg_pool      the same; padding does not count                    (h, w, c) -> (h', w', c)
 *   batch_norm    momentum (0.1), epsilon (1e-5)                      the same; over all but the last one
 *   layer_norm    epsilon (1e-5), bias (true)                         the same; over the last dimension
 *   rms_norm      epsilon (1e-5)                                      the same; over the last dimension
 *   dropout       rate (0.5)                                          the same
 *   flatten       -                                                   any -> (n)
 *   reshape       shape                                               any -> shape
 *   embedding     vocab, units, init (normal, 0.01)                   (time) tokens -> (time, units)
 *   position_embedding  init (normal, 0.01), positions (time)         (time, n) -> the same
 *   attention     heads, bias (true), init (normal), init_scale       (time, n) -> the same
 *                 (0.02), output_scale (init_scale), rope (none), dropout (0)
 *   head          tied                                                (time, n) -> (time, vocab)
 *   residual      layers                                              any -> the same
 *   swiglu        -                                                   (..., 2 n) -> (..., n)
 *   lstm, gru     units, sequences (false), init (glorot_uniform)     (time, n) -> (units) or (time, units)
 *   mean_over_time  -                                                 (time, n) -> (n)
 *   linear, relu, leaky_relu (slope 0.01), tanh, hard_tanh (slope 0), sigmoid, gelu, softmax   the same
 *
 * gelu is x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), the approximation of Hendrycks and Gimpel,
 * "Gaussian Error Linear Units", 2016 (PyTorch's approximate="tanh"), within 5e-4 of x Phi(x).
 *
 * kernel, size and stride are a number or [rows, columns]. "valid": windows are inside the image. "same":
 * one output per stride, ceil(h / stride), with zero padding, half before, the odd one after. momentum is
 * the weight of the new batch in the running statistics. init: zeros, ones, glorot_uniform, glorot_normal,
 * he_uniform, he_normal, fan_in_uniform (PyTorch's default), normal, uniform (these two with init_scale:
 * standard deviation, bound), orthogonal. It applies to the input weights; recurrent weights start
 * orthogonal, biases as zeros, gains as ones.
 *
 * A residual block adds its input to the output of its layers: y = x + f(x). In model_spec.layers it is a
 * `residual`, its layers, and a `sum`, which no document has. positionwise: the layer is applied to the
 * values of each step. attention is causal: a step attends to itself and the steps before it. A head
 * multiplies each step by the weight of the embedding that is layer number `tied` of the document: one
 * tensor with two uses. rope: queries and keys are rotated by their position (rotary embedding), with that
 * base, 10000 in its paper. dropout: the rate, of the softmax of attention. swiglu is silu(a) * b, a the
 * first half of the last dimension and b the second; silu(a) = a s(a), s the logistic function. */
#ifndef PSGD_LAYER_KINDS_H
#define PSGD_LAYER_KINDS_H

/* A line each: LAYER(kind, NAME, parser, ops, convert, keys): `kind` in a model's document, LAYER_NAME in
 * code, parse_`parser` reads it (layer_spec.c), layer_`ops` computes it (nn/layers/), to_`convert` writes it
 * as ONNX (submit/export/onnx_layers.c; same_name: an operator called as the kind; nothing: in inference the
 * layer is the identity), and `keys` it takes besides "kind". `sum` is the last one: documents have the kinds
 * before it. */
/* clang-format off */
#define LAYER_KINDS(LAYER) \
    LAYER(dense, DENSE, dense, dense, dense, ("units", "init", "init_scale", "positionwise", "bias")) \
    LAYER(conv2d, CONV2D, conv2d, conv2d, conv2d, \
          ("filters", "kernel", "stride", "padding", "init", "init_scale")) \
    LAYER(max_pool, MAX_POOL, pool, max_pool, max_pool, ("size", "stride", "padding")) \
    LAYER(avg_pool, AVG_POOL, pool, avg_pool, avg_pool, ("size", "stride", "padding")) \
    LAYER(batch_norm, BATCH_NORM, batch_norm, batch_norm, batch_norm, ("momentum", "epsilon")) \
    LAYER(layer_norm, LAYER_NORM, layer_norm, layer_norm, layer_norm, ("epsilon", "bias")) \
    LAYER(rms_norm, RMS_NORM, rms_norm, rms_norm, rms_norm, ("epsilon")) \
    LAYER(dropout, DROPOUT, dropout, dropout, nothing, ("rate")) \
    LAYER(flatten, FLATTEN, flatten, linear, reshape, ()) \
    LAYER(reshape, RESHAPE, reshape, linear, reshape, ("shape")) \
    LAYER(embedding, EMBEDDING, embedding, embedding, embedding, \
          ("vocab", "units", "init", "init_scale")) \
    LAYER(position_embedding, POSITION_EMBEDDING, position_embedding, position_embedding, \
          position_embedding, ("init", "init_scale", "positions")) \
    LAYER(attention, ATTENTION, attention, attention, attention, \
          ("heads", "bias", "init", "init_scale", "output_scale", "rope", "dropout")) \
    LAYER(head, HEAD, head, head, head, ("tied")) \
    LAYER(residual, RESIDUAL, residual, residual, residual, ("layers")) \
    LAYER(lstm, LSTM, recurrent, lstm, lstm, ("units", "sequences", "init", "init_scale")) \
    LAYER(gru, GRU, recurrent, gru, gru, ("units", "sequences", "init", "init_scale")) \
    LAYER(mean_over_time, MEAN_OVER_TIME, mean_over_time, mean_over_time, mean_over_time, ()) \
    LAYER(linear, LINEAR, activation, linear, nothing, ()) \
    LAYER(relu, RELU, activation, relu, same_name, ()) \
    LAYER(leaky_relu, LEAKY_RELU, sloped, leaky_relu, leaky_relu, ("slope")) \
    LAYER(tanh, TANH, activation, tanh, same_name, ()) \
    LAYER(hard_tanh, HARD_TANH, sloped, hard_tanh, hard_tanh, ("slope")) \
    LAYER(sigmoid, SIGMOID, activation, sigmoid, same_name, ()) \
    LAYER(gelu, GELU, activation, gelu, gelu, ()) \
    LAYER(softmax, SOFTMAX, activation, softmax, softmax, ()) \
    LAYER(swiglu, SWIGLU, swiglu, swiglu, swiglu, ()) \
    LAYER(sum, SUM, residual, sum, sum, ())
/* clang-format on */

#endif
