/* trainer_isolation -- how a training program is confined on the machine of an agent. These are not the
 * levels of a codec (shared/plugin/isolation.h): the program needs processes, sockets and devices, which no
 * codec has. */
#ifndef PSGD_TRAINER_ISOLATION_H
#define PSGD_TRAINER_ISOLATION_H

/* none: it may do what the agent's user may do. files: it reads the system's folders, its interpreter and the
 * data sets of agent --trainer-data, writes into its own folder, and signals no other process. user: files,
 * and it has a user id that nothing else on the machine has; root runs the agent. */
#define TRAINER_ISOLATION_CHOICES "none|files|user"
enum trainer_isolation { TRAINER_ISOLATION_NONE, TRAINER_ISOLATION_FILES, TRAINER_ISOLATION_USER };

static inline const char *trainer_isolation_name(enum trainer_isolation i)
{
    static const char *const names[] = {"none", "files", "user"};

    return names[i];
}

#endif
