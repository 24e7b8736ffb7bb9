#include "submit/options/setting_error.h"

#include <string.h>

#include "shared/base/json.h"
#include "submit/options/options_table.h"

/* The option that sets it, or has its name: "block_ratio" is --block-ratio. */
static bool is_of(const struct args_option *t, const char *key, size_t n)
{
    const struct json_field *f = settings_field(t->offset - offsetof(struct options, settings));
    char name[ARGS_NAME];

    if (f)
        return strlen(f->key) == n && memcmp(f->key, key, n) == 0;
    args_name(name, t);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    return strlen(name) == n && memcmp(name, key, n) == 0;
}

int setting_error(struct err *e)
{
    size_t n = strcspn(e->text, ":");
    struct err rest = *e;
    char name[ARGS_NAME];

    for (int i = 0; i < options_table.n && e->text[0] == '/'; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!is_of(t, e->text + 1, n - 1))
            continue;
        args_name(name, t);
        err_set(e, rest.code, "--%s%.900s", name, rest.text + n);
        memcpy(e->hint, rest.hint, sizeof e->hint);
        return e->code;
    }
    return err_at(e, "settings");
}
