"""Images: where their bytes are, how they are decoded, and which are refused.

A home of images is a folder, an archive (.zip, .tar), a folder in an archive, or a packed file (IDX,
CIFAR-10). Decoding needs pillow, the extra `images`. Shapes: H rows, W columns, C channels (1 grey, 3
colours); pixels are uint8.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import re
import tarfile
import tempfile
import warnings
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from seqwright.data.read_report import Place, Reason
from seqwright.data.readers.files import Input, files_in, only_folder
from seqwright.errors import InputError, UnusableInput
from seqwright.files import open_regular, uncompressed

SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jfif", ".jpe", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".avif"),
)
CAMERAS = (".heic", ".heif", ".jxl", ".jp2", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")  # rarely decoded
PLAIN = (
    *(".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl", ".conll", ".conllu", ".xml"),
    *(".html", ".htm", ".yaml", ".yml", ".toml", ".log", ".py"),
)  # files that are never images
# of pillow; HEIF only with a plugin
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
BEGINNINGS = {  # of files, by format
    "PNG": rb"\x89PNG\r\n",
    "JPEG": rb"\xff\xd8\xff",
    "GIF": rb"GIF8[79]a",
    "WEBP": rb"RIFF.{4}WEBP",
    "BMP": rb"BM.{4}\x00{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\x00\x00\x00",
    "TIFF": rb"II\*\x00|MM\x00\*",
    "PPM": rb"P[1-6]\s+[\d#]",
    "AVIF": rb".{4}ftyp.{0,40}?avi[fs]",
    "HEIF": rb".{4}ftyp(?:hei|hev|mif1|msf1)",
    "JPEG XL": rb"\xff\x0a|\x00{3}\x0cJXL ",
    "JPEG 2000": rb"\xff\x4f\xff\x51|\x00{3}\x0cjP  ",
    "Photoshop": rb"8BPS\x00",
    "ICO": rb"\x00\x00\x01\x00[^\x00]\x00",
    "SVG": rb"\s*(?:<\?xml[^>]*>\s*)?<svg",
}
HEAD = 128  # bytes that show the format of a file
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz")
URI = "data:image/"  # an image inside a cell of a table: data:image/png;base64,…
PIXELS = 50_000_000  # of one image
BYTES = 1 << 28  # of one file
LARGE = 50  # megapixels, in messages
TOGETHER = 256  # images that are decoded before the first of them is used
RUN = 16  # images of one task of a thread
CIFAR = 1 + 3 * 32 * 32  # bytes of a record: a label, then the planes of red, green and blue
IDX = re.compile(r"images?[-.]idx[34]-ubyte(\.gz)?$")
BATCH = re.compile(r"(data_batch_\d+|test_batch)\.bin$")

Content = bytes | np.ndarray
T = TypeVar("T")
R = TypeVar("R")


class ImageFault(UnusableInput):
    """An image that cannot be used, and the reason under which it is counted."""

    def __init__(self, message: str, reason: Reason = Reason.BAD_IMAGE):
        super().__init__(message)
        self.reason = reason


class Facts(NamedTuple):
    """The size of an image, whether it has colours, and a hash of its content."""

    width: int
    height: int
    colour: bool
    digest: int


class Picture(NamedTuple):
    """An image: its name, and its place in a home, or its content where it has none."""

    name: str
    home: str = ""
    member: str = ""
    content: Any = None
    facts: Facts = Facts(0, 0, True, 0)

    def read(self) -> Content:
        return self.content if self.content is not None else open_home(self.home).read(self.member)


# Homes ---------------------------------------------------------------------------------------------


class Home(ABC):
    """Images by name."""

    path: str

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of all files, sorted; hidden ones are left out."""

    @abstractmethod
    def read(self, member: str) -> Content:
        """Return the content of an image; one that is missing is an ImageFault."""

    @abstractmethod
    def head(self, member: str) -> bytes:
        """Return the first bytes of a file; nothing if it cannot be read."""

    @abstractmethod
    def stamp(self, member: str) -> object:
        """Return what changes when the image changes."""

    @property
    def image_names(self) -> list[str]:
        """The names of all images: by their endings, of other files by their first bytes."""
        return [name for name in self.names if is_image(name) or self._begins_like_an_image(name)]

    def _begins_like_an_image(self, name: str) -> bool:
        return not name.lower().endswith(PLAIN) and format_of(self.head(name)) is not None

    def has(self, member: str) -> bool:
        """Return whether there is such a file."""
        return member in self.numbers

    def find(self, member: str) -> str:
        """Return the name of a file; one that is missing may lie below the folder that holds everything."""
        if self.has(member):
            return member
        inside = (str(folder / member) for folder in (self.whole, *self.whole.parents))
        return next(filter(self.has, inside), member)

    @cached_property
    def whole(self) -> PurePosixPath:
        """The folder that holds all images, "." if there is none."""
        return PurePosixPath(common_folder(self.image_names))

    def picture(self, member: str) -> Picture:
        return Picture(self.full_name(member), self.path, member)

    def place(self, member: str) -> Place:
        """Return where an image is: its number, if it is not a file of its own."""
        return Place(self.path, self.numbers[member])

    def label(self, member: str) -> str | None:
        """Return the label of an image in a packed file."""
        return None

    def full_name(self, member: str) -> str:
        """Return a name by which `find_picture` finds the image."""
        return f"{self.path}/{member}"

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names, start=1)}


