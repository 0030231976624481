"""Partition of a tensor into tiles and the elements of each thread: cta_tiler and layout_sX of CuTe.

A block of threads computes a tile. Thread t starts at its position in the layout and advances by the layout's sizes
(local_partition), so the layout decides whether neighbouring threads read neighbouring addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from espalier.kernels.bench.spec import KernelError

WARP, SECTOR = 32, 32  # threads that run together; bytes of a memory transaction
ORDERS = ("rows", "columns")
MOST = 1 << 20  # largest tensor whose elements are enumerated
THREADS = 1024


@dataclass(frozen=True, slots=True)
class Tiling:
    """A row-major tensor [rows, columns], its tiles, and the threads of a tile.

    `order`: threads are numbered along rows (t = r·threads_columns + c), or down columns, CuTe's default.
    """

    rows: int = field(default=16, metadata={"min": 1, "max": 512, "help": "of the tensor"})
    columns: int = field(default=48, metadata={"min": 1, "max": 512, "help": "of the tensor"})
    tile_rows: int = field(default=8, metadata={"min": 1, "max": 128, "help": "of a tile: cta_tiler"})
    tile_columns: int = field(default=16, metadata={"min": 1, "max": 128, "help": "of a tile: cta_tiler"})
    thread_rows: int = field(default=4, metadata={"min": 1, "max": 128, "help": "of the threads: layout_sX"})
    thread_columns: int = field(default=8, metadata={"min": 1, "max": 128, "help": "of the threads: layout_sX"})
    order: str = field(default="columns", metadata={"choices": ORDERS, "help": "how threads are counted"})
    element: int = field(default=2, metadata={"min": 1, "max": 8, "help": "bytes of an element"})

    def check(self) -> None:
        """Raise KernelError for impossible sizes."""
        sizes = (self.rows, self.columns, self.tile_rows, self.tile_columns, self.thread_rows, self.thread_columns)
        if min(sizes) < 1 or self.element < 1:
            raise KernelError("A size of a tiling cannot be below 1.", "Give whole numbers from 1.")
        if self.order not in ORDERS:
            raise KernelError(f"Threads cannot be counted along {self.order!r}.", f"Choose {' or '.join(ORDERS)}.")
        if self.rows * self.columns > MOST:
            raise KernelError(f"{self.rows} × {self.columns} elements are too many to look at.", "Give smaller sizes.")
        if self.thread_rows > self.tile_rows or self.thread_columns > self.tile_columns:
            raise KernelError(
                f"{self.thread_rows} × {self.thread_columns} threads do not fit a tile of "
                f"{self.tile_rows} × {self.tile_columns}.",
                "Give at most as many threads as elements in each direction.",
            )
        if self.threads > THREADS:
            raise KernelError(f"A block of {self.threads} threads is too large.", f"A GPU has up to {THREADS}.")

    @property
    def threads(self) -> int:
        """Threads of a tile."""
        return self.thread_rows * self.thread_columns

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across; those at the edge may extend beyond the tensor."""
        return -(-self.rows // self.tile_rows), -(-self.columns // self.tile_columns)

    @property
    def steps(self) -> tuple[int, int]:
        """Elements of a thread within a tile, down and across."""
        return -(-self.tile_rows // self.thread_rows), -(-self.tile_columns // self.thread_columns)

    def place(self, thread: int) -> tuple[int, int]:
        """Row and column of a thread in the layout."""
        if self.order == "rows":
            return thread // self.thread_columns, thread % self.thread_columns
        return thread % self.thread_rows, thread // self.thread_rows

    def thread(self, row: int, column: int) -> int:
        """The thread of the element at a position in the tile."""
        r, c = row % self.thread_rows, column % self.thread_columns
        return r * self.thread_columns + c if self.order == "rows" else c * self.thread_rows + r

    def taken(self, thread: int) -> list[tuple[int, int]]:
        """The positions in a tile of a thread's elements, step by step."""
        r, c = self.place(thread)
        down, across = self.steps
        positions = (
            (r + i * self.thread_rows, c + j * self.thread_columns) for i in range(down) for j in range(across)
        )
        return [(i, j) for i, j in positions if i < self.tile_rows and j < self.tile_columns]

    def elements(self, tile: int, thread: int) -> list[tuple[int, int]]:
        """The rows and columns of the tensor that a thread of a tile reads; positions beyond the tensor are masked."""
        first, start = self.corner(tile)
        positions = [(first + i, start + j) for i, j in self.taken(thread)]
        return [(i, j) for i, j in positions if i < self.rows and j < self.columns]

    def corner(self, tile: int) -> tuple[int, int]:
        """First row and column of a tile; tiles are numbered along rows."""
        across = self.grid[1]
        return tile // across * self.tile_rows, tile % across * self.tile_columns

    def masked(self) -> int:
        """Number of masked elements of all tiles, beyond the tensor."""
        down, across = self.grid
        return down * self.tile_rows * across * self.tile_columns - self.rows * self.columns

    def sectors(self, tile: int = 0) -> tuple[int, int]:
        """(sectors of 32 bytes that the first warp reads in its first step, the fewest that hold as many elements)."""
        first, start = self.corner(tile)
        threads = [self.place(t) for t in range(min(WARP, self.threads))]
        there = [(first + r, start + c) for r, c in threads if first + r < self.rows and start + c < self.columns]
        bytes_at = [(r * self.columns + c) * self.element for r, c in there]
        used = {b // SECTOR for at in bytes_at for b in range(at, at + self.element)}
        return len(used), -(-len(there) * self.element // SECTOR)


def description(tiling: Tiling) -> Sequence[str]:
    """Sentences that describe a tiling."""
    down, across = tiling.grid
    sectors, fewest = tiling.sectors()
    per_thread, warp = len(tiling.taken(0)), min(WARP, tiling.threads)
    lines = [
        f"{tiling.rows} × {tiling.columns} elements in {_count_text(down * across, 'tile')} of {tiling.tile_rows} × "
        f"{tiling.tile_columns}; {_count_text(tiling.threads, 'thread')} per tile, "
        f"{_count_text(per_thread, 'element')} each.",
        f"The first {_count_text(warp, 'thread')} read an element each at once, from "
        f"{_count_text(sectors, 'sector')} of {SECTOR} bytes; the minimum is {fewest}.",
    ]
    if masked := tiling.masked():
        lines.append(
            f"{_count_text(masked, 'element')} of the tiles at the edge are not there: their threads are masked."
        )
    return lines


def _count_text(value: int, noun: str, plural: str = "") -> str:
    return f"{value} {noun if value == 1 else plural or noun + 's'}"
