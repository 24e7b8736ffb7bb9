#include "submit/compat/presets.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/file.h"
#include "submit/codecs/codec_find.h"

/* In Parallel-SGD servers reply with compressed weights, or (sgq) with the compressed difference from the
 * worker's weights. In psgd all servers reply with differences (runner/exchange/compressing.h), because a
 * quantized weight would lose every update that is smaller than its step. Differences always have error
 * feedback; ef=true is for a list of codecs, whose servers may reply with the mean of gradients
 * (codec_list.h). */
const struct preset presets[] = {
    {"adam_gradiff",
     {"codec=ps", "gradient-descent=adam", "parallel_sgd=asgd"},
     "Parallel-SGD: Adam on the server; its replies are differences under --compress-down, else weights"},
    {"binary",
     {"codec=ps", "compress=onebit:ef=true", "compress-down=onebit:ef=true"},
     "Parallel-SGD q1, quantization with 1 bit: signs with two means"},
    {"dc", {"codec=dc_asgd:mode=adaptive", "parallel_sgd=asgd"}, "Parallel-SGD's name of dc_asgd"},
    {"eamsgd",
     {"codec=easgd", "gradient-descent=nesterov", "momentum=0.99"},
     "Zhang et al., NIPS 2015, eq. 7 and 8: easgd with Nesterov's momentum on the workers"},
    {"full", {"codec=ps", "parallel_sgd=asgd"}, "Parallel-SGD: quantization without loss"},
    {"grad_diff",
     {"codec=ps", "parallel_sgd=asgd"},
     "Parallel-SGD grad, simple: its replies are differences under --compress-down, else weights"},
    {"gradcode",
     {"codec=plain", "path=gather", "block_assignment=dup"},
     "Tandon et al., ICML 2017, fractional repetition: with --redundancy r any n - r + 1 workers suffice"},
    {"low",
     {"codec=ps", "compress=fp16", "compress-down=fp16"},
     "Parallel-SGD: quantization with half precision"},
    {"q_ext",
     {"codec=ps", "compress=sgq:bits=3,alpha=fit", "compress-down=sgq:bits=3,alpha=fit,ef=true"},
     "Parallel-SGD: seven levels, fitted by three iterations; rounded to the nearest"},
    {"q_ext_ext",
     {"codec=dc_qsgd", "parallel_sgd=asgd", "compress=sgq:bits=3,alpha=fit,ef=true",
      "compress-down=sgq:bits=3,alpha=fit,ef=true"},
     "Parallel-SGD DC-QSGD: as q_ext, and workers correct their gradients by their delay"},
    {"quantization",
     {"codec=ps", "compress=qsgd:bits=4,ef=true", "compress-down=qsgd:bits=4,ef=true"},
     "Parallel-SGD: uniform levels; rounded at random, as Alistarh et al. 2017"},
    {"sgq",
     {"codec=ps", "compress=sgq|huffman", "compress-down=sgq:ef=true|huffman"},
     "Parallel-SGD: non-uniform levels and Huffman's code both ways; differences from what the worker has"},
    {"tqn",
     {"codec=ps", "compress=tern:alpha=fit,iterations=1",
      "compress-down=tern:alpha=fit,iterations=1,ef=true"},
     "Parallel-SGD: ternary numbers, fitted by one iteration; rounded to the nearest"},
    {0},
};

const char *const *preset_names(void)
{
    static const char *names[sizeof presets / sizeof *presets];

    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        names[i] = presets[i].name;
    return names;
}

const struct preset *preset_find(const char *text)
{
    size_t len = strcspn(text, ":");
    char exe_dir[PATH_MAX], name[64];
    struct codec_file own;
    struct err ignored;

    for (const struct preset *p = presets; p->name; p++) {
        if (strlen(p->name) != len || strncmp(p->name, text, len) != 0)
            continue;
        snprintf(name, sizeof name, "%s", p->name);
        return file_exe_dir(exe_dir, sizeof exe_dir, &ignored) == 0 &&
                       find_codec(&own, name, exe_dir, NULL, &ignored) == 0
                   ? NULL
                   : p;
    }
    return NULL;
}

void preset_text(char *out, size_t size, const struct preset *p)
{
    size_t n = 0;

    out[0] = '\0';
    for (const char *const *option = p->options; *option && n < size; option++)
        n += (size_t)snprintf(out + n, size - n, "%s--%.*s %s", n ? " " : "", (int)strcspn(*option, "="),
                              *option, strchr(*option, '=') + 1);
}