@dataclass(frozen=True)
class Folder(Home):
    path: str

    @property
    def names(self) -> list[str]:
        return [os.path.relpath(file, self.path) for file in files_in([self.path])]

    @property
    def linked_folders(self) -> list[str]:
        """The links to folders in it, which are not followed."""
        found = (os.path.join(home, name) for home, folders, _ in os.walk(self.path) for name in folders)
        links = filter(os.path.islink, found)
        return sorted(path for path in links if _visible(os.path.relpath(path, self.path)))

    @cached_property
    def whole(self) -> PurePosixPath:
        return PurePosixPath(os.path.relpath(only_folder(self.path), self.path))

    def has(self, member: str) -> bool:
        return os.path.isfile(os.path.join(self.path, member))

    def read(self, member: str) -> bytes:
        path = os.path.join(self.path, member)
        try:
            size = os.stat(path).st_size
            if size > BYTES:
                raise ImageFault(f"{path} has {size:,} bytes, more than {BYTES:,}", Reason.LARGE_IMAGE)
            with open_regular(Path(path)) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ImageFault(f"{os.path.normpath(path)} does not exist", Reason.MISSING_IMAGE) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ImageFault(f"{path} cannot be read: {reason}") from error

    def head(self, member: str) -> bytes:
        try:
            with open_regular(Path(self.path, member)) as file:
                return file.read(HEAD)
        except (OSError, ValueError):
            return b""

    def stamp(self, member: str) -> object:
        try:
            status = os.stat(os.path.join(self.path, member))
        except (OSError, ValueError):
            return None
        return status.st_mtime_ns, status.st_size

    def place(self, member: str) -> Place:
        return Place(self.full_name(member), 0)

    def full_name(self, member: str) -> str:
        return os.path.join(self.path, member)


@dataclass(frozen=True)
class FolderInArchive(Home):
    """The files of an archive below one of its folders."""

    path: str
    archive: Home
    folder: str

    @cached_property
    def names(self) -> list[str]:
        above = f"{self.folder}/"
        return [name.removeprefix(above) for name in self.archive.names if name.startswith(above)]

    def has(self, member: str) -> bool:
        return self.archive.has(f"{self.folder}/{member}")

    def read(self, member: str) -> Content:
        return self.archive.read(f"{self.folder}/{member}")

    def head(self, member: str) -> bytes:
        return self.archive.head(f"{self.folder}/{member}")

    def stamp(self, member: str) -> object:
        return self.archive.stamp(f"{self.folder}/{member}")

    def picture(self, member: str) -> Picture:
        return self.archive.picture(f"{self.folder}/{member}")

    def place(self, member: str) -> Place:
        return self.archive.place(f"{self.folder}/{member}")


