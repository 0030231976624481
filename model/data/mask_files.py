"""Images with masks in folders, paired by file name: `images/` and `masks/`, with split folders above or below them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from espalier.model.data.images import IMAGE_SUFFIXES
from espalier.model.errors import DataError

IMAGES = ("images", "image", "imgs", "img", "jpegimages")
MASKS = ("masks", "mask", "labels", "label", "annotations", "segmentationclass")
ENDS = ("_mask", "_masks", "_label", "_labels", "_seg", "_gt")  # of a mask's name after that of its image
MASK = "mask"  # role of a file; images have none
Files = tuple[tuple[Path, str], ...]


def mask_files(folder: Path, split_of: Callable[[str], str | None]) -> dict[str, Files]:
    """Split (empty: none) → (file, role) of its images and masks; empty if the folder has another layout."""
    if pair := _pair(folder):
        images, masks = pair
        inner = {
            split: sub for sub in _folders(images) if (split := split_of(sub.name)) and (masks / sub.name).is_dir()
        }
        of_splits = {split: _files(sub, masks / sub.name) for split, sub in inner.items()}
        return {k: v for k, v in of_splits.items() if v} or ({"": files} if (files := _files(images, masks)) else {})
    splits = {split: sub for sub in _folders(folder) if (split := split_of(sub.name)) and _pair(sub)}
    return {split: files for split, sub in splits.items() if (pair := _pair(sub)) and (files := _files(*pair))}


def _folders(folder: Path) -> list[Path]:
    return [sub for sub in sorted(folder.iterdir()) if sub.is_dir()]


def _pair(folder: Path) -> tuple[Path, Path] | None:
    """The folders of images and of masks inside a folder, if it has both."""
    named = {sub.name.lower(): sub for sub in _folders(folder)}
    images, masks = (next((named[n] for n in names if n in named), None) for names in (IMAGES, MASKS))
    return (images, masks) if images and masks else None


def _files(images: Path, masks: Path) -> Files:
    """The images, then the masks; empty unless there are both."""
    both = [[p for p in sorted(folder.iterdir()) if p.suffix.lower() in IMAGE_SUFFIXES] for folder in (images, masks)]
    return (*((p, "") for p in both[0]), *((p, MASK) for p in both[1])) if all(both) else ()


def paired(files: Files, name: str) -> tuple[tuple[Path, Path], ...]:
    """(image, mask) by file name; raises DataError for an image without a mask, a mask without one, and two of each."""
    images, masks = (_by_name([p for p, role in files if bool(role) == wants], name) for wants in (False, True))
    plain = {_plain(stem, images): path for stem, path in masks.items()}
    for stem, path in images.items():
        if stem not in plain:
            folder = next(iter(masks.values())).parent.name
            raise DataError(f"The image {path.parent.name}/{path.name} of {name} has no mask.",
                            f"Add {folder}/{stem}.png, or remove the image.")  # fmt: skip
    for stem, path in plain.items():
        if stem not in images:
            raise DataError(f"The mask {path.parent.name}/{path.name} of {name} has no image.",
                            "Give both the same file name, or remove the mask.")  # fmt: skip
    return tuple((path, plain[stem]) for stem, path in images.items())


def _plain(stem: str, images: dict[str, Path]) -> str:
    """The name of a mask's image."""
    if stem in images:
        return stem
    return next((stem[: -len(end)] for end in ENDS if stem.endswith(end) and stem[: -len(end)] in images), stem)


def _by_name(paths: Sequence[Path], name: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in paths:
        if path.stem in found:
            raise DataError(f"{name} has {found[path.stem].name} and {path.name} in {path.parent.name}.", "Keep one.")
        found[path.stem] = path
    return found
