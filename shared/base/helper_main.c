#include "shared/base/helper_main.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_asked(int argc, char **argv, const char *name, const char *letter)
{
    return argc == 2 && (strcmp(argv[1], name) == 0 || strcmp(argv[1], letter) == 0);
}

int helper_main(int argc, char **argv, const char *name, const char *starter)
{
    if (is_asked(argc, argv, "--version", "-V")) {
        printf("%s (psgd) %s\n", name, PSGD_VERSION);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (is_asked(argc, argv, "--help", "-h")) {
        printf("%s is started by %s, not by hand.\n", name, starter);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    fprintf(stderr, "%s is started by %s, not by hand\n", name, starter);
    return 2;
}