class Zip(Home):
    def __init__(self, path: str):
        self.path = path
        try:
            self.file = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a complete zip archive: {error}; copy it again") from error

    @cached_property
    def names(self) -> list[str]:
        return sorted(name for name in self.file.namelist() if not name.endswith("/") and _visible(name))

    def read(self, member: str) -> bytes:
        try:
            info = self.file.getinfo(member)
            if info.file_size > BYTES:
                fault = f"{self.full_name(member)} has {info.file_size:,} bytes, more than {BYTES:,}"
                raise ImageFault(fault, Reason.LARGE_IMAGE)
            return self.file.read(info)
        except KeyError as error:
            raise ImageFault(f"{self.path} has no file {member}", Reason.MISSING_IMAGE) from error
        except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError) as error:
            raise ImageFault(f"{self.full_name(member)} cannot be read: {error}") from error
        except Exception as error:  # zlib.error and LZMAError have no common base
            raise ImageFault(f"{self.full_name(member)} is damaged: {error}") from error

    def head(self, member: str) -> bytes:
        try:
            with self.file.open(member) as file:
                return file.read(HEAD)
        except Exception:  # zlib.error and LZMAError have no common base
            return b""

    def stamp(self, member: str) -> object:
        return None  # the archive itself is opened again when it changes


class Tar(Home):
    """An archive that is read in place; a compressed one is first written to a temporary file."""

    def __init__(self, path: str):
        self.path = path
        self.file = self._plain()
        self.members: dict[str, tuple[int, int]] = {}
        # symbolic links, and hard ones to files that the archive does not have
        self.links: dict[str, str] = {}
        places: dict[str, tuple[int, int]] = {}
        try:
            with tarfile.open(fileobj=self.file) as archive:
                for member in archive:
                    name, target = member.name.removeprefix("./"), member.linkname.removeprefix("./")
                    if member.isfile():
                        places[name] = member.offset_data, member.size
                    elif member.islnk() and target in places:
                        places[name] = places[target]
                    elif member.islnk() or member.issym():
                        self.links[name] = target
                        continue
                    else:
                        continue
                    if _visible(name):
                        self.members[name] = places[name]
        except (tarfile.TarError, OSError, EOFError) as error:
            raise InputError(f"{path} is not a complete tar archive: {error}; copy it again") from error

    def _plain(self) -> BinaryIO:
        if self.path.lower().endswith(".tar"):
            return open(self.path, "rb")
        file = tempfile.TemporaryFile()  # noqa: SIM115
        for block in Input(self.path).blocks():
            file.write(block)
        file.seek(0)
        return file

    @cached_property
    def names(self) -> list[str]:
        return sorted({*self.members, *filter(_visible, self.links)})

    def read(self, member: str) -> bytes:
        if member in self.links:
            fault = f"{self.full_name(member)} is a link to {self.links[member]}, which is not followed"
            raise ImageFault(f"{fault}; pack the file itself (tar --dereference)", Reason.MISSING_IMAGE)
        if member not in self.members:
            raise ImageFault(f"{self.path} has no file {member}", Reason.MISSING_IMAGE)
        start, size = self.members[member]
        if size > BYTES:
            fault = f"{self.full_name(member)} has {size:,} bytes, more than {BYTES:,}"
            raise ImageFault(fault, Reason.LARGE_IMAGE)
        return os.pread(self.file.fileno(), size, start)

    def head(self, member: str) -> bytes:
        start, size = self.members.get(member, (0, 0))  # nothing of a link
        return os.pread(self.file.fileno(), min(size, HEAD), start)

    def stamp(self, member: str) -> object:
        return None


