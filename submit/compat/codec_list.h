/* codec_list -- the value of --codec as a list with a codec for each layer, in both forms of Parallel-SGD:
 *
 *     plain,tern,sgq                    one for each layer with parameters, the last layer's first
 *     {"layer0": "sgq", "*": "plain"}   by layer, or tensor, or * for all others
 *
 * The layers of a job share one rule, and so its exchanges; what differs is how their vectors are compressed.
 * An entry is
 *     a rule, NAME[:KEY=VALUE,...]     vectors are sent as they are
 *     a preset                         with its compressors in both directions
 *     a chain of compressors           of what workers send
 * All rules, and those of the presets, must be one, with the same parameters; a chain goes with it. plain,
 * allreduce and doublesqueeze are the same rule, the mean of gradients, for other jobs: where the entries
 * have several of them, or none, or compress what servers send, it is doublesqueeze. The compressors of a
 * preset of ps go with any rule. */
#ifndef PSGD_SUBMIT_CODEC_LIST_H
#define PSGD_SUBMIT_CODEC_LIST_H

#include <jansson.h>

#include "codecs/compress/chain_list.h"
#include "shared/job/model_spec.h"

struct codec_list {
    char codec[256]; /* the rule, with its parameters */
    char compress[CHAIN_LIST_TEXT_MAX + 1], compress_down[CHAIN_LIST_TEXT_MAX + 1]; /* "": as they are */
    json_t *entries; /* {"layer0": "sgq", ...}: for run.json, all layers with parameters; owned */
};

/* Is it a list? A comma in the parameters of one codec makes none, and neither does the name of a file. */
bool codec_list_is_one(const char *text);
/* ERR_CODEC: there is no codec of that name. ERR_CONFIG: entries are of several rules, or the layers are not
 * those of the model. */
int codec_list_read(struct codec_list *l, const char *text, const struct model_spec *m, struct err *e);
void codec_list_clear(struct codec_list *l);

#endif
