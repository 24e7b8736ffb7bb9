#include "submit/options/options_table.h"

#include <unistd.h>

#include "submit/options/options_table.h"
#include "tests/unit/unit.h"

static int parse(struct options *o, uint64_t verb, struct err *e, const char *const *arguments)
{
    static struct unit_argv argv; /* operands point into it */

    unit_argv(&argv, "submit", arguments);
    return options_parse(o, verb, argv.n, argv.of, e);
}

#define PARSE(...) parse(&o, FOR_SUBMIT, &e, (const char *const[]){__VA_ARGS__, NULL})

static struct options o;
static struct err e;

TEST(underscores_and_hyphens_are_equivalent)
{
    assert_ok(PARSE("--node_count", "2", "--batch-size=32", "--learn_rate", "0.5", "--non_iid"));
    assert_int_equal(o.settings.node_count, 2);
    assert_int_equal(o.settings.batch_size, 32);
    assert_true(o.settings.learn_rate == 0.5);
    assert_true(o.settings.non_iid);
    assert_ok(PARSE("--node-count", "3", "--local_steps", "7", "--lr", "0.25"));
    assert_true(o.settings.learn_rate == 0.25 && o.has_learn_rate);
    assert_int_equal(o.settings.node_count, 3);
    assert_int_equal(o.settings.local_steps, 7);
}

TEST(a_list_of_choices_is_no_choice)
{
    assert_ok(PARSE("--gradient-descent", "gradient_decay"));
    assert_int_equal(PARSE("--psgd", "ssgd|asgd"), ERR_USAGE);
    assert_error_has("\"ssgd|asgd\" is not one of ssgd|asgd");
}

TEST(short_options_accept_attached_and_separate_values)
{
    assert_ok(PARSE("-n2", "-b", "16", "-qvv", "-C", "fedavg", "-c", "plain", "-I", "784"));
    assert_int_equal(o.settings.node_count, 2);
    assert_int_equal(o.settings.batch_size, 16);
    assert_string_equal(o.codec, "plain");
    assert_true(o.quiet);
    assert_int_equal(o.verbose, 2);
}

TEST(spellings_of_parallel_sgd_are_accepted)
{
    assert_ok(PARSE("--psgd", "asgd", "--block_assignment", "dpa", "--retrieve_data", "--optimizer",
                    "parallel_sgd"));
    assert_int_equal(o.settings.sync, SYNC_ASGD);
    assert_int_equal(o.settings.block_assignment, BLOCKS_DUP);
    assert_true(o.retrieve);
    assert_ok(PARSE("--parallel_sgd", "ssgd"));
    assert_int_equal(o.settings.sync, SYNC_SSGD);
}

TEST(optimizer_also_names_an_update_rule)
{
    assert_ok(PARSE("--optimizer", "adam"));
    assert_int_equal(o.settings.optimizer, OPTIMIZER_ADAM);
    assert_true(o.settings.learn_rate == 0.001);
    assert_string_equal(o.optimizer, "adam"); /* a sweep passes it on to its runs */
    assert_ok(PARSE("--optimizer", "adamw", "--beta2", "0.95"));
    assert_ok(PARSE("--optimizer", "adam", "--gradient-descent", "adam"));
    assert_int_equal(PARSE("--optimizer", "adam", "--gradient-descent", "sgd"), ERR_USAGE);
    assert_error_has("give one of them");
    assert_ok(PARSE("--optimizer", "parameter_averaging", "--gradient-descent", "adam"));
    assert_string_equal(o.optimizer, "parameter_averaging");
}

TEST(double_buffering_is_an_exchange_that_overlaps)
{
    assert_ok(PARSE("--optimizer", "fast"));
    assert_int_equal(o.settings.overlap, OVERLAP_ONE);
    assert_ok(PARSE("-O", "double_buffering_gradient_averaging", "--overlap", "1"));
    assert_int_equal(o.settings.overlap, OVERLAP_ONE);
    assert_string_equal(o.optimizer, "double_buffering_gradient_averaging");
    assert_int_equal(PARSE("--optimizer", "fast", "--overlap", "0"), ERR_USAGE);
    assert_error_has("--optimizer fast and --overlap 0");
    assert_ok(PARSE("--optimizer", "gradient_averaging"));
    assert_int_equal(o.settings.overlap, OVERLAP_AUTO);
}

