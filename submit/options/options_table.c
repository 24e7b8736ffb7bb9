#include "submit/options/options_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/plugin/isolation.h"
#include "shared/trainer/trainer_command.h"
#include "submit/compat/optimizer_names.h"
#include "submit/compat/presets.h"
#include "submit/data/data_sets.h"

#define FOR_MODEL_AND_DATA (FOR_JOB | FOR_PREDICT)

#define AT(m)    ARGS_AT(struct options, m)
#define GIVEN(m) .given = offsetof(struct options, m)
/* The option of a setting: complete() takes its type, range, choices and, if true, may_change from
 * shared/job/settings.c. */
#define SETTING(m) ARGS_FLAG, AT(settings.m)
#define SIM(m)     AT(simulation.m)

/* Parallel-SGD's option names stay valid; newer names are spelled with '-'. On the command line '-' and '_'
 * are the same. */
static struct args_option table[] = {
    {"exec", "", ARGS_PATH, AT(exec), FOR_RUN, JOB, "FILE",
     "the executor: a .c or a .so file (docs/executors.md)"},
    {"trainer", "", ARGS_PATH, AT(trainer), FOR_JOB, JOB, "FILE|DIR",
     "training program of your own, whose gradients or parameters are exchanged: a .py file, an executable, "
     "or "
     "a folder; its arguments follow -- (docs/trainer.md)",
     .may_change = true},
    {"main", "", ARGS_TEXT, AT(main), FOR_JOB, JOB, "NAME",
     "with --trainer DIR: the file in it that is run, else main.py"},
    {"trainer-python", "", ARGS_NAME_OR_PATH, AT(trainer_python), FOR_JOB, JOB, "NAME|FILE",
     "interpreter by which job_submit starts a --trainer in Python on this machine, to check it before it is "
     "sent, or to simulate its job",
     .may_change = true},
    {"node_count", "n", SETTING(node_count), FOR_JOB | FOR_RUN, JOB, "N", "workers of the job",
     .may_change = true},
    {"batch_size", "b", SETTING(batch_size), FOR_JOB, JOB, "N",
     "samples per step and block; a worker has one block, or several with --redundancy or --block-ratio"},
    {"accumulate", "", SETTING(accumulate), FOR_JOB, JOB, "N",
     "passes of --batch_size samples whose mean gradient is the block's in a step: a batch N times as large "
     "with the memory of one"},
    {"batch_size", "b", SETTING(batch_size), FOR_PREDICT, JOB, "N", "samples of one forward pass"},
    {"redundancy", "r", SETTING(redundancy), FOR_JOB, JOB, "N", "workers that hold each block"},
    {"codec", "Cc", ARGS_NAME_OR_PATH, AT(codec), FOR_JOB, JOB, "NAME|FILE",
     "rule by which nodes exchange updates: a name, a .c or a .so file, then :KEY=VALUE,... for its "
     "parameters; or a list with a codec for each layer, the last layer first (docs/compression.md)",
     .may_change = true},
    {"server_codec", "", ARGS_NAME_OR_PATH, AT(server_codec), FOR_JOB, JOB, "NAME|FILE",
     "codec of the servers; null: no servers", .may_change = true},
    {"compress", "", SETTING(compress), FOR_JOB, JOB, "CHAIN",
     "compression of workers' vectors: topk:ratio=0.01,ef=true, qsgd:bits=4|huffman, fp16, ...; by layer: "
     "layer0=fp16;*=tern"},
    {"compress-down", "", SETTING(compress_down), FOR_JOB, JOB, "CHAIN", "compression of servers' vectors"},
    {"optimizer", "O", ARGS_CHOICE_TEXT, AT(optimizer), FOR_JOB, JOB,
     OPTIMIZER_CHOICES_AND("|auto|psgd|parallel_sgd|gradient_averaging|pa|parameter_averaging" OPTIONS_LATE),
     "same as --gradient-descent; or, as in Parallel-SGD, what the codec must exchange: gradients or "
     "parameters; fast: gradients with --overlap 1"},
    {"parallel_sgd|psgd", "", SETTING(sync), FOR_JOB, JOB, NULL,
     "parallel stochastic gradient descent, synchronous or not"},
    {"learn_rate|lr", "", SETTING(learn_rate), FOR_JOB, JOB, "X", "learning rate", GIVEN(has_learn_rate)},
    {"epochs", "E", SETTING(epochs), FOR_JOB, JOB, "N", "passes over the training set"},
    {"max-steps", "", SETTING(max_steps), FOR_JOB, JOB, "N",
     "end after N steps of each worker, or with the last epoch if that is earlier; without --epochs the job "
     "has as many epochs as N steps take; 0: no limit"},
    {"max-mb", "", ARGS_U64, AT(max_mb), FOR_JOB, JOB, "N",
     "end after N mini-batches of all workers together, as in platoon: each worker computes its share of N, "
     "rounded up; 0: no limit",
     .min = 0, .max = 0x1p53, .may_change = true},
    {"max-tokens", "", ARGS_U64, AT(max_tokens), FOR_JOB, JOB, "N",
     "end after N tokens of all workers together, of a model of language: rounded up to whole steps; 0: no "
     "limit",
     .min = 0, .max = 0x1p53, .may_change = true},
    {"block_assignment", "", ARGS_CHOICE, AT(block_assignment), FOR_JOB, JOB, BLOCK_ASSIGNMENT_CHOICES "|dpa",
     "which worker holds which block"},
    {"block-ratio", "", SETTING(block_ratio), FOR_JOB, JOB, "N,N,...",
     "blocks of each worker, for machines of different speed: 2,1,1; contributions count by their samples"},
    {"feed", "", SETTING(feed), FOR_SUBMIT | FOR_PACK, JOB, NULL,
     "which mini-batches a worker computes: those of its own blocks, or the next one of a list that the "
     "first server keeps for all workers, so that a fast worker computes more"},
    {"gradient-descent", "", SETTING(optimizer), FOR_JOB, JOB, NULL,
     "optimizer: the formula that applies gradients to the parameters", GIVEN(has_gradient_descent)},
    {"schedule", "", SETTING(schedule), FOR_JOB, JOB, "TEXT",
     "learning rate schedule: constant, step:every=EPOCHS,factor=X, cosine, linear, sqrt; cosine:floor=X and "
     "linear:floor=X end at that share of the rate"},
    {"warmup-steps", "", SETTING(warmup_steps), FOR_JOB, JOB, "N",
     "steps over which the learning rate rises to its initial value"},
    {"momentum", "", SETTING(momentum), FOR_JOB, JOB, "X",
     "coefficient of momentum, nesterov, rmsprop_graves and muon", GIVEN(has_momentum)},
    {"beta1", "", SETTING(beta1), FOR_JOB, JOB, "X",
     "adam, adamw, and muon's adamw: share of the mean gradient that is kept in a step; lion: its "
     "share in the sign",
     GIVEN(has_beta1)},
    {"beta2", "", SETTING(beta2), FOR_JOB, JOB, "X",
     "adam, adamw, and muon's adamw: share of the mean squared gradient that is kept in a step; lion: "
     "that of the mean gradient",
     GIVEN(has_beta2)},
    {"epsilon", "", SETTING(epsilon), FOR_JOB, JOB, "X",
     "adam, adamw, and muon's adamw: added to the root by which a step is divided", GIVEN(has_epsilon)},
    {"adamw-rate", "", SETTING(adamw_rate), FOR_JOB, JOB, "X",
     "muon: learning rate of the tensors that adamw updates, such as biases, embeddings and the head; the "
     "schedule applies to it, too",
     GIVEN(has_adamw_rate)},
    {"weight-decay", "", SETTING(weight_decay), FOR_JOB, JOB, "X",
     "fraction of the weights added to the gradient; adamw, lion and muon: subtracted from the weights",
     GIVEN(has_weight_decay)},
    {"decay-of", "", SETTING(decay_of), FOR_JOB, JOB, NULL,
     "parameters that have the weight decay: all, or matrices, the tensors of two and more dimensions, so "
     "that biases and gains have none"},
    {"clip-norm", "", SETTING(clip_norm), FOR_JOB, JOB, "X",
     "largest gradient norm of an update; longer gradients are scaled down; 0: no limit"},
    {"on-nonfinite", "", SETTING(on_nonfinite), FOR_JOB, JOB, NULL,
     "a non-finite loss or gradient ends the job or is skipped"},
    {"dataset", "D", SETTING(dataset), FOR_MODEL_AND_DATA | FOR_DATA, JOB, "NAME",
     "data set, then :KEY=VALUE,... for its options; one of" DATA_SET_NAMES},
    {"data", "", ARGS_PATH, AT(data), FOR_MODEL_AND_DATA | FOR_DATA, JOB, "FILE|DIR",
     "the data set's file, or the folder with its files", .may_change = true},
    {"data", "", ARGS_PATH, AT(data), FOR_RUN, JOB, "FILE|DIR",
     "input of the executor, divided into a shard for each node: a file, or all files of a folder",
     .may_change = true},
    {"data-on-agent", "", SETTING(data_on_agent), FOR_JOB, JOB, "PATH",
     "a file of job_submit data tokenize that each agent reads where it is, below its --data-folder, and "
     "that is not sent; --data FILE: the same file here, if it is not at PATH",
     .may_change = true},
    {"transform", "", SETTING(transform), FOR_MODEL_AND_DATA, JOB, "LIST",
     "preprocessing of samples: unit|centre|standard[,crop=N][,flip]"},
    {"partition", "", SETTING(partition), FOR_JOB, JOB, "RULE",
     "how samples are divided among blocks: iid|label_sorted|true_non_iid:D|shards:N|dirichlet:A|labels:K|"
     "column:NAME",
     GIVEN(has_partition)},
    {"model", "m", ARGS_NAME_OR_PATH, AT(model), FOR_JOB, JOB, "NAME|FILE",
     "network; a name or a .json file; of a model of language also NAME:vocab=N,context=N, the tokens that "
     "it "
     "knows and reads",
     .may_change = true},
    {"non-iid", "", SETTING(non_iid), FOR_JOB, JOB, NULL, "the same as --partition label_sorted"},
    {"local-steps", "", SETTING(local_steps), FOR_JOB, JOB, "N",
     "steps between exchanges of parameters; 0: once per epoch"},
    {"seed", "", SETTING(seed), FOR_JOB, JOB, "N",
     "seed of the initial weights, the partition and the sample order"},
    {"prompt", "", ARGS_TEXT, AT(generation.prompt), FOR_GENERATE, JOB, "TEXT", "the beginning of the text"},
    {"tokens", "", ARGS_INT, AT(generation.tokens), FOR_GENERATE, JOB, "N",
     "tokens that follow, or fewer if the model ends the document", .min = 1, .max = 1000000},
    {"temperature", "", ARGS_NUMBER, AT(generation.temperature), FOR_GENERATE, JOB, "X",
     "tokens are drawn by their probabilities to the power of 1/X; 0: always the most probable one", .min = 0,
     .max = 1000},
    {"top-k", "", ARGS_INT, AT(generation.top_k), FOR_GENERATE, JOB, "K",
     "draw from the K most probable tokens only; 0: from all", .min = 0, .max = 1 << 24},
    {"top-p", "", ARGS_NUMBER, AT(generation.top_p), FOR_GENERATE, JOB, "P",
     "draw from the most probable tokens only: the fewest that together have the probability P", .min = 1e-9,
     .max = 1},
    {"seed", "", ARGS_U64, AT(generation.seed), FOR_GENERATE, JOB, "N",
     "seed by which tokens are drawn: the same one gives the same text", .min = 0, .max = 0x1p53},
    {"name", "", SETTING(name), FOR_JOB | FOR_RUN, JOB, "NAME", "display name of the job"},
    {"math", "", SETTING(math), FOR_MODEL_AND_DATA | FOR_GENERATE, JOB, NULL,
     "library for matrix products: the faster of OpenBLAS and oneDNN per shape, or OpenBLAS only; narrow "
     "products use built-in loops"},
    {"threads", "", SETTING(threads), FOR_MODEL_AND_DATA | FOR_GENERATE, JOB, "N",
     "threads of a node in a matrix product and in the optimizer's step, at most its number of processors"},
    {"placement", "", SETTING(placement), FOR_JOB, JOB, NULL,
     "which parameter server holds which parameters: ranges of equal length, or whole tensors in turn"},
    {"path", "", SETTING(path), FOR_JOB, JOB, NULL,
     "how the contributions of a rule that combines are exchanged; auto: the fastest path that the job "
     "allows"},
    {"aggregate", "", SETTING(aggregate), FOR_JOB, JOB, "HOW",
     "aggregate function of a rule that combines: mean|median|trimmed:F|krum:F|geomedian; all "
     "but the mean tolerate faulty workers (F: how many)"},
    {"overlap", "", SETTING(overlap), FOR_JOB, JOB, "N",
     "1: apply the result of a rule that combines one exchange late, so that workers compute while vectors "
     "are summed; 0: at once; auto: the rule's own value, 0 except for doublebuffer"},
    {"participate", "", SETTING(participate), FOR_JOB, JOB, "SHARE",
     "fraction of the workers, drawn at random for each round, that compute and contribute; the others wait "
     "for the result"},
    {"allreduce", "", SETTING(allreduce), FOR_JOB, JOB, NULL,
     "how vectors are summed over all workers; auto: by their length and the number of workers; mpi: by the "
     "all-reduce of the MPI of --transport mpi"},
    {"record-every", "", SETTING(record_every), FOR_JOB, JOB, "N", "steps per row of train.csv"},
    {"eval-every", "", SETTING(eval_every), FOR_JOB, JOB, "N",
     "steps between evaluations on the test set, besides those after each epoch; 0: none"},
    {"sample-prompt", "", ARGS_TEXT, AT(sample_prompt), FOR_SUBMIT | FOR_PACK, JOB, "TEXT",
     "of a model of language: at each evaluation worker 0 goes on with this text, by 200 tokens, which "
     "samples.csv and the page show",
     .may_change = true},
    {"target-accuracy", "", SETTING(target_accuracy), FOR_JOB, JOB, "X",
     "end when the accuracy of an evaluation on the test set, the mean over the workers, is X or more; 0: "
     "never"},
    {"patience", "", SETTING(patience), FOR_JOB, JOB, "K",
     "end after more than K bad evaluations on the test set since the best one, counted as by platoon "
     "(docs/training.md); 0: never"},
    {"round-timeout", "", SETTING(round_timeout_s), FOR_JOB | FOR_RUN, JOB, "S",
     "seconds that a node waits for a contribution to a round or for a message; a call of the codec, or an "
     "executor between two calls of its host, may take three quarters of that"},
    {"local-path", "", SETTING(local_path), FOR_SUBMIT | FOR_RUN | FOR_PACK, JOB, NULL,
     "shared memory between nodes of one machine; off: the transport"},
    {"transport", "", SETTING(transport), FOR_PACK | FOR_SLURM, JOB, NULL,
     "how the nodes exchange messages: by TCP, or by the MPI whose mpirun or srun starts them"},
    {"data-tls", "", SETTING(data_tls), FOR_SUBMIT | FOR_RUN | FOR_PACK, JOB, NULL,
     "encryption between nodes; auto: only between machines"},
    {"on-node-loss", "", SETTING(on_node_loss), FOR_JOB, JOB, NULL,
     "when a worker is lost: end the job, or continue without it"},
    {"min-nodes", "", SETTING(min_nodes), FOR_JOB, JOB, "N",
     "with --on-node-loss continue: minimum number of workers; with fewer the job ends"},
    {"time-limit", "", SETTING(time_limit_s), FOR_SUBMIT | FOR_RUN | FOR_PACK, JOB, "S",
     "seconds the job may run"},
    {"checkpoint-every", "", SETTING(checkpoint_every), FOR_SUBMIT | FOR_PACK, JOB, "N",
     "epochs between checkpoints; 0: none"},
    {"checkpoint-steps", "", SETTING(checkpoint_steps), FOR_SUBMIT | FOR_PACK, JOB, "N",
     "steps between checkpoints, in place of --checkpoint-every; 0: none"},
    {"init-from", "", ARGS_PATH, AT(init_from), FOR_SUBMIT | FOR_PACK, JOB, "FILE",
     "initial weights, a .safetensors file; else weights drawn from the seed"},
    {"resume", "", ARGS_PATH, AT(resume), FOR_SUBMIT | FOR_PACK, JOB, "DIR",
     "resume from the checkpoints in this result folder", .may_change = true},
    {"image-classification", "", ARGS_FLAG, AT(image_classification), FOR_SUBMIT, JOB, NULL,
     "accepted and ignored: the data set defines the task", .may_change = true},
    {"input", "I", ARGS_INT, AT(input), FOR_SUBMIT, JOB, "N",
     "accepted and ignored: the model file defines the input", .min = 0, .max = 1e9, .may_change = true},
    {"servers", "", ARGS_INT, AT(servers), FOR_PACK | FOR_SLURM, JOB, "N",
     "parameter servers: ranks after those of the workers", .min = 0, .max = NODES_MAX},
    {"rank", "", ARGS_INT, AT(rank), FOR_RANKS, JOB, "K",
     "number of this process, from 0: worker K, or from the number of workers on a server (as the launcher "
     "says)",
     .max = 2 * NODES_MAX, .may_change = true},
    {"size", "", ARGS_INT, AT(size), FOR_RANKS, JOB, "N", "number of processes (as the launcher says)",
     .min = 1, .max = 2 * NODES_MAX, .may_change = true},
    {"program-fd", "", ARGS_INT, AT(program_fd), FOR_RANKS, OUTPUT, "N",
     "descriptor of the socket of the --trainer that has started this process, which sets it", .min = 3,
     .max = 1 << 20},
    {"host", "", ARGS_TEXT, AT(host), FOR_RANKS, JOB, "ADDRESS",
     "name or address at which the other nodes reach this one (job_runner --job DIR --help)",
     .may_change = true},
    {"servers", "", ARGS_INT, AT(servers), FOR_SIMULATE, SIMULATED, "N", "parameter servers", .min = 0,
     .max = SIMULATED_NODES_MAX},
    {"gradients", "", ARGS_U64, SIM(gradients), FOR_SIMULATE, SIMULATED, "N",
     "stand-in gradients of N values instead of a network", .min = 1, .max = 1e9},
    {"steps", "", ARGS_INT, AT(steps), FOR_SIMULATE, SIMULATED, "N",
     "steps per epoch, with stand-in gradients", .min = 1, .max = 1e9},
    {"link", "", ARGS_TEXT, SIM(link), FOR_SIMULATE, SIMULATED, "RATE,LATENCY[,JITTER]",
     "network link of each worker: 100Mbit,20ms or any,0s"},
    {"server-link", "", ARGS_TEXT, SIM(server_link), FOR_SIMULATE, SIMULATED, "RATE,LATENCY[,JITTER]",
     "network link of each server, default: as the workers'"},
    {"step-time", "", ARGS_TEXT, SIM(step_time), FOR_SIMULATE, SIMULATED, "S[,S...]",
     "compute seconds per step, drawn at random from the list; else measured, or 0.01 with stand-in "
     "gradients"},
    {"eval-time", "", ARGS_NUMBER, SIM(eval_time_s), FOR_SIMULATE, SIMULATED, "S",
     "seconds of an evaluation on the test set, else measured", .min = 1e-9, .max = 1e6},
    {"codec-rate", "", ARGS_NUMBER, SIM(codec_rate_mbps), FOR_SIMULATE, SIMULATED, "MB",
     "megabytes per second a codec encodes or decodes, else measured", .min = 1e-6, .max = 1e9},
    {"overhead", "", ARGS_TEXT, SIM(overhead), FOR_SIMULATE, SIMULATED, "RATE,TIME",
     "processor cost of a message at each end, else measured: 12Gbit,5us or any,0s"},
    {"measured", "", ARGS_PATH, AT(measured), FOR_SIMULATE, SIMULATED, "FILE",
     "file of measured times: times of the same model, batch and nodes are taken from it, and others are "
     "measured and added; a sweep has one for its runs"},
    {"workers-per-machine", "", ARGS_INT, SIM(workers_per_machine), FOR_SIMULATE, SIMULATED, "N",
     "workers that run on one machine and share its link", .min = 1, .max = 1e6},
    {"processors", "", ARGS_INT, SIM(processors), FOR_SIMULATE, SIMULATED, "N",
     "processors shared by all nodes, as on one machine; 0: each node has its own", .min = 0, .max = 1e6},
    {"timing-seed", "", ARGS_U64, SIM(timing_seed), FOR_SIMULATE, SIMULATED, "N",
     "seed of the times of steps and messages that are drawn; 0: the job's seed; all runs "
     "of a sweep have the same",
     .min = 0, .max = 1e15},
    {"client-processes", "", ARGS_INT, SIM(client_processes), FOR_SIMULATE, SIMULATED, "N",
     "processes of --trainer, which compute for all workers in turn; 0: as many as this machine has "
     "processors",
     .min = 0, .max = 1024},
    {"speed", "", ARGS_TEXT, SIM(speed), FOR_SIMULATE, SIMULATED, "X|X-Y|NODE=X,...",
     "relative speed of the nodes: 2 is twice as fast; X-Y: drawn at random for each node"},
    {"straggler", "", ARGS_TEXT, SIM(straggler), FOR_SIMULATE, SIMULATED, "SHARE:FACTOR",
     "fraction of the steps that take FACTOR times as long"},
    {"kill", "", ARGS_TEXT, SIM(kill), FOR_SIMULATE, SIMULATED, "NODE@TIME,...",
     "nodes that are killed, and when: 3@1.5s"},
    {"cut", "", ARGS_TEXT, SIM(cut), FOR_SIMULATE, SIMULATED, "NODES|NODES@FROM-TO,...",
     "network partition between two groups of nodes: 0-3|4-7@2s-5s"},
    {"exhaustive", "", ARGS_FLAG, SIM(exhaustive), FOR_SIMULATE, SIMULATED, NULL,
     "try every order of message delivery; for at most 3 workers and few steps"},
    {"replay", "", ARGS_TEXT, SIM(replay), FOR_SIMULATE, SIMULATED, "ORDER",
     "run one order of message delivery, as reported by --exhaustive"},
    {"config", "", ARGS_PATH, AT(config), FOR_JOB, WHERE, "FILE",
     "JSON file with options by their names, or the run.json of an earlier run, to repeat it; options of the "
     "command line take precedence"},
    {"set", "", ARGS_LIST, AT(sets), FOR_RERUN | FOR_JOB, JOB, "KEY=VALUE",
     "value of an option of the job, as epochs=20; may be repeated; for a sweep several values: "
     "KEY=VALUE,VALUE,... or KEY=[\"VALUE\",...]"},
    {"repeat", "", ARGS_INT, AT(repeat), FOR_SWEEP, JOB, "N",
     "runs of each combination, with the seeds 1 to N, or from --seed", .min = 1, .max = 10000},
    {"search", "", ARGS_CHOICE_TEXT, AT(search), FOR_SWEEP, JOB, "grid|random|halving",
     "which combinations a sweep runs: grid: all; random: as many as --budget; halving: all, or as many as "
     "--budget, for a part of --epochs or --max-steps, then the better half of each group of --best-of for "
     "twice as long, and so on"},
    {"budget", "", ARGS_INT, AT(budget), FOR_SWEEP, JOB, "N",
     "run N combinations, drawn at random by --seed, instead of all; a larger N adds "
     "some to these",
     .min = 1, .max = 10000},
    {"best-of", "", ARGS_TEXT, AT(best_of), FOR_SWEEP, JOB, "KEY[,KEY...]",
     "options of --set of which only the best values are compared, each rule at its best rate: with a target "
     "the value of which most runs reach it, with the fewest bytes, else that of the highest accuracy"},
    {"parallel", "", ARGS_TEXT, AT(parallel), FOR_SWEEP, JOB, "N|auto",
     "run N jobs of the sweep at once, each on other agents of the list; auto: as many as the list has "
     "agents "
     "for"},
    {"simulate", "", ARGS_FLAG, AT(simulate), FOR_SWEEP, JOB, NULL,
     "run the jobs in the simulator instead of on agents"},
    {"workers|worker", "", ARGS_PATH, AT(workers),
     FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_DOCTOR | FOR_BROWSE | FOR_LIST | FOR_STATUS, WHERE, "FILE",
     "file with the list of the agents' addresses; list and status also show the jobs of other users that "
     "these agents report"},
    {"port", "", ARGS_INT, AT(port), FOR_BROWSE, WHERE, "N", "port of the page on 127.0.0.1; 0: a free one",
     .min = 0, .max = 65535},
    {"no-open", "", ARGS_FLAG, AT(no_open), FOR_BROWSE, WHERE, NULL,
     "print the page's address only, and start no browser"},
    {"worker_hosts", "", ARGS_TEXT, AT(worker_hosts), FOR_SUBMIT | FOR_RERUN | FOR_DOCTOR, WHERE,
     "HOST:PORT,...", "instead of --workers, as in TensorFlow: the workers' agents; all of them are used"},
    {"ps_hosts", "", ARGS_TEXT, AT(ps_hosts), FOR_SUBMIT | FOR_RERUN | FOR_DOCTOR, WHERE, "HOST:PORT,...",
     "with --worker_hosts: the parameter servers' agents"},
    {"job_name", "", ARGS_CHOICE_TEXT, AT(job_name), FOR_LAUNCH, WHERE, "ps|worker",
     "the list of hosts that this task is in"},
    {"task_index", "", ARGS_INT, AT(task_index), FOR_LAUNCH, WHERE, "I",
     "number of this task in that list, from 0; worker 0 is the chief, which submits the job", .min = 0,
     .max = NODES_MAX},
    {"task-timeout", "", ARGS_NUMBER, AT(task_timeout_s), FOR_LAUNCH, WHERE, "S",
     "seconds that the chief waits for the agents of the other tasks, and the other tasks for the chief's "
     "job",
     .min = 1, .max = 1e6},
    {"token-file", "", ARGS_PATH, AT(credentials.token_file), FOR_AGENTS, WHERE, "FILE",
     "file with the agents' token"},
    {"ca", "", ARGS_PATH, AT(credentials.ca), FOR_AGENTS, WHERE, "FILE",
     "certificates of CAs, in PEM: instead of a pin, an agent needs a certificate of one of these CAs with "
     "its name"},
    {"cert", "", ARGS_PATH, AT(credentials.cert), FOR_AGENTS, WHERE, "FILE",
     "with --ca: this user's certificate, in PEM, instead of a token"},
    {"key", "", ARGS_PATH, AT(credentials.key), FOR_AGENTS, WHERE, "FILE", "private key of --cert, in PEM"},
    {"insecure-no-tls", "", ARGS_FLAG, AT(credentials.insecure_no_tls), FOR_AGENTS, WHERE, NULL,
     "send the token unencrypted to other machines too"},
    {"connect", "", ARGS_FLAG, AT(connect), FOR_DOCTOR, WHERE, NULL,
     "also run a job of a few steps, to check that all nodes can reach each other"},
    {"require-isolation", "", ARGS_CHOICE, AT(require_isolation), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_PACK,
     WHERE, ISOLATION_CHOICES,
     "minimum isolation of the codec on every agent (SECURITY.md); else what each agent requires"},
    {"no-queue", "", ARGS_FLAG, AT(no_queue), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE, NULL,
     "end with exit status 4 instead of waiting for a busy agent"},
    {"agent-timeout", "", ARGS_NUMBER, AT(agent_timeout_s), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_WAIT,
     WHERE, "S", "seconds without an answer from an agent after which its node is lost", .min = 0.1,
     .max = 1e6},
    {"retries", "", ARGS_INT, AT(retries), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE, "N",
     "further attempts after a failure that --retry-on names, each from the last checkpoint that all nodes "
     "have",
     .min = 0, .max = RETRIES_MAX,
     .elsewhere = "A job in a folder is started again by what has started it: job_submit --slurm OPTIONS "
                  "--retries N, or torchrun --max-restarts N."},
    {"retry-on", "", ARGS_TEXT, AT(retry_on), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE, RETRY_ON_NAMES,
     "with --retries: reasons of a failure for which the job is tried again; a killed runner (runner_died, "
     "oom) and a training program's end (trainer_failed) are none by default"},
    {"network-bandwidth", "", ARGS_NUMBER, AT(bandwidth_mbps), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE,
     "MBIT", "network bandwidth in Mbit/s, for the estimate of shipping time", .min = 1e-3, .max = 1e9},
    {"timeout", "", ARGS_NUMBER, AT(timeout_s), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_WAIT | FOR_SIMULATE,
     WHERE, "S", "end this command after S seconds (status 5); a job that has started continues; 0: never",
     .min = 0, .max = 1e9,
     .elsewhere =
         "job_runner --job DIR --timeout S says how long the processes of a job folder wait for each "
         "other; pack writes one."},
    {"slurm", "", ARGS_TEXT, AT(slurm), FOR_SLURM, WHERE, "OPTIONS",
     "submit the job to Slurm with these options of sbatch, as \"-N 8 -t 2:00:00\", without agents; -o DIR "
     "is "
     "then the job folder (docs/clusters.md)"},
    {"kubernetes", "", ARGS_TEXT, AT(kubernetes), FOR_PACK, WHERE, "IMAGE",
     "also write kubernetes.json into the job folder, for kubectl: an Indexed Job and a headless Service, "
     "whose pods run the job from this image (docs/clusters.md)"},
    {"volume", "", ARGS_TEXT, AT(volume), FOR_PACK, WHERE, "CLAIM|/PATH",
     "with --kubernetes: the PersistentVolumeClaim, ReadWriteMany, in which the job folder lies under its "
     "own "
     "name, or CLAIM/PATH; or the job folder's path on every node of the cluster"},
    {"namespace", "", ARGS_TEXT, AT(name_space), FOR_PACK, WHERE, "NAME",
     "with --kubernetes: the namespace of the job (that of kubectl)"},
    {"memory", "", ARGS_INT, AT(pod_memory_gib), FOR_PACK, WHERE, "N",
     "with --kubernetes: GiB of memory that a pod asks for, and may use", .min = 1, .max = 1 << 20},
    {"detach", "", ARGS_FLAG, AT(detach), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE, NULL,
     "put the job into the queue and return; its id is printed, with --json in an object. With --no-queue: "
     "return once the job has started",
     .elsewhere =
         "A launcher decides whether it waits for a job in a folder, as srun does and sbatch does not; "
         "job_submit --slurm OPTIONS --detach submits such a job and returns."},
    {"priority", "", ARGS_INT, AT(priority), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_QUEUE, WHERE, "N",
     "with --detach, or move: of a user's waiting jobs those with a higher priority are tried first",
     .min = -100, .max = 100, GIVEN(has_priority)},
    {"queue-space", "", ARGS_NUMBER, AT(queue_space_gib), FOR_SUBMIT | FOR_RUN | FOR_RERUN, WHERE, "GIB",
     "with --detach: most disk space of the files of the user's waiting jobs, with this one", .min = 0,
     .max = 1e6},
    {"retrieve|retrieve_data", "", ARGS_FLAG, AT(retrieve), FOR_SUBMIT, WHERE, NULL,
     "submit nothing: fetch the results of the latest job, or of the one named"},
    {"reason", "", ARGS_TEXT, AT(reason), FOR_CANCEL, WHERE, "TEXT", "reason that the agents record"},
    {"follow", "f", ARGS_FLAG, AT(follow), FOR_LOGS, WHERE, NULL, "keep printing as the logs grow"},
    {"node", "", ARGS_INT, AT(node), FOR_LOGS, WHERE, "N", "print the log of this node only",
     .min = -NODES_MAX - 1, .max = NODES_MAX, GIVEN(has_node)},
    {"node", "", ARGS_INT, AT(node), FOR_SNAPSHOT | FOR_GENERATE, WHERE, "N",
     "of a running job the model of this node instead of worker 0", .min = -NODES_MAX - 1, .max = NODES_MAX,
     GIVEN(has_node)},
    {"to", "", ARGS_PATH, AT(to), FOR_DATA, WHERE, "DIR", "fetch: folder for the files"},
    {"mirror", "", ARGS_TEXT, AT(mirror), FOR_DATA, WHERE, "URL",
     "fetch: URL of the folder to download from"},
    {"check", "", ARGS_TEXT, AT(check), FOR_CODECS, CHECKED, "NAME", "test: run only this check"},
    {"seed", "", ARGS_U64, AT(part), FOR_CODECS, CHECKED, "N",
     "test: run only the part of the check with this seed, as reported by a failure", .min = 0,
     .max = 0x1p53},
    {"mutations", "", ARGS_U64, AT(mutations), FOR_CODECS, CHECKED, "N", "test: number of messages to mutate",
     .min = 0, .max = 1e9, GIVEN(has_mutations)},
    {"tag", "", ARGS_LIST, AT(tags), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_SIMULATE | FOR_PACK | FOR_LIST,
     RESULTS, "TAG",
     "a word to find the job by, kept in run.json; may be repeated; list: show only jobs with all these "
     "tags"},
    {"all", "", ARGS_FLAG, AT(all), FOR_LIST, RESULTS, NULL,
     "list every job, also hidden and deleted ones, not only the last 20; --tag and --json list all but "
     "these"},
    {"note", "", ARGS_TEXT, AT(note), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_SIMULATE | FOR_PACK, RESULTS,
     "TEXT", "what the job is for, kept in run.json and shown by list"},
    {"x", "", ARGS_CHOICE_TEXT, AT(plot_x), FOR_PLOT, RESULTS, "step|epoch|time|bytes|tokens",
     "quantity of the x axis; bytes: sent plus received by a worker; tokens: of text, of all workers"},
    {"log-x", "", ARGS_CHOICE_TEXT, AT(log_x), FOR_PLOT, RESULTS, "auto|yes|no",
     "whether the x axis is logarithmic; auto: for bytes, if some runs end at ten times the bytes of others"},
    {"y", "", ARGS_TEXT, AT(plot_y), FOR_PLOT, RESULTS, "COLUMN",
     "quantity of the y axis: a column of the file, or a name in codec.csv or metrics.csv"},
    {"file", "", ARGS_CHOICE_TEXT, AT(plot_file), FOR_PLOT, RESULTS, "eval|train|codec|metrics",
     "the file of records that has this quantity"},
    {"png", "", ARGS_PATH, AT(png), FOR_PLOT, RESULTS, "FILE",
     "write a picture, drawn by gnuplot; -: to standard output"},
    {"svg", "", ARGS_PATH, AT(svg), FOR_PLOT, RESULTS, "FILE", "the same as SVG"},
    {"width", "", ARGS_INT, AT(plot_width), FOR_PLOT, RESULTS, "N",
     "width in characters, else that of the terminal; of a picture in pixels, else 960", .min = 20,
     .max = 10000},
    {"height", "", ARGS_INT, AT(plot_height), FOR_PLOT, RESULTS, "N",
     "height in lines, else 24; of a picture in pixels, else 600", .min = 6, .max = 10000},
    {"target", "", ARGS_NUMBER, AT(target), FOR_COMPARE | FOR_SWEEP, RESULTS, "X",
     "accuracy for which the seconds, bytes and steps to reach it are shown, else the highest that all runs "
     "reached",
     .min = 0, .max = 1, GIVEN(has_target)},
    {"output", "o", ARGS_PATH, AT(output),
     FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_WAIT | FOR_FETCH | FOR_SIMULATE, RESULTS, "DIR",
     "folder for the results, else logs/ID-NAME; of a job folder DIR/results"},
    {"output", "o", ARGS_PATH, AT(output), FOR_PACK, RESULTS, "DIR", "the job folder, which is made"},
    {"output", "o", ARGS_PATH, AT(output), FOR_MODEL | FOR_SNAPSHOT, RESULTS, "FILE",
     "file to write; -: standard output"},
    {"output", "o", ARGS_PATH, AT(output), FOR_DATA, RESULTS, "FILE", "tokenize: file of tokens to write"},
    {"output", "o", ARGS_PATH, AT(output), FOR_PREDICT, RESULTS, "FILE",
     "table to write, else predictions.csv; -: standard output"},
    {"output", "o", ARGS_PATH, AT(output), FOR_GENERATE, RESULTS, "FILE",
     "file to write: the bytes of the text as they are; else it is printed, with ? for what is no text"},
    {"split", "", ARGS_CHOICE_TEXT, AT(split), FOR_PREDICT, RESULTS, "test|train",
     "half of the data set to predict; else all of --data, or, without --data, the test half of the job's "
     "data set"},
    {"to", "", ARGS_CHOICE_TEXT, AT(format), FOR_MODEL, RESULTS, "npz|onnx", "what to convert to"},
    {"to", "", ARGS_CHOICE_TEXT, AT(format), FOR_EXPORT, RESULTS, "tensorboard|mlflow",
     "the program that reads it"},
    {"output", "o", ARGS_PATH, AT(output), FOR_EXPORT, RESULTS, "DIR",
     "folder to write to, else tensorboard/ in the results, or mlruns/ here"},
    {"tensorboard", "", ARGS_FLAG, AT(tensorboard),
     FOR_SUBMIT | FOR_RERUN | FOR_WAIT | FOR_FETCH | FOR_SIMULATE, RESULTS, NULL,
     "also write TensorBoard's event files, to tensorboard/ in the results", .may_change = true},
    {"mlflow", "", ARGS_PATH, AT(mlflow), FOR_SUBMIT | FOR_RERUN | FOR_WAIT | FOR_FETCH | FOR_SIMULATE,
     RESULTS, "DIR", "also add the job to the folders of MLflow's file store there, as mlruns",
     .may_change = true},
    {"trace", "", ARGS_PATH, AT(trace), FOR_SUBMIT | FOR_RUN | FOR_RERUN | FOR_PACK | FOR_WAIT | FOR_FETCH,
     RESULTS, "FILE", "write a trace of each node's time, for ui.perfetto.dev", .may_change = true},
    {"csv-style", "", ARGS_CHOICE_TEXT, AT(csv_style), FOR_SUBMIT | FOR_RERUN | FOR_WAIT | FOR_FETCH, RESULTS,
     CSV_STYLES,
     "also write Parallel-SGD's files and logs to the current folder: classic: T-, E- and tmp_log/; "
     "classic-0.9: those of its later version, in Node-ID-Retrieve/",
     GIVEN(has_csv_style)},
    {"json", "", ARGS_FLAG, AT(json), FOR_ALL, OUTPUT, NULL, "one JSON object on stdout"},
    {"quiet", "q", ARGS_FLAG, AT(quiet), FOR_ALL, OUTPUT, NULL,
     "print only errors and results: of a job its table, warnings and folder; of a list the ids or names, "
     "one per line, for scripts"},
    {"verbose", "v", ARGS_COUNT, AT(verbose), FOR_ALL, OUTPUT, NULL, "print more messages"},
    {"no-color", "", ARGS_FLAG, AT(no_color), FOR_ALL, OUTPUT, NULL, "no colors"},
    {"help", "h", ARGS_FLAG, AT(help), FOR_ALL, OUTPUT, NULL, "this text"},
    {"version", "V", ARGS_FLAG, AT(version), FOR_ALL, OUTPUT, NULL, "version"},
};

