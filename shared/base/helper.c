#include "shared/base/helper.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"

enum { SUMMARY_MAX = 64 << 20 };

static const char file_name[] = "summary.json";

static bool is_only_option(int argc, char **argv, const char *name, const char *letter)
{
    return argc == 2 && (strcmp(argv[1], name) == 0 || strcmp(argv[1], letter) == 0);
}

int helper_main(int argc, char **argv, const char *name, const char *starter)
{
    if (is_only_option(argc, argv, "--version", "-V")) {
        printf("%s (psgd) %s\n", name, PSGD_VERSION);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (is_only_option(argc, argv, "--help", "-h")) {
        printf("%s is started by %s, not by hand.\n", name, starter);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    fprintf(stderr, "%s is started by %s, not by hand\n", name, starter);
    return 2;
}

int helper_summary_write(json_t *take_doc, const char *folder, struct err *e)
{
    char *text = take_doc ? json_dump(take_doc, JSON_COMPACT) : NULL;
    char path[PATH_MAX];
    int rc;

    json_decref(take_doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the summary");
    rc = file_join(path, sizeof path, folder, file_name, e) < 0
             ? e->code
             : file_write(path, text, strlen(text), 0644, e);
    free(text);
    return rc;
}

json_t *helper_summary_failure(const struct err *failure)
{
    return json_pack("{s:b, s:i, s:o, s:o}", "ok", 0, "code", failure->code, "text",
                     json_text(failure->text, SIZE_MAX), "hint", json_text(failure->hint, SIZE_MAX));
}

static int parse_failure(const json_t *doc, const char *program, struct err *e)
{
    const char *text = json_string_value(json_object_get(doc, "text"));
    const char *hint = json_string_value(json_object_get(doc, "hint"));
    json_int_t code = json_integer_value(json_object_get(doc, "code"));

    if (!text || code < ERR_INTERNAL || code > ERR_CONFLICT)
        return err_set(e, ERR_CODEC, "the %s's summary is malformed", program);
    err_set(e, (int)code, "%s", text);
    return err_hint(e, "%s", hint ? hint : "");
}

int helper_summary_read(json_t **out, const char *folder, const char *program, struct err *e)
{
    char path[PATH_MAX];
    json_t *doc;

    if (file_join(path, sizeof path, folder, file_name, e) < 0 || json_read(&doc, path, SUMMARY_MAX, e) < 0)
        return e->code;
    if (json_is_true(json_object_get(doc, "ok"))) {
        *out = doc;
        return 0;
    }
    parse_failure(doc, program, e);
    json_decref(doc);
    return e->code;
}