TEST(a_name_for_a_rule_with_options_may_be_given_for_the_servers_too)
{
    assert_ok(PARSE("--codec", "sgq", "--server_codec", "sgq"));
    assert_string_equal(o.codec, "ps");
    assert_string_equal(o.server_codec, "");
    assert_int_equal(PARSE("--codec", "fedavg", "--server_codec", "sgq"), ERR_USAGE);
    assert_error_has("--server_codec sgq: this name stands for options of the whole job; give --codec sgq");
    assert_ok(PARSE("--codec", "sgq", "--server_codec", "null"));
    assert_string_equal(o.server_codec, "null");
}

TEST(data_sets_have_the_names_of_parallel_sgd)
{
    assert_ok(PARSE("-D", "cifar"));
    assert_string_equal(o.settings.dataset, "cifar10");
    assert_ok(PARSE("-D", "cifar:a=1"));
    assert_string_equal(o.settings.dataset, "cifar10:a=1");
    assert_ok(PARSE("--dataset", "cifar100"));
    assert_string_equal(o.settings.dataset, "cifar100");
    assert_ok(PARSE("-D", "simlin"));
    assert_string_equal(o.settings.dataset, "simlin");
}

TEST(every_optimizer_has_its_own_defaults)
{
    static const struct {
        const char *kind;
        double learn_rate, weight_decay, momentum, beta1, beta2, epsilon;
    } cases[] = {
        {"sgd", 0.05, 0, 0, 0, 0, 0},
        {"momentum", 0.01, 0, 0.9, 0, 0, 0},
        {"nesterov", 0.01, 0, 0.9, 0, 0, 0},
        {"adam", 0.001, 0, 0, 0.9, 0.999, 1e-8},
        {"adamw", 0.001, 0.01, 0, 0.9, 0.999, 1e-8},
        {"adagrad", 0.01, 0, 0, 0, 0, 0},
        {"adadelta", 1, 0, 0, 0, 0, 0},
        {"rmsprop", 0.01, 0, 0, 0, 0, 0},
        {"rmsprop_graves", 1e-4, 0, 0.9, 0, 0, 0},
        {"gradient_decay", 0.03, 0, 0, 0, 0, 0},
        {"lion", 1e-4, 0, 0, 0.9, 0.99, 0},
        {"muon", 0.02, 0, 0.95, 0.9, 0.95, 1e-10},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_ok(PARSE("--gradient-descent", cases[i].kind));
        assert_true(o.settings.learn_rate == cases[i].learn_rate);
        assert_true(o.settings.weight_decay == cases[i].weight_decay);
        assert_true(o.settings.momentum == cases[i].momentum);
        assert_true(o.settings.beta1 == cases[i].beta1 && o.settings.beta2 == cases[i].beta2);
        assert_true(o.settings.epsilon == cases[i].epsilon);
        assert_ok(PARSE("--gradient-descent", cases[i].kind, "--learn_rate", "2", "--weight-decay", "0"));
        assert_true(o.settings.learn_rate == 2 && o.settings.weight_decay == 0);
        snprintf(o.settings.name, sizeof o.settings.name, "a");
        assert_ok(settings_check(&o.settings, &e));
    }
}