static const char *const groups[] = {"The job", "Simulation", "Codec test", "Where and how long",
                                     "Results", "Messages",   NULL};

const struct args options_table = {"job_submit help VERB lists the options of a verb.", table,
                                   sizeof table / sizeof *table, groups};
_Static_assert(sizeof table / sizeof *table <= ARGS_MAX, "ARGS_MAX holds every option");

static void complete(void)
{
    static const enum args_kind kinds[] = {
        [JSON_FIELD_TEXT] = ARGS_TEXT, [JSON_FIELD_CHOICE] = ARGS_CHOICE, [JSON_FIELD_INT] = ARGS_INT,
        [JSON_FIELD_U64] = ARGS_U64,   [JSON_FIELD_DOUBLE] = ARGS_NUMBER, [JSON_FIELD_BOOL] = ARGS_FLAG};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct args_option *t = &table[i];
        const struct json_field *f = settings_field(t->offset - offsetof(struct options, settings));

        if (!f)
            continue;
        t->kind = kinds[f->kind];
        t->min = f->min;
        t->max = f->max;
        t->value = f->choices ? f->choices : t->value;
        t->may_change |= f->may_change;
    }
}

static void set_defaults(struct options *o)
{
    const char *workers = getenv("PSGD_WORKERS");

    *o = (struct options){.bandwidth_mbps = 100,
                          .agent_timeout_s = 10,
                          .task_timeout_s = 300,
                          .queue_space_gib = 64,
                          .steps = 10,
                          .mutations = 1000000,
                          .rank = -1,
                          .size = -1,
                          .generation = {.tokens = 200, .temperature = 1, .top_p = 1, .seed = 1},
                          .require_isolation = -1};
    simulation_default(&o->simulation);
    settings_default(&o->settings);
    o->settings.name[0] = '\0';
    snprintf(o->codec, sizeof o->codec, "%s", o->settings.codec);
    snprintf(o->model, sizeof o->model, "%s", o->settings.model);
    snprintf(o->workers, sizeof o->workers, "%s", workers && workers[0] ? workers : OPTIONS_WORKERS);
    strcpy(o->trainer_python, TRAINER_PYTHON);
    strcpy(o->optimizer, "auto");
    strcpy(o->csv_style, "tidy");
    strcpy(o->split, "test");
    strcpy(o->plot_x, "step");
    strcpy(o->log_x, "auto");
    strcpy(o->plot_y, "loss");
    strcpy(o->plot_file, "eval");
    strcpy(o->retry_on, RETRY_ON_DEFAULT);
    strcpy(o->reason, "cancelled by the submitter");
}

