/* path_kinds -- the paths that contributions of a rule that combines (struct codec_combine) can take: each is
 * a line here, and a file in runner/exchange/paths/. Its limits are those of codec_load.h.
 *
 *   allreduce   a collective of all workers (shared/job/allreduce_kinds.h), or shared memory
 *   tree        the same inside each machine, then between one worker of each
 *   gather      every worker sends its contribution to every other and combines them itself
 *   servers     parameter servers combine, each a range of the vectors */
#ifndef PSGD_PATH_KINDS_H
#define PSGD_PATH_KINDS_H

/* Constant, name, object. */
#define PATHS(P)                                                                                             \
    P(PATH_ALLREDUCE, "allreduce", path_allreduce)                                                           \
    P(PATH_TREE, "tree", path_tree)                                                                          \
    P(PATH_GATHER, "gather", path_gather)                                                                    \
    P(PATH_SERVERS, "servers", path_servers)

#define PATH_CONSTANT(constant, name, object) constant,
#define PATH_NAME(constant, name, object)     [constant] = name,
#define PATH_CHOICE(constant, name, object)   "|" name
#define PATH_OBJECT(constant, name, object)   [constant] = &(object),

enum path_kind { PATH_AUTO, PATHS(PATH_CONSTANT) PATH_KINDS };

/* The names, in the order of the enum, as in shared/base/choice.h. */
#define PATH_CHOICES "auto" PATHS(PATH_CHOICE)

/* Exchanges by which a combination is late (--overlap): as the rule says, none, or one. */
enum overlap { OVERLAP_AUTO, OVERLAP_NONE, OVERLAP_ONE };
#define OVERLAP_CHOICES "auto|0|1"

#endif
