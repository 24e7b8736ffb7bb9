/* process_use -- what this process uses of the machine, from the kernel. */
#ifndef PSGD_SELF_H
#define PSGD_SELF_H

/* NAN: not known. */
struct self {
    double cpu_s; /* of all its threads */
    double resident_bytes, virtual_bytes;
    double open_files, max_open_files;
};

void self_look(struct self *s);

#endif