bool options_is_given(const struct options *o, size_t offset)
{
    for (int i = 0; i < options_table.n; i++)
        if (table[i].offset == offset)
            return o->args.given[i];
    return false;
}

static const struct args_option *find_option(size_t offset)
{
    const struct args_option *t = table;

    while (t->offset != offset) {
        t++;
        assert(t < table + sizeof table / sizeof *table);
    }
    return t;
}

bool options_is_chosen(const struct options *o, size_t offset)
{
    const struct args_option *t = find_option(offset);
    char now[PATH_MAX], unset[PATH_MAX];
    struct options defaults;

    if (!options_is_given(o, offset) && !o->rerun_of[0])
        return false;
    set_defaults(&defaults);
    args_text(now, sizeof now, t, o);
    args_text(unset, sizeof unset, t, &defaults);
    return strcmp(now, unset) != 0;
}

void options_name(char out[ARGS_NAME], size_t offset)
{
    args_name(out, find_option(offset));
}

void options_defaults(struct options *o)
{
    complete();
    set_defaults(o);
}

const char *options_output(const struct options *o)
{
    return o->is_to_stdout ? "standard output" : o->output;
}

void options_help(FILE *f, uint64_t verb)
{
    struct options defaults;

    options_defaults(&defaults);
    args_help(f, &options_table, verb, &defaults);
}

