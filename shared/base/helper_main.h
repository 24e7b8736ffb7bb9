/* helper_main -- what a program that another one starts (job_runner, simulator, predictor, codec_check) says
 * to somebody who starts it by hand. */
#ifndef PSGD_HELPER_MAIN_H
#define PSGD_HELPER_MAIN_H

/* Answers --version and --help, and anything else with an error. `starter`: what starts it, as "job_submit
 * predict". Returns the exit status. */
int helper_main(int argc, char **argv, const char *name, const char *starter);

#endif