TEST(parameters_of_an_optimizer_apply_only_to_those_that_have_them)
{
    assert_ok(PARSE("--gradient-descent", "nesterov", "--momentum", "0.5"));
    assert_true(o.settings.momentum == 0.5);
    assert_int_equal(PARSE("--gradient-descent", "adam", "--momentum", "0.5"), ERR_USAGE);
    assert_string_equal(e.text, "--momentum: adam has no momentum; use --gradient-descent momentum, "
                                "nesterov, rmsprop_graves or muon");
    assert_int_equal(PARSE("--momentum", "0.9"), ERR_USAGE);
    assert_ok(PARSE("--momentum", "0"));
    assert_int_equal(PARSE("--gradient-descent", "momentum", "--momentum", "1"), ERR_USAGE);
    assert_ok(PARSE("--gradient-descent", "adamw", "--beta1", "0", "--beta2", "0.95", "--epsilon", "0"));
    assert_true(o.settings.beta1 == 0 && o.settings.beta2 == 0.95 && o.settings.epsilon == 0);
    assert_int_equal(PARSE("--gradient-descent", "lion", "--epsilon", "1e-8"), ERR_USAGE);
    assert_string_equal(e.text, "--epsilon: lion has no epsilon; use --gradient-descent adam, adamw or muon");
    assert_int_equal(PARSE("--gradient-descent", "adamw", "--adamw-rate", "0.1"), ERR_USAGE);
    assert_string_equal(e.text, "--adamw-rate: adamw has no adamw-rate; use --gradient-descent muon");
    assert_ok(PARSE("--gradient-descent", "lion", "--beta1", "0", "--beta2", "0")); /* signs of gradients */
    assert_true(o.settings.beta1 == 0 && o.settings.beta2 == 0);
    assert_int_equal(PARSE("--gradient-descent", "adam", "--beta1", "1"), ERR_USAGE);
}

TEST(the_minimum_number_of_nodes_needs_a_job_that_continues_after_losses)
{
    assert_ok(PARSE("--on-node-loss", "continue", "--node-count", "3", "--min-nodes", "2"));
    assert_int_equal(o.settings.min_nodes, 2);
    assert_int_equal(PARSE("--node-count", "3", "--min-nodes", "2"), ERR_USAGE);
    assert_error_has("--min-nodes needs --on-node-loss continue");
}

TEST(a_schedule_is_validated_before_anything_is_sent)
{
    assert_ok(PARSE("--schedule", "step:every=5,factor=0.1", "--warmup-steps", "100"));
    assert_string_equal(o.settings.schedule, "step:every=5,factor=0.1");
    assert_int_equal(o.settings.warmup_steps, 100);
    assert_int_equal(PARSE("--schedule", "cosine:5"), ERR_USAGE);
    assert_error_has("--schedule: cosine: \"5\" is not floor=SHARE");
    assert_int_equal(PARSE("--on-nonfinite", "ignore"), ERR_USAGE);
    assert_error_has("stop|skip");
}

TEST(adam_has_its_own_default_learning_rate)
{
    assert_ok(PARSE("--gradient-descent", "adam"));
    assert_true(o.settings.learn_rate == 0.001);
    assert_ok(PARSE("--learn_rate", "0.05", "--gradient-descent", "adam"));
    assert_true(o.settings.learn_rate == 0.05);
    assert_ok(PARSE("--epochs", "1"));
    assert_true(o.settings.learn_rate == 0.05);
}

TEST(long_options_are_not_abbreviated)
{
    assert_int_equal(PARSE("--node", "2"), ERR_USAGE);
    assert_non_null(strstr(e.hint, "--node_count"));
    assert_int_equal(PARSE("--epoch", "2"), ERR_USAGE);
    assert_non_null(strstr(e.hint, "--epochs"));
}

TEST(an_unknown_option_is_refused_with_the_nearest_one)
{
    assert_int_equal(PARSE("--node_cuont", "2"), ERR_USAGE);
    assert_non_null(strstr(e.hint, "--node_count"));
    assert_int_equal(PARSE("--psgd", "bsgd"), ERR_USAGE);
    assert_error_has("ssgd|asgd");
}

/* A typo of each choice of each option: one sentence that names the option, and the choice. */
TEST(a_typo_of_any_choice_is_refused_with_that_choice)
{
    int n_options = 0;

    options_defaults(&o);
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        bool has_choices = t->kind == ARGS_CHOICE || t->kind == ARGS_CHOICE_TEXT;
        char name[ARGS_NAME], typo[ARGS_NAME], hint[sizeof e.hint];

        args_name(name, t);
        for (const char *p = has_choices ? t->value : NULL; p; p = strchr(p, '|')) {
            p += *p == '|';
            snprintf(typo, sizeof typo, "%.*s~", (int)strcspn(p, "|"), p);
            snprintf(hint, sizeof hint, "Did you mean %.*s?", (int)strcspn(p, "|"), p);
            e.hint[0] = '\0';
            assert_int_equal(args_set(t, typo, &o, &e), ERR_USAGE);
            assert_error_has(name);
            assert_error_has("is not one of");
            assert_string_equal(e.hint, t->hint ? t->hint : hint);
        }
        n_options += has_choices;
    }
    assert_true(n_options > 20);
}

