"""Embeddings of PyTorch models in a pool: they train durably, and need no checkpoints.

>>> from perdure import torch as pt                                       # doctest: +SKIP
>>> store = pt.create("/dev/shm/model.pool", tables, pt.Adagrad(lr=0.01))  # doctest: +SKIP
>>> bags = pt.EmbeddingBagCollection(store, tables, pt.Adagrad(lr=0.01))   # doctest: +SKIP
>>> trainer = pt.Trainer(store, bags, model, optimizer)                    # doctest: +SKIP
>>> for number in range(trainer.resume(), 1000):                           # doctest: +SKIP
...     with trainer.step():
...         loss(model(bags(batch(number)))).backward()
...         optimizer.step()

Every step is one commit: the rows that it changed with their optimizer states, the model, its
optimizer, the random numbers' state and whatever else the trainer was given are of one moment, also
after `kill -9`.

tables        what tables there are, and what a row has
optimizers    how rows change by their gradients
keys          ids of all tables of one width together
new_rows      what an id begins with
embeddings    the modules
passes        what their forward passes looked up
pooling       sums and means of bags
ops           operators that torch.compile knows
keyed         torchrec's batches for them
follower      the same tables beside the process that trains them
eviction      which rows go
admission     which ids get rows
dense         all other state, as bytes of one length
notes         small numbers in the pool, and which ids went, for exports
parts         tables outside the pool, whole and increments
part_files    their files: Parquet, safetensors
dynamicemb    DynamicEmb's storage
trainer       steps and resuming
overlap       commits beside the training
checkpoint    checkpoints of torch.distributed.checkpoint: CheckpointWriter, CheckpointReader
sharded       collections whose rows are spread over several processes
buckets       which process has which id
exchange      what processes send to one another
agreement     whether they belong together
commit_point  steps of several processes
reshard       the same rows in another number of pools
"""

from __future__ import annotations

from perdure.torch.commit_point import ShardedTrainer
from perdure.torch.embeddings import EmbeddingBagCollection, EmbeddingCollection
from perdure.torch.follower import Follower
from perdure.torch.optimizers import SGD, Adagrad, Adam, RowWiseAdagrad
from perdure.torch.reshard import reshard
from perdure.torch.sharded import ShardedEmbeddingBagCollection, ShardedEmbeddingCollection
from perdure.torch.tables import TableConfig, create
from perdure.torch.trainer import Trainer

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "Follower",
    "RowWiseAdagrad",
    "ShardedEmbeddingBagCollection",
    "ShardedEmbeddingCollection",
    "ShardedTrainer",
    "TableConfig",
    "Trainer",
    "create",
    "reshard",
]
