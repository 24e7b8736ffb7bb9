#include "agent/jobs/trainer_about.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"

enum { GPUS_MAX = 64, GPU_NAME_MAX = 80, CPU_MAX_S = 10 };

extern char **environ;

struct trainer_facts {
    char python[64], numpy[64], torch[64]; /* versions; "": it is not there */
};

/* A version is read from the files of the installed package, as importing torch takes seconds. */
static const char script[] =
    "import glob, json, platform, subprocess\n"
    "def version_of(name):\n"
    "    try:\n"
    "        from importlib.metadata import version\n"
    "        return version(name)\n"
    "    except Exception:\n"
    "        from importlib.util import find_spec\n"
    "        return 'unknown' if find_spec(name) else ''\n"
    "def gpus():\n"
    "    files = glob.glob('/dev/nvidia[0-9]*')\n"
    "    if not files:\n"
    "        return []\n"
    "    try:\n"
    "        done = subprocess.run(['nvidia-smi', '-L'], stdout=subprocess.PIPE, timeout=8)\n"
    "        lines = done.stdout.decode('utf-8', 'replace').splitlines()\n"
    "        return [s.split(': ', 1)[1].split(' (UUID')[0] for s in lines if s.startswith('GPU ')]\n"
    "    except Exception:\n"
    "        return ['NVIDIA'] * len(files)\n"
    "print(json.dumps({'python': platform.python_version(), 'numpy': version_of('numpy'),\n"
    "                  'torch': version_of('torch'), 'gpus': gpus()}))\n";

static void remove_variables(const char *prefix)
{
    char name[256];

    for (size_t i = 0; environ[i];) {
        size_t n = strcspn(environ[i], "=");

        if (strncmp(environ[i], prefix, strlen(prefix)) != 0 || n >= sizeof name) {
            i++;
            continue;
        }
        memcpy(name, environ[i], n);
        name[n] = '\0';
        unsetenv(name);
    }
}

/* A training program does not get PYTHONPATH and the like from the agent. A script that starts the
 * interpreter may set them: option -E would ignore that. */
static int prepare_child(void *unused)
{
    (void)unused;
    remove_variables("PYTHON");
    return inquiry_unblock_signals();
}

/* The names of GPUs; what is no text is left out. */
static json_t *gpus_json(const json_t *list)
{
    json_t *names = json_array();
    json_t *name;
    size_t i;

    json_array_foreach(list, i, name)
    {
        if (i < GPUS_MAX && json_is_string(name))
            json_array_append_new(names, json_text(json_string_value(name), GPU_NAME_MAX));
    }
    return names;
}

static int parse_answer(json_t **out, const char *text, size_t len, struct err *e)
{
    static const struct json_field fields[] = {
        {.key = "python", .kind = JSON_FIELD_TEXT, JSON_AT(struct trainer_facts, python), .required = true},
        {.key = "numpy", .kind = JSON_FIELD_TEXT, JSON_AT(struct trainer_facts, numpy)},
        {.key = "torch", .kind = JSON_FIELD_TEXT, JSON_AT(struct trainer_facts, torch)},
        {.key = "gpus", .kind = JSON_FIELD_ANY},
        {0},
    };
    struct trainer_facts f = {0};
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, len, "its answer", e) < 0)
        return e->code;
    rc = json_to_struct(&f, doc, fields, "", e);
    if (rc == 0)
        *out = json_pack("{s:s, s:s?, s:s?, s:o}", "python", f.python, "numpy", f.numpy[0] ? f.numpy : NULL,
                         "torch", f.torch[0] ? f.torch : NULL, "gpus",
                         gpus_json(json_object_get(doc, "gpus")));
    json_decref(doc);
    return rc;
}

static void python_has_answered(void *arg, const char *text, size_t len, const struct err *failure)
{
    struct trainer_about *t = arg;

    t->broken = *failure;
    if (failure->code || parse_answer(&t->facts, text, len, &t->broken) < 0)
        err_at(&t->broken, "%s", t->python);
}

static int start_asking(struct trainer_about *t, struct err *e)
{
    char command[] = "-c", text[sizeof script];
    char *argv[] = {t->python, command, text, NULL};
    struct child_how how = {.argv = argv,
                            .folder = "/",
                            .err = -1,
                            .cpu_s = CPU_MAX_S,
                            .is_foreign = true,
                            .confine = prepare_child};

    if (!t->python[0])
        return err_set(e, ERR_NOT_FOUND, "there is no python3 in the agent's $PATH");
    memcpy(text, script, sizeof script);
    t->inquiry.answered = python_has_answered;
    t->inquiry.arg = t;
    t->inquiry.doubt = "is it Python 3?";
    return inquiry_ask(&t->inquiry, &how, e);
}

void trainer_about_ask(struct trainer_about *t)
{
    if (inquiry_is_fresh(&t->inquiry))
        return;
    json_decref(t->facts);
    t->facts = NULL;
    t->broken = (struct err){0};
    start_asking(t, &t->broken);
}

void trainer_about_clear(struct trainer_about *t)
{
    inquiry_close(&t->inquiry);
    json_decref(t->facts);
    *t = (struct trainer_about){0};
}

void trainer_about_add(json_t *o, const struct trainer_about *t)
{
    static const char *const keys[] = {"python", "numpy", "torch", "gpus"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *fact = json_object_get(t->facts, keys[i]);

        json_object_set_new(o, keys[i], fact ? json_incref(fact) : json_null());
    }
    json_object_set_new(o, "trainer_error",
                        t->broken.code ? json_text(t->broken.text, sizeof t->broken.text) : json_null());
}