TEST(numbers_are_integers_within_their_range)
{
    static const char *const wrong[] = {"",      "x",   "2x", "1.5", "0",   "-1",
                                        "10001", "1e2", " 2", "nan", "inf", "0x2"};

    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(PARSE("--node_count", wrong[i]), ERR_USAGE);
        assert_error_has("--node_count");
    }
    assert_int_equal(PARSE("--learn_rate", "0"), ERR_USAGE);
    assert_int_equal(PARSE("--learn_rate", "nan"), ERR_USAGE);
    assert_ok(PARSE("--seed", "9007199254740992"));
    assert_true(o.settings.seed == UINT64_C(1) << 53);
}

TEST(a_number_out_of_range_is_distinguished_from_a_non_number)
{
    static const struct {
        const char *option, *text, *expected;
    } cases[] = {
        {"--epochs", "99999999999999999999", "99999999999999999999 is not between 1 and 1000000"},
        {"--epochs", "1e2", "is not an integer"},
        {"--epochs", "0x2", "is not a number"},
        {"--learn_rate", "0x2", "is not a number"},
        {"--learn_rate", "2 ", "is not a number"},
        {"--learn_rate", "inf", "inf is not between"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(PARSE(cases[i].option, cases[i].text), ERR_USAGE);
        assert_error_has(cases[i].expected);
    }
}

TEST(a_reason_is_limited_to_the_length_an_agent_accepts)
{
    char reason[202];
    const char *const arguments[] = {"j-abcdef", "--reason", reason, NULL};

    memset(reason, 'x', 201);
    reason[201] = '\0';
    assert_int_equal(parse(&o, FOR_CANCEL, &e, arguments), ERR_USAGE);
    reason[200] = '\0';
    assert_ok(parse(&o, FOR_CANCEL, &e, arguments));
    assert_string_equal(o.reason, reason);
}

TEST(an_option_measured_by_default_cannot_be_set_to_0)
{
    static const char *const names[] = {"--eval-time", "--codec-rate", "--gradients"};

    for (size_t i = 0; i < N_OF(names); i++) {
        const char *const arguments[] = {names[i], "0", NULL};

        assert_int_equal(parse(&o, FOR_SIMULATE, &e, arguments), ERR_USAGE);
        assert_error_has("0 is not between 1");
    }
}

TEST(a_value_is_required_exactly_where_an_option_takes_one)
{
    assert_int_equal(PARSE("--epochs"), ERR_USAGE);
    assert_error_has("needs a value");
    assert_int_equal(PARSE("-E"), ERR_USAGE);
    assert_int_equal(PARSE("--json=1"), ERR_USAGE);
    assert_error_has("takes no value");
    assert_int_equal(PARSE("--codec", ""), ERR_USAGE);
}

TEST(flags_that_every_verb_takes_may_come_before_it)
{
    assert_true(options_is_message_flag("-q"));
    assert_true(options_is_message_flag("-qv"));
    assert_true(options_is_message_flag("--json"));
    assert_true(options_is_message_flag("--quiet"));
    assert_false(options_is_message_flag("-o")); /* has a value, which could be a verb's name */
    assert_false(options_is_message_flag("-qo"));
    assert_false(options_is_message_flag("--codec"));
    assert_false(options_is_message_flag("--all"));
    assert_false(options_is_message_flag("-"));
    assert_false(options_is_message_flag("--"));
    assert_false(options_is_message_flag("list"));
}

TEST(a_verb_accepts_its_own_options_only)
{
    static const char *const follow[] = {"-f", "--node", "-2", "j-abcdef", NULL};

    assert_int_equal(PARSE("--follow"), ERR_USAGE);
    assert_ok(parse(&o, FOR_LOGS, &e, follow));
    assert_true(o.follow && o.has_node);
    assert_int_equal(o.node, -2);
    assert_int_equal(o.args.n_operands, 1);
    assert_string_equal(o.args.operands[0], "j-abcdef");
    assert_ok(PARSE("--", "--codec"));
    assert_string_equal(o.args.operands[0], "--codec");
}

TEST(run_json_contains_every_option_of_a_job)
{
    json_t *all;

    assert_ok(PARSE("--seed", "5"));
    all = options_json(&o);
    assert_string_equal(json_string_value(json_object_get(all, "seed")), "5");
    assert_string_equal(json_string_value(json_object_get(all, "codec")), "plain");
    assert_true(json_object_size(all) > 30);
    json_decref(all);
}

TEST(a_run_of_an_executor_has_its_own_options_and_none_of_training)
{
    json_t *all;

    assert_ok(
        parse(&o, FOR_RUN, &e, (const char *const[]){"--exec", "x.c", "--data", "d", "--", "-1", NULL}));
    assert_string_equal(o.data, "d");
    assert_int_equal(o.args.n_operands, 1);
    assert_string_equal(o.args.operands[0], "-1");
    all = options_json(&o);
    assert_non_null(json_object_get(all, "exec"));
    assert_non_null(json_object_get(all, "round-timeout"));
    assert_null(json_object_get(all, "epochs"));
    json_decref(all);
    assert_int_equal(parse(&o, FOR_RUN, &e, (const char *const[]){"--epochs", "2", NULL}), ERR_USAGE);
    assert_int_equal(PARSE("--exec", "x.c"), ERR_USAGE);
}

/* A folder with the run.json of a job with these arguments. */
static const char *folder_of(const char *const *arguments)
{
    const char *dir = unit_folder();
    char path[300];
    json_t *doc;
    char *text;

    assert_ok(parse(&o, FOR_SUBMIT, &e, arguments));
    doc = json_pack("{s:{s:o}}", "facts", "options", options_json(&o));
    text = json_dumps(doc, 0);
    assert_ok(file_join(path, sizeof path, dir, "run.json", &e));
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
    free(text);
    json_decref(doc);
    return dir;
}

TEST(a_resumed_job_keeps_its_options_except_those_that_may_change)
{
    const char *dir = folder_of(
        (const char *const[]){"--seed", "7", "-b", "16", "--non-iid", "--gradient-descent", "adam", "--psgd",
                              "asgd", "--init-from", "w", "--epochs", "3", "--workers", "README.md", NULL});

    assert_ok(PARSE("--resume", dir, "--epochs", "9", "--name", "more", "-q"));
    assert_int_equal(o.settings.seed, 7);
    assert_int_equal(o.settings.batch_size, 16);
    assert_true(o.settings.non_iid && o.quiet);
    assert_true(o.settings.learn_rate == 0.001);
    assert_int_equal(o.settings.sync, SYNC_ASGD);
    assert_string_equal(o.init_from, "");
    assert_string_equal(o.resume, dir);
    assert_int_equal(o.settings.epochs, 9);
    assert_string_equal(o.settings.name, "more");
    assert_ok(PARSE("--batch-size", "16", "--seed=7", "--non-iid", "--gradient-descent", "adam", "--psgd",
                    "asgd", "--resume", dir, "--epochs", "9"));
    assert_int_equal(o.settings.batch_size, 16);
    assert_true(o.settings.learn_rate == 0.001);
    assert_int_equal(PARSE("--batch-size", "17", "--resume", dir), ERR_USAGE);
    assert_error_has("--batch_size cannot be changed by --resume");
    assert_int_equal(PARSE("--gradient-descent", "sgd", "--resume", dir), ERR_USAGE);
    assert_error_has("--gradient-descent cannot be changed by --resume");
    assert_int_equal(PARSE("--init-from", "w", "--resume", dir), ERR_USAGE);
    assert_ok(parse(&o, FOR_PACK | FOR_RANKS, &e,
                    (const char *const[]){"--resume", dir, "--rank", "1", "--size", "2", NULL}));
    assert_int_equal(o.rank, 1);
    unit_remove(dir);
    assert_int_equal(PARSE("--resume", dir), ERR_NOT_FOUND);
}

TEST(a_resumed_job_finds_its_files_from_every_folder)
{
    const char *dir = folder_of((const char *const[]){"--data", "docs", "--model", "nn/models/softmax.json",
                                                      "--codec", "plain", "--workers", "README.md", NULL});
    char here[PATH_MAX], path[PATH_MAX + 32];

    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir("/"), 0);
    setenv("PSGD_WORKERS", "/another", 1);
    assert_ok(PARSE("--resume", dir));
    snprintf(path, sizeof path, "%s/docs", here);
    assert_string_equal(o.data, path);
    snprintf(path, sizeof path, "%s/nn/models/softmax.json", here);
    assert_string_equal(o.model, path);
    assert_string_equal(o.codec, "plain");
    snprintf(path, sizeof path, "%s/README.md", here);
    assert_string_equal(o.workers, path);
    assert_ok(PARSE("--resume", dir, "--workers", "mine", "--data", "there"));
    assert_string_equal(o.workers, "mine");
    assert_string_equal(o.data, "there");
    unsetenv("PSGD_WORKERS");
    assert_int_equal(chdir(here), 0);
    unit_remove(dir);
}

