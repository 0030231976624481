"""Members of zip files: uncompressed ones that can be memory-mapped, and compressed ones that are copied unchanged.

zipfile computes the checksum of a chunk before it writes it; here both run in parallel.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True, slots=True)
class Sealed:
    """A compressed member that is copied without decompression."""

    data: bytes
    method: int
    checksum: int
    size: int
    flags: int


def read_sealed(raw: IO[bytes], info: zipfile.ZipInfo) -> Sealed:
    """Read a member without decompression. Raises EOFError if the file is truncated."""
    raw.seek(data_start(raw, info.header_offset))
    data = raw.read(info.compress_size)
    if len(data) != info.compress_size:
        raise EOFError
    return Sealed(data, info.compress_type, info.CRC, info.file_size, info.flag_bits & 1)


def write_sealed(archive: zipfile.ZipFile, raw: IO[bytes], name: str, member: Sealed) -> None:
    """Append a compressed member; `raw` is the file of `archive`."""
    info = zipfile.ZipInfo(name)
    info.compress_type, info.CRC, info.flag_bits = member.method, member.checksum, member.flags
    info.file_size, info.compress_size = member.size, len(member.data)
    info.header_offset = archive.start_dir
    raw.seek(info.header_offset)
    raw.write(info.FileHeader())
    raw.write(member.data)
    _listed(archive, info, raw.tell())


def data_start(raw: IO[bytes], header: int) -> int:
    """First byte of the data of the member whose local header is at `header` (PKWARE APPNOTE 4.3.7)."""
    raw.seek(header + 26)
    fields = raw.read(4)
    return header + 30 + int.from_bytes(fields[:2], "little") + int.from_bytes(fields[2:], "little")


def write_stored(
    archive: zipfile.ZipFile, raw: IO[bytes], name: str, chunks: Callable[[int], Iterator[memoryview]]
) -> None:
    """Append a member; `chunks` gets the file offset of its first byte. `raw` is the file of `archive`."""
    info = zipfile.ZipInfo(name)
    info.header_offset, info.CRC = archive.start_dir, 0
    raw.seek(info.header_offset)
    room = len(info.FileHeader(zip64=True))
    raw.write(bytes(room))
    with ThreadPoolExecutor(1) as executor:
        checksum, size = executor.submit(int, 0), 0
        for chunk in chunks(info.header_offset + room):
            checksum.result()  # otherwise the chunks would accumulate in memory
            checksum = executor.submit(zlib.crc32, chunk, checksum.result())
            raw.write(chunk)
            size += chunk.nbytes
        # The checksum takes longer than writing; meanwhile the data are synced.
        raw.flush()
        os.fsync(raw.fileno())
        info.CRC, info.file_size, info.compress_size = checksum.result(), size, size
    end = raw.tell()
    raw.seek(info.header_offset)
    raw.write(info.FileHeader(zip64=True))
    raw.seek(end)
    _listed(archive, info, end)


def _listed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, end: int) -> None:
    archive.filelist.append(info)
    archive.NameToInfo[info.filename] = info
    archive.start_dir = end