class Packed(Home):
    """Images of one size in one file, numbered from 0: IDX, or a batch of CIFAR-10 in binary form."""

    labels: list[str] | None

    def __init__(self, path: str):
        self.path, self.labels = path, None
        content = b"".join(Input(path).blocks())
        if BATCH.search(os.path.basename(path)):
            self.images, self.labels = self._cifar(content)
        else:
            self.images = _idx(content, path, (3, 4))
            self.labels = self._idx_labels()
        if self.images.ndim == 3:
            self.images = self.images[..., None]
        if self.labels is not None and len(self.labels) != len(self.images):
            counts = f"{len(self.images):,} images and {len(self.labels):,} labels"
            raise InputError(f"{path} has {counts}; copy both files again")

    def _cifar(self, content: bytes) -> tuple[np.ndarray, list[str]]:
        if len(content) % CIFAR:
            rule = f"a batch of CIFAR-10 has {CIFAR:,} bytes per image"
            raise InputError(f"{self.path} has {len(content):,} bytes; {rule}: copy it again")
        rows = np.frombuffer(content, np.uint8).reshape(-1, CIFAR)
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        names, meta = [], Path(self.path).with_name("batches.meta.txt")
        if meta.exists():
            names = meta.read_text(encoding="utf-8", errors="replace").split()
        return images, [names[i] if i < len(names) else str(i) for i in rows[:, 0].tolist()]

    def _idx_labels(self) -> list[str] | None:
        path = Path(self.path)
        name = re.sub(r"images?([-.])idx[34]", r"labels\1idx1", path.name)
        for file in (path.with_name(name), path.with_name(name.removesuffix(".gz"))):
            if file.exists() and file != path:
                labels = _idx(b"".join(Input(file).blocks()), str(file), (1,))
                return [str(label) for label in labels.tolist()]
        return None

    @cached_property
    def names(self) -> list[str]:
        return [str(number) for number in range(len(self.images))]

    def read(self, member: str) -> np.ndarray:
        if not member.isdecimal() or int(member) >= len(self.images):
            raise ImageFault(
                f"{self.path} has {len(self.images):,} images, no {member}", Reason.MISSING_IMAGE
            )
        return self.images[int(member)]

    def head(self, member: str) -> bytes:
        return b""

    @property
    def image_names(self) -> list[str]:
        return self.names

    def stamp(self, member: str) -> object:
        return None

    def label(self, member: str) -> str | None:
        return None if self.labels is None else self.labels[int(member)]

    def full_name(self, member: str) -> str:
        return f"{self.path}#{member}"


