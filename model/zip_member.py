"""An uncompressed member of a zip that can be memory-mapped: where its data lies, and how it is written fast.

zipfile hashes each chunk before it writes it; here the checksum runs beside the write and the sync.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO


def data_start(raw: IO[bytes], header: int) -> int:
    """First byte of the data of the member whose local header is at `header` (PKWARE APPNOTE 4.3.7)."""
    raw.seek(header + 26)
    fields = raw.read(4)
    return header + 30 + int.from_bytes(fields[:2], "little") + int.from_bytes(fields[2:], "little")


def write_stored(
    archive: zipfile.ZipFile, raw: IO[bytes], name: str, chunks: Callable[[int], Iterator[memoryview]]
) -> None:
    """Append a member; `chunks` gets the file offset of its first byte. `raw` is the file under `archive`."""
    info = zipfile.ZipInfo(name)
    info.header_offset, info.CRC = archive.start_dir, 0
    raw.seek(info.header_offset)
    room = len(info.FileHeader(zip64=True))
    raw.write(bytes(room))
    with ThreadPoolExecutor(1) as beside:
        checksum, size = beside.submit(int, 0), 0
        for chunk in chunks(info.header_offset + room):
            checksum.result()  # else the pieces would gather in memory
            checksum = beside.submit(zlib.crc32, chunk, checksum.result())
            raw.write(chunk)
            size += chunk.nbytes
        # The checksum takes longer than the writing; meanwhile the disk can have what will be synced anyhow.
        raw.flush()
        os.fsync(raw.fileno())
        info.CRC, info.file_size, info.compress_size = checksum.result(), size, size
    end = raw.tell()
    raw.seek(info.header_offset)
    raw.write(info.FileHeader(zip64=True))
    raw.seek(end)
    archive.filelist.append(info)
    archive.NameToInfo[name] = info
    archive.start_dir = end
