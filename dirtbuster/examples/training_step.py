"""Training steps of a small convolutional network by PyTorch on the CPU, with random images.

python training_step.py [STEPS] [BATCH]
"""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
BATCH = int(sys.argv[2]) if len(sys.argv) > 2 else 64


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 10),
    )


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.rand(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))
    loss = torch.zeros(())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"loss after {STEPS} steps: {loss.item():.3f}")


if __name__ == "__main__":
    main()