def _idx(content: bytes, path: str, dimensions: tuple[int, ...]) -> np.ndarray:
    """Return the array of an IDX file: 0, 0, type 8 (bytes), dimensions, then their sizes (big-endian)."""
    count = content[3] if len(content) > 3 else 0
    if content[:3] != b"\x00\x00\x08" or count not in dimensions:
        raise InputError(f"{path} is not an IDX file of bytes with {dimensions[0]} dimensions; copy it again")
    start = 4 + 4 * count
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    needed = int(np.prod([*shape], dtype=object))
    if len(content) - start != needed:
        raise InputError(f"{path} has {len(content) - start:,} bytes of data, not {needed:,}; copy it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _visible(name: str) -> bool:
    return not any(part.startswith((".", "__MACOSX")) for part in name.removeprefix("./").split("/"))


def is_image(name: str) -> bool:
    """Whether a file is an image by the ending of its name."""
    return name.lower().endswith((*SUFFIXES, *CAMERAS))


def format_of(content: bytes) -> str | None:
    """Return the image format that a file has by its first bytes; None if it has none that is known."""
    head = content[:HEAD]
    return next((name for name, sign in BEGINNINGS.items() if re.match(sign, head, re.DOTALL)), None)


def is_archive(path: str) -> bool:
    return uncompressed(path).suffix.lower() in ARCHIVES


def is_packed(path: str) -> bool:
    name = os.path.basename(path)
    return bool(IDX.search(name) or BATCH.search(name))


def is_home(path: str) -> bool:
    """Whether a path names a folder, an archive, a folder in one, or a packed file."""
    if os.path.isdir(path) or is_archive(path) or is_packed(path):
        return True
    archive = None if is_image(path) else archive_above(path)
    return archive is not None and not open_home(archive).has(Path(path).relative_to(archive).as_posix())


def archive_above(path: str) -> str | None:
    """Return the archive that a path like photos.zip/train leads into."""
    if os.path.exists(path):
        return None
    return next((str(each) for each in Path(path).parents if each.is_file() and is_archive(str(each))), None)


def common_folder(images: Iterable[str]) -> str:
    """Return the deepest folder that holds all images of these names; "" if there is none."""
    return os.path.commonpath({os.path.dirname(name) for name in images} or {""})


def class_folder(images: Iterable[str]) -> str:
    """Return the deepest folder whose sub-folders hold all images of these names."""
    folders = {os.path.dirname(name) for name in images}
    return os.path.dirname(*folders) if len(folders) == 1 else os.path.commonpath(folders or {""})


def open_home(path: str) -> Home:
    """Open a folder, an archive, a folder in one, or a packed file; an unchanged file is opened once."""
    if os.path.isdir(path):
        return Folder(path)
    if archive := archive_above(path):
        found = FolderInArchive(path, open_home(archive), Path(path).relative_to(archive).as_posix())
        if not found.names:
            raise InputError(f"{archive} has no folder {found.folder}; name one of its folders, or {archive}")
        return found
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(f"{path} does not exist; name a folder or an archive of images") from error
    return _opened(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=16)
def _opened(path: str, *stamp: int) -> Home:
    if is_packed(path):
        return Packed(path)
    if not is_archive(path):
        raise InputError(f"{path} is neither a folder nor a .zip or .tar archive; name one of them")
    return Zip(path) if path.lower().endswith(".zip") else Tar(path)


def find_picture(name: str) -> Picture:
    """Return the picture of a name: a file, a data URI, ARCHIVE/MEMBER, or PACKED#NUMBER."""
    if not name.strip():
        raise ImageFault("the name of an image is blank; give a path", Reason.MISSING_IMAGE)
    if name.startswith(URI):
        return Picture(name, content=_of_uri(name))
    packed, mark, number = name.rpartition("#")
    if mark and number.isdecimal() and is_packed(packed) and os.path.isfile(packed):
        return Picture(name, packed, number)
    if archive := archive_above(name):
        return Picture(name, archive, Path(name).relative_to(archive).as_posix())
    folder, member = os.path.split(name)
    return Picture(name, folder or ".", member)


def _of_uri(uri: str) -> bytes:
    head, comma, text = uri.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError("it is not in base64")
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ImageFault(f"{uri[:40]}… is not an image in a data URI: {error}") from error


def to_uri(pixels: np.ndarray) -> str:
    """Return an image (H, W, C) as a data URI of a PNG file."""
    file = io.BytesIO()
    _pillow().fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG", optimize=True)
    return f"{URI}png;base64,{base64.b64encode(file.getvalue()).decode()}"


def thumbnail(picture: Picture, channels: int, size: int = 64) -> str:
    """Return a small image as a data URI of a JPEG file."""
    file, pixels = io.BytesIO(), decoded(picture, size, channels)
    _pillow().fromarray(pixels[..., 0] if channels == 1 else pixels).save(file, "JPEG", quality=80)
    return f"{URI}jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"


# Decoding ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("reading images needs pillow; install seqwright[images]") from error
    # larger images are refused by their size, with file and line
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    Image.init()  # fills the table of formats
    return Image


def _formats() -> list[str]:
    """Return the formats that the installed pillow decodes, with the plugins of this process."""
    try:
        from PIL.AvifImagePlugin import SUPPORTED as avif
    except ImportError:  # pillow before 11.3
        avif = False
    return [name for name in FORMATS if name in _pillow().OPEN and (avif or name != "AVIF")]


def checked(picture: Picture) -> Picture:
    """Return the picture with its facts, after decoding it once; a picture that cannot be used is an
    ImageFault. The result is remembered as long as the file stays the same.
    """
    content = picture.content
    if content is not None:
        return picture._replace(facts=_facts(content, picture.name))
    home = open_home(picture.home)
    key = (home, picture.member, home.stamp(picture.member))
    known = _KNOWN.get(key)
    if known is None:
        try:
            known = _facts(home.read(picture.member), picture.name)
        except ImageFault as fault:
            known = fault
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    if isinstance(known, ImageFault):
        raise ImageFault(str(known), known.reason)
    return picture._replace(facts=known)


_KNOWN: dict[tuple[Home, str, object], Facts | ImageFault] = {}
MOST_KNOWN = 1 << 21


def _facts(content: Content, name: str) -> Facts:
    if isinstance(content, np.ndarray):
        height, width, channels = content.shape
        return Facts(width, height, channels > 1, _digest(np.ascontiguousarray(content).tobytes()))
    with _open(content, name) as image:
        width, height, colour = image.width, image.height, image.mode not in GREY
        image.draft(image.mode, (64, 64))  # JPEG only: all of the file is read, few pixels are computed
        # other modes are converted, too: what cannot be converted is a fault
        _loading(name, image.load if image.mode in USUAL else lambda: _plain(image))
        return Facts(width, height, colour, _digest(content))


DEPTHS = (8, 12, 16)  # bits of an image
USUAL = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N", "F")


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") >> 1


def _open(content: bytes, name: str) -> Any:
    """Open an image and check its size, before anything is decoded."""
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(content), formats=_formats())
    except pillow.DecompressionBombError as error:
        raise ImageFault(f"{name} has more than {LARGE} megapixels", Reason.LARGE_IMAGE) from error
    except Exception as error:  # the readers of damaged files raise anything
        raise ImageFault(f"{name} {_fault_of(content)}") from error
    _check_size(image, name)
    return image