TEST(a_missing_file_of_the_earlier_job_is_reported_with_its_option)
{
    const char *dir = folder_of((const char *const[]){"--data", "gone.csv", "--workers", "README.md", NULL});

    assert_int_equal(PARSE("--resume", dir), ERR_NOT_FOUND);
    assert_error_has("/run.json: --data was /");
    assert_error_has("/gone.csv: No such file");
    assert_string_equal(e.hint, "Give its present path with --data FILE|DIR.");
    assert_ok(PARSE("--resume", dir, "--data", "docs"));
    unit_remove(dir);
}

/* Parses a command line of predict, and takes the options of a job. */
static void predict_of(const json_t *job, const char *const *args)
{
    assert_ok(parse(&o, FOR_PREDICT, &e, args));
    assert_ok(options_take_of_job(&o, FOR_PREDICT, job, &e));
}

TEST(predict_takes_model_and_data_of_the_job_unless_options_name_others)
{
    json_t *job = json_pack("{s:s, s:s, s:s, s:s, s:s}", "dataset", "csv:label=a", "data", "/dev/null",
                            "transform", "standard", "batch_size", "512", "epochs", "9");

    predict_of(job, (const char *const[]){"--transform", "unit", NULL});
    assert_string_equal(o.settings.dataset, "csv:label=a");
    assert_string_equal(o.data, "/dev/null");
    assert_string_equal(o.settings.transform, "unit");
    assert_int_equal(o.settings.batch_size, 512);
    assert_int_not_equal(o.settings.epochs, 9); /* no option of predict */
    predict_of(job, (const char *const[]){"--dataset", "csv:label=b", NULL});
    assert_string_equal(o.settings.dataset, "csv:label=b");
    assert_string_equal(o.data, "/dev/null");
    predict_of(job, (const char *const[]){"--dataset", "digits", NULL}); /* does not read the table */
    assert_string_equal(o.settings.dataset, "digits");
    assert_string_equal(o.data, "");
    json_decref(job);
}