/* Whether the option names further options, in a file or as KEY=VALUE. */
static bool is_source(const struct args_option *t)
{
    return t->offset == offsetof(struct options, config) || t->offset == offsetof(struct options, sets);
}

/* Whether run.json has the option as a label of the job, under facts, and not among its options. */
static bool is_label(const struct args_option *t)
{
    return t->offset == offsetof(struct options, tags) || t->offset == offsetof(struct options, note);
}

bool options_is_shown(const struct options *o, const struct args_option *t)
{
    return (t->verbs & (o->exec[0] ? FOR_RUN : FOR_SUBMIT)) && t->group != OUTPUT && !is_source(t) &&
           !is_label(t);
}

bool options_in_config(const struct args_option *t, uint64_t verb)
{
    return (t->verbs & verb) && t->group != OUTPUT && !is_source(t) &&
           t->offset != offsetof(struct options, retrieve);
}

void options_config_key(char out[ARGS_NAME], const struct args_option *t)
{
    args_name(out, t);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : *c;
}

const char *options_setting_key(const struct args_option *t)
{
    const struct json_field *f = settings_field(t->offset - offsetof(struct options, settings));

    return f ? f->key : NULL;
}

/* Whether the option sets the setting with this key of n characters, or has it as its name: "block_ratio" is
 * --block-ratio. */