def _check_size(image: Any, name: str) -> None:
    if image.width * image.height > PIXELS:
        size = f"{image.width:,} × {image.height:,} pixels"
        raise ImageFault(f"{name} has {size}, more than {LARGE} megapixels", Reason.LARGE_IMAGE)


def _fault_of(content: bytes) -> str:
    """Return why content cannot be opened, as the end of a sentence."""
    if not content:
        return "is empty"
    known = format_of(content)
    if known is None or known in _formats():
        return "is not an image, or is damaged"
    shown = "HEIC" if known == "HEIF" else known
    return f"has the format {shown}, which pillow does not decode here; convert it to JPEG or PNG"


def _loading(name: str, load: Callable[[], R]) -> R:
    try:
        return load()
    except Exception as error:  # the decoders of damaged files raise anything
        raise ImageFault(f"{name} is damaged: {error}") from error


def decoded(picture: Picture, size: int, channels: int) -> np.ndarray:
    """Return the pixels of a whole image at the training size (size, size, channels), uint8.

    The aspect ratio is not kept. Transparent pixels are laid over white, EXIF rotations are applied, deep
    images are scaled to bytes (`_eight_bits`), and of an animation the first frame counts.
    """
    content, pillow = picture.read(), _pillow()
    if isinstance(content, np.ndarray):
        if content.shape == (size, size, channels):
            return content
        image = pillow.fromarray(content[..., 0] if content.shape[-1] == 1 else content)
        return _resized(image, size, channels)
    with _open(content, picture.name) as image:
        image.draft(image.mode, (2 * size, 2 * size))  # JPEG only: decodes at a fraction of the size
        return _loading(picture.name, lambda: _resized(_upright(image), size, channels))


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image) if image.format != "GIF" else image


