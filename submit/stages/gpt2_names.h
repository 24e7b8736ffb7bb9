/* gpt2_names -- weights of GPT-2 as they are published, under the names of Hugging Face's transformers
 * ("h.0.attn.c_attn.weight", or "transformer.h.0...."). Their layouts are psgd's: c_attn and the other
 * matrices are (in, out), queries, keys and values side by side. */
#ifndef PSGD_GPT2_NAMES_H
#define PSGD_GPT2_NAMES_H

#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"

/* If the file has such names, gives its tensors the names of `m`, in the order of GPT-2's layers, and leaves
 * out what is no weight of its own: the masks of attention, and a head, which is the embedding. Other files
 * are left as they are. weights_check() reports what does not fit the model. */
void gpt2_names_replace(struct tensor_file *f, const struct model_spec *m);

#endif
