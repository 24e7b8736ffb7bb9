/* folder_node -- one process of a job without agents (shared/job/job_folder.h): does for one node what an
 * agent and job_submit do otherwise. It finds the other processes (meeting.h), gives the runner its packages
 * and orders, keeps its journal, checks its success, and writes its state where job_submit reads it. Process
 * 0 also ends the others when the job has failed. Reserving, starting and ending the node are the functions
 * of agent/jobs/; the node's folder is an agent's without tokens. */
#ifndef PSGD_FOLDER_NODE_H
#define PSGD_FOLDER_NODE_H

/* main() of `job_runner --job DIR`, which becomes the agent's program; argv[0] is skipped. Returns the exit
 * status. */
int folder_node_main(int argc, char **argv);

#endif