TEST(hosts_take_the_place_of_a_list_and_all_of_them_work)
{
    assert_ok(PARSE("--worker_hosts", "a:1,b:2,c:3", "--ps-hosts", "d:4"));
    assert_int_equal(o.settings.node_count, 3);
    assert_string_equal(o.workers, "");
    assert_ok(PARSE("--worker_hosts", "a:1,b:2,c:3", "--node_count", "2"));
    assert_int_equal(o.settings.node_count, 2);
    assert_int_equal(PARSE("--worker_hosts", "a:1", "--workers", "w.json"), ERR_USAGE);
    assert_error_has("--workers and --worker_hosts: give the list of agents in one of these ways");
    assert_int_equal(PARSE("--ps_hosts", "d:4"), ERR_USAGE);
    assert_error_has("--ps_hosts needs --worker_hosts");
}

TEST(a_job_that_runs_again_keeps_its_hosts_unless_another_list_is_given)
{
    const char *dir = folder_of((const char *const[]){"--worker_hosts", "a:1,b:2", "--ps_hosts", "c:3", "-n1",
                                                      "--codec", "plain", NULL});

    assert_ok(PARSE("--resume", dir));
    assert_string_equal(o.worker_hosts, "a:1,b:2");
    assert_string_equal(o.ps_hosts, "c:3");
    assert_int_equal(o.settings.node_count, 1);
    assert_ok(PARSE("--resume", dir, "--workers", "README.md"));
    assert_string_equal(o.workers, "README.md");
    assert_string_equal(o.worker_hosts, "");
    assert_string_equal(o.ps_hosts, "");
    assert_ok(PARSE("--resume", dir, "--worker_hosts", "d:4", "--node_count", "1"));
    assert_string_equal(o.worker_hosts, "d:4");
    assert_string_equal(o.ps_hosts, "");
    unit_remove(dir);
}