static bool is_of_setting(const struct args_option *t, const char *key, size_t n)
{
    const char *own = options_setting_key(t);
    char name[ARGS_NAME];

    options_config_key(name, t);
    own = own ? own : name;
    return strlen(own) == n && memcmp(own, key, n) == 0;
}

int options_setting_error(struct err *e)
{
    size_t n = strcspn(e->text, ":");
    struct err rest = *e;
    char name[ARGS_NAME];

    for (int i = 0; i < options_table.n && e->text[0] == '/'; i++) {
        const struct args_option *t = &options_table.options[i];

        if (!is_of_setting(t, e->text + 1, n - 1))
            continue;
        args_name(name, t);
        err_set(e, rest.code, "--%s%.900s", name, rest.text + n);
        memcpy(e->hint, rest.hint, sizeof e->hint);
        return e->code;
    }
    return err_at(e, "settings");
}

static bool is_message_flag(const struct args_option *t)
{
    return t->group == OUTPUT && (t->kind == ARGS_FLAG || t->kind == ARGS_COUNT) && t->verbs == FOR_ALL;
}

static bool is_short(char c)
{
    for (int i = 0; i < options_table.n; i++)
        if (is_message_flag(&options_table.options[i]) && strchr(options_table.options[i].shorts, c))
            return true;
    return false;
}

bool options_is_message_flag(const char *arg)
{
    char name[ARGS_NAME];

    if (arg[0] != '-' || !arg[1])
        return false;
    if (arg[1] != '-') {
        while (*++arg)
            if (!is_short(*arg))
                return false;
        return true;
    }
    for (int i = 0; i < options_table.n; i++) {
        args_name(name, &options_table.options[i]);
        if (is_message_flag(&options_table.options[i]) && strcmp(arg + 2, name) == 0)
            return true;
    }
    return false;
}
