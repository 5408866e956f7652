"""Train a small vision transformer on 8x8 digits and write the files the Rust example reads.

    python train.py              train on the whole training part, write the four .bin files
    python train.py --validate   train on 80 % of the training part, score the other 20 %

Learning rate, dropout (none) and the strength of the augmentation were chosen among four
settings with --validate; the 360 held-out images took no part in any choice.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

SEED = 0
HELD_OUT = 360
DIM, HEADS, HIDDEN, LAYERS, CLASSES = 32, 4, 64, 2, 10
PATCHES, PATCH_PIXELS = 16, 4
EPOCHS, BATCH, RATE, DECAY = 250, 64, 4e-3, 0.05
PANEL = 16  # columns per strip of a stored weight matrix


class Attention(nn.Module):
    """Multi-head self-attention, one Linear per role so that each is stored on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(DIM, DIM)
        self.key = nn.Linear(DIM, DIM)
        self.value = nn.Linear(DIM, DIM)
        self.output = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        def split(t: Tensor) -> Tensor:  # [batch, tokens, DIM] -> [batch, HEADS, tokens, width]
            return t.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(DIM // HEADS)
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Pre-norm: the residual path stays untouched, so no warm-up is needed to train it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(DIM, eps=1e-5)
        self.attention = Attention()
        self.feed_norm = nn.LayerNorm(DIM, eps=1e-5)
        self.expand = nn.Linear(DIM, HIDDEN)
        self.contract = nn.Linear(HIDDEN, DIM)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.contract(F.relu(self.expand(self.feed_norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(PATCH_PIXELS, DIM)
        self.class_token = nn.Parameter(0.02 * torch.randn(DIM))
        self.positions = nn.Parameter(0.02 * torch.randn(PATCHES + 1, DIM))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM, eps=1e-5)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """images [batch, 8, 8] in 0..1 -> logits [batch, 10]"""
        # 8x8 -> (row of patches, row inside, column of patches, column inside) -> 16 patches of 4
        patches = images.reshape(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, PATCHES, PATCH_PIXELS)
        first = self.class_token.expand(len(images), 1, DIM)
        x = torch.cat([first, self.patch(patches)], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


def augment(images: Tensor) -> Tensor:
    """Turn, scale, shift and add noise: 1437 images are few, and all of these keep the digit."""
    n = len(images)
    angle = (torch.rand(n) * 2 - 1) * math.radians(8)
    scale = 1 + (torch.rand(n) * 2 - 1) * 0.1
    shift = (torch.rand(n, 2) * 2 - 1) * 0.2  # in half-widths: up to 0.8 of a pixel
    cos, sin = torch.cos(angle) * scale, torch.sin(angle) * scale
    rows = torch.stack([cos, -sin, shift[:, 0], sin, cos, shift[:, 1]], dim=1).view(n, 2, 3)
    grid = F.affine_grid(rows, [n, 1, 8, 8], align_corners=False)
    moved = F.grid_sample(images[:, None], grid, align_corners=False)[:, 0]
    return (moved + 0.05 * torch.randn_like(moved)).clamp(0, 1)


def train(images: Tensor, labels: Tensor, seed: int) -> Model:
    torch.manual_seed(seed)
    model = Model()
    steps = EPOCHS * math.ceil(len(images) / BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for epoch in range(EPOCHS):
        total = 0.0
        for pick in torch.randperm(len(images)).split(BATCH):
            logits = model(augment(images[pick]))
            # smoothing keeps the logits small, which also keeps the f32 comparison tight
            loss = F.cross_entropy(logits, labels[pick], label_smoothing=0.1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(pick)
        if (epoch + 1) % 50 == 0:
            print(f"epoch {epoch + 1}: loss {total / len(images):.4f}", flush=True)
    return model.eval()


def correct(logits: Tensor, labels: Tensor) -> int:
    return int((logits.argmax(1) == labels).sum())


def linear(layer: nn.Linear) -> list[np.ndarray]:
    """W[in][out] in strips of 16 columns, one after the other, each row by row; then the bias."""
    w = layer.weight.detach().numpy().T
    return [w[:, c : c + PANEL].ravel() for c in range(0, w.shape[1], PANEL)] + plain(layer.bias)


def norm(layer: nn.LayerNorm) -> list[np.ndarray]:
    return plain(layer.weight, layer.bias)


def plain(*tensors: Tensor) -> list[np.ndarray]:
    return [t.detach().numpy().ravel() for t in tensors]


def weights(model: Model) -> np.ndarray:
    parts = linear(model.patch) + plain(model.class_token, model.positions)
    for layer in model.layers:
        attention = layer.attention
        parts += norm(layer.attention_norm)
        for role in (attention.query, attention.key, attention.value, attention.output):
            parts += linear(role)
        parts += norm(layer.feed_norm) + linear(layer.expand) + linear(layer.contract)
    parts += norm(model.norm) + linear(model.head)
    return np.concatenate(parts).astype("<f4")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--validate", action="store_true", help="score on a part of the training part")
    options.add_argument("--seed", type=int, default=SEED, help="of the training, not of the split")
    options.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    args = options.parse_args()

    # one thread and deterministic kernels: the sums are then taken in the same order every run
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    raw, labels = load_digits(return_X_y=True)
    raw_train, raw_test, y_train, y_test = train_test_split(
        raw, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    if args.validate:
        raw_train, raw_test, y_train, y_test = train_test_split(
            raw_train, y_train, test_size=0.2, stratify=y_train, random_state=SEED
        )

    def images(rows: np.ndarray) -> Tensor:
        return torch.tensor(rows / 16, dtype=torch.float32).view(-1, 8, 8)

    model = train(images(raw_train), torch.tensor(y_train), args.seed)
    stored = weights(model)  # before .double(): these are the f32 values that are shipped
    with torch.no_grad():
        logits = model.double()(images(raw_test).double())
    print(f"{correct(logits, torch.tensor(y_test))} of {len(y_test)} correct, {stored.size} parameters")

    if not args.validate:
        stored.tofile(args.out / "weights.bin")
        raw_test.astype(np.uint8).tofile(args.out / "images.bin")
        y_test.astype(np.uint8).tofile(args.out / "labels.bin")
        logits.numpy().astype("<f4").tofile(args.out / "expected.bin")


if __name__ == "__main__":
    main()