TEST(a_wrong_value_of_any_choice_is_refused_with_the_valid_values)
{
    options_defaults(&o);
    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];

        if (t->kind != ARGS_CHOICE && t->kind != ARGS_CHOICE_TEXT)
            continue;
        assert_int_equal(args_set(t, "no such", &o, &e), ERR_USAGE);
        assert_error_has("\"no such\" is not one of");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(underscores_and_hyphens_are_equivalent),
        cmocka_unit_test(a_list_of_choices_is_no_choice),
        cmocka_unit_test(short_options_accept_attached_and_separate_values),
        cmocka_unit_test(spellings_of_parallel_sgd_are_accepted),
        cmocka_unit_test(optimizer_also_names_an_update_rule),
        cmocka_unit_test(double_buffering_is_an_exchange_that_overlaps),
        cmocka_unit_test(a_name_for_a_rule_with_options_may_be_given_for_the_servers_too),
        cmocka_unit_test(data_sets_have_the_names_of_parallel_sgd),
        cmocka_unit_test(every_optimizer_has_its_own_defaults),
        cmocka_unit_test(parameters_of_an_optimizer_apply_only_to_those_that_have_them),
        cmocka_unit_test(the_minimum_number_of_nodes_needs_a_job_that_continues_after_losses),
        cmocka_unit_test(a_schedule_is_validated_before_anything_is_sent),
        cmocka_unit_test(adam_has_its_own_default_learning_rate),
        cmocka_unit_test(long_options_are_not_abbreviated),
        cmocka_unit_test(an_unknown_option_is_refused_with_the_nearest_one),
        cmocka_unit_test(a_typo_of_any_choice_is_refused_with_that_choice),
        cmocka_unit_test(numbers_are_integers_within_their_range),
        cmocka_unit_test(a_number_out_of_range_is_distinguished_from_a_non_number),
        cmocka_unit_test(a_reason_is_limited_to_the_length_an_agent_accepts),
        cmocka_unit_test(an_option_measured_by_default_cannot_be_set_to_0),
        cmocka_unit_test(a_value_is_required_exactly_where_an_option_takes_one),
        cmocka_unit_test(flags_that_every_verb_takes_may_come_before_it),
        cmocka_unit_test(a_verb_accepts_its_own_options_only),
        cmocka_unit_test(run_json_contains_every_option_of_a_job),
        cmocka_unit_test(a_run_of_an_executor_has_its_own_options_and_none_of_training),
        cmocka_unit_test(a_resumed_job_keeps_its_options_except_those_that_may_change),
        cmocka_unit_test(a_resumed_job_finds_its_files_from_every_folder),
        cmocka_unit_test(a_missing_file_of_the_earlier_job_is_reported_with_its_option),
        cmocka_unit_test(predict_takes_model_and_data_of_the_job_unless_options_name_others),
        cmocka_unit_test(hosts_take_the_place_of_a_list_and_all_of_them_work),
        cmocka_unit_test(a_job_that_runs_again_keeps_its_hosts_unless_another_list_is_given),
        cmocka_unit_test(a_wrong_value_of_any_choice_is_refused_with_the_valid_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
