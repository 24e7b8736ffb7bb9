/* process_use -- what this process uses of the machine, from the kernel. */
#ifndef PSGD_PROCESS_USE_H
#define PSGD_PROCESS_USE_H

/* NAN: not known. */
struct process_use {
    double cpu_s; /* of all its threads */
    double resident_bytes, virtual_bytes;
    double open_files, max_open_files;
};

void process_use_look(struct process_use *s);

#endif
