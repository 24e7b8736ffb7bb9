#include "submit/verbs/model_file.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/records/checkpoint_meta.h"
#include "shared/records/weights.h"

int model_file_parse(struct model_spec **out, const char *text, size_t len, const char *what, struct err *e)
{
    struct model_spec *m = malloc(sizeof *m);
    json_t *doc = NULL;
    int rc = m ? json_parse(&doc, text, len, what, e) : err_set(e, ERR_NOMEM, "no memory for a model");

    if (rc == 0 && model_spec_parse(m, doc, e) < 0)
        rc = err_at(e, "%s", what);
    json_decref(doc);
    if (rc < 0)
        free(m);
    else
        *out = m;
    return rc;
}

int model_file_arch(struct model_spec **out, const struct tensor_file *f, struct err *e)
{
    const char *arch = tensor_file_meta(f, "arch");

    if (!arch)
        return err_set(e, ERR_CONFIG, "its metadata has no \"arch\", the document of a model");
    if (model_file_parse(out, arch, strlen(arch), "arch", e) < 0)
        return e->code;
    if (weights_check(f, checkpoint_meta_prefix(f), *out, e) == 0)
        return 0;
    free(*out);
    return e->code;
}
