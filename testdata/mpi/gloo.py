# gloo.py: rank 2 keeps the others waiting in all_reduce of torch.distributed with gloo.
import time

import torch
import torch.distributed as dist


def load():
    time.sleep(1000)


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 2:
    load()
dist.all_reduce(torch.ones(4))
