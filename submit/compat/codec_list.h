/* codec_list -- the value of --codec as a list with a codec for each layer, in both forms of Parallel-SGD:
 *
 *     plain,tern,sgq                    one for each layer with parameters, the last layer's first
 *     {"layer0": "sgq", "*": "plain"}   by layer, or tensor, or * for all others
 *
 * The layers of a job share one rule, and so its exchanges; only the compression of their vectors differs. An
 * entry is
 *     a rule, NAME[:KEY=VALUE,...]     vectors are not compressed
 *     a preset                         with its compressors in both directions
 *     a chain of compressors           of the vectors that workers send
 * All rules of the entries and their presets must be equal, with the same parameters. plain, allreduce and
 * doublesqueeze are one rule, the mean of gradients, in different kinds of job: a list with several of them,
 * with no rule, or with a compressor for the servers gets doublesqueeze. The compressors of a preset of ps
 * can be used with any rule. */
#ifndef PSGD_SUBMIT_CODEC_LIST_H
#define PSGD_SUBMIT_CODEC_LIST_H

#include <jansson.h>

#include "codecs/compress/chain_list.h"
#include "shared/job/model_spec.h"

struct codec_list {
    char codec[256]; /* the rule, with its parameters */
    char compress[CHAIN_LIST_TEXT_MAX + 1], compress_down[CHAIN_LIST_TEXT_MAX + 1]; /* "": not compressed */
    json_t *entries; /* {"layer0": "sgq", ...}: for run.json, all layers with parameters; owned */
};

/* Is the text a list? The parameters of one codec, and the name of a file, may contain a comma too. */
bool codec_list_is_one(const char *text);
/* Reads a list for the layers of a model. ERR_CODEC: there is no codec of a name. ERR_CONFIG: entries have
 * different rules, or the layers are not the model's. */
int codec_list_read(struct codec_list *l, const char *text, const struct model_spec *m, struct err *e);
void codec_list_clear(struct codec_list *l);

#endif
