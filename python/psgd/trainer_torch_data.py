"""A DataLoader of torch whose data the workers of a job divide: one with the same dataset and arguments, and psgd's batches."""
from __future__ import annotations

import copy
from typing import Any, List, Optional

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, Subset, TensorDataset

from .trainer import Batches, Worker
from .trainer_wire import Error, note

CLASSES_MAX = 1 << 24  # as in shared/trainer/trainer_shard.c


def divided(worker: Worker, loader: Any, divide: Optional[bool]) -> Any:
    """The loader of this worker's part, or the given one. divide: as of steps()."""
    if not _is_divisible(loader):
        if divide:
            raise Error("divide=True needs a DataLoader of a dataset with a length, with a batch_size and no sampler of its own")
        return loader
    if divide is None and worker._has_divided:
        note("the DataLoader is used as it is, as the program has called shard() or batches(); steps(loader, divide=True) divides it")
        return loader
    n = len(loader.dataset)
    # That of each worker, but not more than its part has, unless the loader drops such a batch.
    size = loader.batch_size if loader.drop_last else max(1, min(loader.batch_size, n // worker.info.n_nodes))
    note(f"each worker reads its part of the DataLoader's {n} rows, in batches of {size}; steps(loader, divide=False) leaves it as it is")
    result = copy.copy(loader)
    # Through vars(), since a DataLoader refuses another batch_sampler as an attribute: a new one would have to be told all arguments of
    # this version of torch, and of classes that are made of DataLoader.
    vars(result).update(batch_sampler=Batches(worker, n, size, _classes(loader.dataset, n)), _iterator=None)
    return result


def _is_divisible(loader: Any) -> bool:
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__ or loader.batch_size is None:
        return False
    dataset, sampler = loader.dataset, loader.sampler
    if isinstance(dataset, IterableDataset) or getattr(sampler, "data_source", None) is not dataset:
        return False
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples == len(dataset)
    return type(sampler) is SequentialSampler


def _classes(dataset: Any, n: int) -> Optional[List[int]]:
    """The rows' classes, if the dataset has them: a --partition may divide by them."""
    if type(dataset) is Subset:
        of_all = _classes(dataset.dataset, len(dataset.dataset))
        return None if of_all is None else [of_all[i] for i in dataset.indices]
    try:
        if type(dataset) is TensorDataset:
            classes = dataset.tensors[-1]
        else:
            classes = torch.as_tensor(getattr(dataset, "targets", None) if hasattr(dataset, "targets") else dataset.labels)
    except (AttributeError, TypeError, ValueError, RuntimeError):  # there are none, or they are no numbers
        return None
    if classes.shape != (n,) or classes.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        return None
    return classes.tolist() if n and 0 <= int(classes.min()) and int(classes.max()) < CLASSES_MAX else None
