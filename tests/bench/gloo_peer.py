#!/usr/bin/env python3
"""All-reduce by torch.distributed over gloo, for the benchmarks of tests/bench/comm, which describes their common interface.

usage: gloo_peer.py N_NODES BYTES...; prints `bytes median_us` lines."""
import os
import socket
import statistics
import sys
import time

n_nodes, sizes = int(sys.argv[1]), [int(a) for a in sys.argv[2:]]
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
rank = 0
for r in range(1, n_nodes):
    if os.fork() == 0:
        rank = r
        break
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(n_nodes), RANK=str(rank),
                  GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")

import torch  # noqa: E402, after the processes are forked
import torch.distributed as dist  # noqa: E402

LONG = 1 << 20
torch.set_num_threads(1)
dist.init_process_group("gloo")
for size in sizes:
    times = 2000 if size <= 4096 else 1000 if size < LONG else 200 if size <= 8 << 20 else 20 if size <= 32 << 20 else 7
    x, took = torch.ones(size // 4), []
    for i in range(times + times // 10 + 2):
        if size >= LONG:
            dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(x)
        took.append(time.perf_counter() - start)
        if i % 8 == 7:
            x.fill_(1)  # in place: repeated sums would overflow
    if rank == 0:
        print(size, f"{statistics.median(took[-times:]) * 1e6:.1f}", flush=True)
dist.barrier()
