/* combine_path_kinds -- the paths that contributions of a rule that combines (struct codec_combine) can take.
 * A path is a line here and a file in runner/exchange/paths/; shared/plugin/combine_path.c says which jobs
 * cannot use it.
 *
 *   allreduce   a collective of all workers (shared/job/allreduce_kinds.h), or shared memory
 *   tree        the same inside each machine, then between one worker of each
 *   gather      every worker sends its contribution to every other and combines them itself
 *   servers     parameter servers combine, each a range of the vectors */
#ifndef PSGD_COMBINE_PATH_KINDS_H
#define PSGD_COMBINE_PATH_KINDS_H

/* Constant, name, object. */
#define COMBINE_PATHS(P)                                                                                     \
    P(COMBINE_PATH_ALLREDUCE, "allreduce", path_allreduce)                                                   \
    P(COMBINE_PATH_TREE, "tree", path_tree)                                                                  \
    P(COMBINE_PATH_GATHER, "gather", path_gather)                                                            \
    P(COMBINE_PATH_SERVERS, "servers", path_servers)

#define COMBINE_PATH_CONSTANT(constant, name, object) constant,
#define COMBINE_PATH_NAME(constant, name, object)     [constant] = name,
#define COMBINE_PATH_CHOICE(constant, name, object)   "|" name
#define COMBINE_PATH_OBJECT(constant, name, object)   [constant] = &(object),

enum combine_path_kind { COMBINE_PATH_AUTO, COMBINE_PATHS(COMBINE_PATH_CONSTANT) COMBINE_PATH_KINDS };

/* The names, in the order of the enum, as in shared/base/choice.h. */
#define COMBINE_PATH_CHOICES "auto" COMBINE_PATHS(COMBINE_PATH_CHOICE)

/* How many exchanges later than its contributions a combination is applied (--overlap): as many as the rule
 * says, none, or one. */
enum overlap { OVERLAP_AUTO, OVERLAP_NONE, OVERLAP_ONE };
#define OVERLAP_CHOICES "auto|0|1"

#endif
