"""A training step as one commit: embeddings in a table, dense weights, and the step's number.

    python examples/training_step.py [FOLDER]     default /dev/shm; two pools are made there, and
    removed

Trains a small model (two embeddings multiplied, a dense layer on top) twice: once without a stop,
and once in processes that are killed in mid-step, each of which goes on from the step that the one
before had committed. Both must come to the same table, weights and bias, bit for bit. A store whose
table, weights and step number became durable one by one would fail here: after a kill they would be
of different steps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import perdure

ROWS, WIDTH, BATCH, STEPS = 500, 16, 128, 120
RATE = np.float32(8)
KILLS = {7: "after the batch", 8: "after the weights", 60: "after the batch", 61: "after the batch"}


class Model:
    """The dense part: arrays that stay where they are, and change in place."""

    def __init__(self) -> None:
        self.weights = np.zeros(WIDTH, np.float32)
        self.bias = np.zeros(1, np.float32)


def examples(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows and whether they belong together, which follows from what nobody tells the
    model."""
    hidden = np.random.default_rng(0).choice([-1.0, 1.0], (ROWS, 2))
    pairs = np.random.default_rng([1, step]).integers(ROWS, size=(BATCH, 2))
    labels = hidden[pairs[:, 0]].sum(axis=1) * hidden[pairs[:, 1]].sum(axis=1) > 0
    return pairs, labels.astype(np.float32)


def begin(store: perdure.Store, model: Model) -> int:
    """The step to go on from; of a new pool step 0, which writes what training begins with."""
    store.register_dense(weights=model.weights, bias=model.bias)
    done = store.restore_step()
    if done is not None:
        return done
    random = np.random.default_rng(2)
    with store.step(0, max_operations=ROWS):
        store.put(np.arange(ROWS), random.normal(0, 0.3, (ROWS, WIDTH)).astype(np.float32))
        model.weights[:] = random.normal(0, 0.3, WIDTH)
    return 0


def train_step(store: perdure.Store, model: Model, step: int, kill: str | None) -> float:
    pairs, labels = examples(step)
    keys, where = np.unique(pairs, return_inverse=True)
    where = where.reshape(pairs.shape)
    rows = store.get(keys, dtype=np.float32).values
    left, right = rows[where[:, 0]], rows[where[:, 1]]
    features = left * right
    scores = np.float32(1) / (np.float32(1) + np.exp(-(features @ model.weights + model.bias)))
    errors = (scores - labels) / np.float32(BATCH)
    gradients = np.zeros_like(rows)
    np.add.at(gradients, where[:, 0], errors[:, None] * model.weights * right)
    np.add.at(gradients, where[:, 1], errors[:, None] * model.weights * left)
    with store.step(step, max_operations=len(keys)):
        store.put(keys, rows - RATE * gradients)
        if kill == "after the batch":
            os.kill(os.getpid(), signal.SIGKILL)
        model.weights -= RATE * (errors @ features)
        model.bias -= RATE * errors.sum()
        if kill == "after the weights":
            os.kill(os.getpid(), signal.SIGKILL)
    return float(np.mean((scores > 0.5) == (labels > 0.5)))


def train(pool: Path, kill_in: int | None) -> None:
    """From where the pool is to the last step, or to a kill on the way."""
    model = Model()
    with (
        perdure.open(pool)
        if pool.exists()
        else perdure.create(pool, 8, WIDTH * 4, expected_records=ROWS) as store
    ):
        done = begin(store, model)
        right = [
            train_step(store, model, step, KILLS.get(step) if step == kill_in else None)
            for step in range(done + 1, STEPS + 1)
        ]
    if right:
        print(
            f"  steps {done + 1} to {STEPS}: {right[0]:.0%} right in the first, {right[-1]:.0%} "
            "in the last"
        )


def train_in_child(pool: Path, kill_in: int | None) -> None:
    arguments = [sys.executable, __file__, "--train", str(pool), str(kill_in or 0)]
    status = subprocess.run(arguments, check=False).returncode
    if status != (-signal.SIGKILL if kill_in else 0):
        raise SystemExit(f"the training of {pool} ended with status {status}")


def contents(pool: Path) -> tuple[int | None, bytes]:
    """The step of a pool, and all that it holds of it."""
    model = Model()
    with perdure.open(pool) as store:
        store.register_dense(weights=model.weights, bias=model.bias)
        step = store.restore_step()
        rows = store.get(np.arange(ROWS)).values
    return step, rows.tobytes() + model.weights.tobytes() + model.bias.tobytes()


def main(folder: Path) -> int:
    whole, killed = (
        folder / f"perdure-training-{os.getpid()}-{name}" for name in ("whole", "killed")
    )
    try:
        print("without a stop:")
        train_in_child(whole, None)
        for step, where in KILLS.items():
            print(f"killed in step {step}, {where}")
            train_in_child(killed, step)
            left, _ = contents(killed)
            if left != step - 1:
                raise SystemExit(
                    f"the pool has step {left}: step {step}, cut short, left something"
                )
        train_in_child(killed, None)
        same = contents(whole) == contents(killed)
    finally:
        whole.unlink(missing_ok=True)
        killed.unlink(missing_ok=True)
    print(f"after {STEPS} steps both hold the same, bit for bit" if same else "they differ")
    return 0 if same else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(Path(sys.argv[2]), int(sys.argv[3]) or None)
    else:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "/dev/shm")))