def of_pillow(image: Any) -> Picture:
    """Return the picture of a PIL image, with the pixels that its file would have."""
    name = f"image of {image.width} × {image.height} pixels"
    _check_size(image, name)
    pixels = _loading(name, lambda: np.asarray(_plain(_upright(image)), np.uint8))
    return Picture(name, content=pixels[..., None] if pixels.ndim == 2 else pixels)


def _plain(image: Any) -> Any:
    """Return an image with 8 bits, grey (L) or in colours (RGB); transparent pixels are laid over white."""
    pillow, grey = _pillow(), image.mode in GREY
    if image.mode.startswith(("I", "F")):
        image = pillow.fromarray(_eight_bits(np.asarray(image, np.float64)))
    if image.mode in ("La", "RGBa"):  # multiplied by alpha
        image = image.convert(image.mode.upper())
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = pillow.new("RGBA", image.size, (255, 255, 255, 255))
        image = pillow.alpha_composite(white, image)
    if image.mode == "LAB":
        from PIL import ImageCms

        ends = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(image, *ends, outputMode="RGB")
    mode = "L" if grey else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _eight_bits(numbers: np.ndarray) -> np.ndarray:
    """Return the bytes of an image with more bits.

    Fractions from 0 to 1, and numbers of 8, 12 or 16 bits, keep their scale: an image of 12 bits in a file of
    16 is not dark. Other numbers are scaled from the least to the greatest of the image.
    """
    if not np.isfinite(numbers).all():
        raise ValueError("it has numbers that are not finite")
    low, high = float(numbers.min()), float(numbers.max())
    top = next((2**bits for bits in DEPTHS if high < 2**bits), None)
    if low < 0 or top is None:
        scaled = np.round(255 * (numbers - low) / ((high - low) or 1.0))
    elif high <= 1:
        scaled = np.round(255 * numbers)
    else:
        scaled = np.floor(256 / top * numbers)
    return scaled.astype(np.uint8)


def _resized(image: Any, size: int, channels: int) -> np.ndarray:
    pillow, mode, image = _pillow(), "L" if channels == 1 else "RGB", _plain(image)
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (size, size):
        image = image.resize((size, size), pillow.Resampling.BICUBIC, reducing_gap=3.0)
    return np.asarray(image, np.uint8).reshape(size, size, channels)


def in_parallel(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield function(item) in order, computed by as many threads as there are cores, a few items ahead.

    The codecs of pillow release Python's lock.
    """
    rest = iter(items)
    with ThreadPoolExecutor(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    ) as pool:
        while block := list(islice(rest, TOGETHER)):
            runs = [block[start : start + RUN] for start in range(0, len(block), RUN)]
            for done in pool.map(lambda run: [function(item) for item in run], runs):
                yield from done


def as_array(given: Any) -> np.ndarray:
    """Return pixels (H, W, C) of an array: bytes, truth values, or numbers from 0 to 1."""
    array = np.asarray(given)
    if array.dtype == np.bool_:
        array = array.astype(np.float32)
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4) or 0 in array.shape:
        shape = " × ".join(map(str, np.shape(given)))
        raise InputError(f"an array of {shape} is not an image; give height × width × 1, 3 or 4 channels")
    if np.issubdtype(array.dtype, np.floating):
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise InputError("an image of fractions has numbers from 0 to 1; give whole numbers to 255")
        array = np.round(255 * array)
    elif array.dtype != np.uint8 and not (array.min() >= 0 and array.max() <= 255):
        raise InputError("an image of whole numbers has numbers from 0 to 255; scale it")
    return array.astype(np.uint8)
