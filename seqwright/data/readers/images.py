"""Images with labels or captions, in the layouts in which people have them.

| layout | text |
|---|---|
| a folder or an archive with a sub-folder for each class | the name of the sub-folder |
| a folder with metadata.jsonl or metadata.csv (`file_name`, then `label` or `text`) | that column |
| a folder in which images have a .txt file of the same name | its content |
| TSV, CSV, JSONL with a column of paths or data URIs; Flickr8k's `x.jpg#0<TAB>caption` | the other column |
| captions of COCO in JSON | each caption |
| IDX (MNIST), batches of CIFAR-10 | the label |

A folder in which everything lies counts as the folder or archive itself. Every image is decoded once when it
is read. An image that cannot be used is counted with its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from seqwright.data.glance import METADATA, ColumnGlance, FolderGlance, Glance, look_at
from seqwright.data.images import (
    URI,
    Folder,
    Home,
    ImageFault,
    Packed,
    Picture,
    archive_above,
    checked,
    class_folder,
    find_picture,
    in_parallel,
    is_home,
    is_image,
    is_packed,
    open_home,
)
from seqwright.data.progress import counted
from seqwright.data.read_report import Place, ReadReport, Reason
from seqwright.data.readers.files import files_in
from seqwright.data.readers.jsonl import json_document
from seqwright.data.readers.labelled import LABELS
from seqwright.data.readers.lines import Decoding
from seqwright.data.readers.opened import OpenedFiles
from seqwright.data.readers.pairs import PairFiles, SkipRules
from seqwright.data.readers.sniffing import FormatOptions
from seqwright.data.readers.unlabelled import OBJECTS, TABLES, ending
from seqwright.data.text_display import pluralize, shorten_list
from seqwright.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seqwright.config import DataConfig

Kind = Literal["labels", "captions"]

NAMES = ("file_name", "filename", "file", "path", "image", "img", "image_path", "photo", "picture")
CAPTIONS = ("text", "caption", "captions", "description", "title", "comment", "sentence")
NUMBERED = re.compile(r"(\.\w+)#\d+$")  # x.jpg#0: the captions of an image in Flickr8k
SHARE = 0.9  # of cells that name images, or of images that have a text
LOOKED = 20  # images of a table that show which folder it means
WORDS = 3  # on average, below which texts that come again and again are labels
ENDLESS = 1 << 62  # code points of a caption: it is cut when it is encoded


class ImageExample(NamedTuple):
    """An image, its label or caption (None for an input without one), and where it comes from."""

    image: Picture
    text: str | None
    place: Place

    @property
    def label(self) -> str | None:
        return self.text


class Found(NamedTuple):
    """An image of the files before it is read; `home` None: the name is a data URI."""

    home: Home | None
    member: str
    text: str
    place: Place


class Layout(NamedTuple):
    """What the texts of images are, and the evidence for it in one sentence."""

    kind: Kind
    evidence: str


# Recognition ---------------------------------------------------------------------------------------


def image_layout(glance: Glance) -> Layout | None:
    """Return the layout of images in a glance, or None."""
    if glance.shape == "folder" and glance.folder is not None:
        return _folder_layout(glance.folder, glance.name)
    if glance.shape == "json":
        known = {"images", "annotations"} <= set(glance.keys)
        return (
            Layout("captions", f"{glance.name}: JSON with images and annotations (COCO)") if known else None
        )
    found = image_columns(glance)
    if found is None:
        return None
    image, text = found
    kind: Kind = "labels" if _are_labels(glance, text) else "captions"
    column = f"column {image.name} names images"
    return Layout(kind, f"{glance.name}: {column}, column {text.name} has {kind}")


def _are_labels(glance: Glance, column: ColumnGlance) -> bool:
    name = _heading(glance, column)
    if name in CAPTIONS:
        return False
    few = column.distinct <= max(glance.rows // 2, 3)
    return few and (name in LABELS or (column.repeated >= SHARE and column.words < WORDS))


def _heading(glance: Glance, column: ColumnGlance) -> str:
    """Return the name of a column; without names, its first cell."""
    head = column.name if glance.shape == "jsonl" else next(iter(column.sample), "")
    return head.strip().lower()


def image_columns(glance: Glance) -> tuple[ColumnGlance, ColumnGlance] | None:
    """Return the column that names images, and the column of their texts."""
    for image in glance.columns:
        cells = image.sample[1:] if _heading(glance, image) in NAMES else image.sample
        others = [column for column in glance.columns if column is not image]
        if others and cells and sum(map(names_image, cells)) >= SHARE * len(cells):
            ranks = {name: rank for rank, name in enumerate((*LABELS, *CAPTIONS))}
            return image, min(others, key=lambda other: ranks.get(_heading(glance, other), len(ranks)))
    return None


def names_image(cell: str) -> bool:
    return cell.startswith(URI) or is_image(NUMBERED.sub(r"\1", cell.strip()))


def _folder_layout(folder: FolderGlance, where: str) -> Layout | None:
    paths = [PurePosixPath(Path(name).as_posix()) for name in folder.files]
    if any(is_packed(path.name) for path in paths):
        return Layout("labels", f"{where}: images and labels in packed files (IDX or CIFAR-10)")
    images = [PurePosixPath(Path(name).as_posix()) for name in folder.images]
    if len(images) < SHARE * len(paths):  # a few icons without an ending do not make a folder of images
        images = [path for path in images if is_image(path.name)]
    if not images:
        return None
    texts = {path.with_suffix("") for path in paths if path.suffix.lower() == ".txt"}
    if sum(path.with_suffix("") in texts for path in images) >= SHARE * len(images):
        return Layout("captions", f"{where}: images have text files of the same name")
    above = class_folder(map(str, images))
    inside = [path.relative_to(above) for path in images]
    classes = {path.parts[0] for path in inside if len(path.parts) > 1}
    if len(classes) < 2 and len(images) < SHARE * len(paths):
        return None
    return Layout("labels", f"{where}: images in {pluralize(len(classes), 'folder')}, one per class")


# Reading -------------------------------------------------------------------------------------------


def open_images(paths: Sequence[str], data: DataConfig) -> ImageFiles:
    """Open images with their labels or captions, in any layout."""
    if not paths:
        raise ConfigError("no file to read; name one")
    return ImageFiles(tuple(paths), data)


@dataclass(frozen=True)
class ImageFiles(OpenedFiles):
    """Images in the order in which their files are named."""

    @property
    def columns(self) -> str | None:
        return self.data.columns

    @property
    def form(self) -> tuple[str, ...]:
        forms = dict.fromkeys(form for layout in self.layouts for form in layout.form)
        return (*forms, "images are resized as a whole; transparent ones are laid over white")

    @cached_property
    def layouts(self) -> list[_Files]:
        return [self._layout(path) for path in self.paths]

    def _layout(self, path: str) -> _Files:
        if is_home(path):
            return _in_home(path, self.data)
        if Path(path).suffix.lower() == ".json" and _is_coco(path):
            return _Coco(path, self.data)
        return _Table(path, self.data)

    def read(self, report: ReadReport) -> Iterator[ImageExample]:
        """Yield the images that can be used. If most of the others are missing, the first is an error."""
        seen = faults = 0
        first: ImageFault | None = None
        entries = (entry for layout in self.layouts for entry in layout.entries(report))
        for found, picture in counted(in_parallel(_checked, entries), "images checked"):
            seen += 1
            if isinstance(picture, Picture):
                yield ImageExample(picture, found.text, found.place)
                continue
            faults += 1
            first = first or ImageFault(f"{found.place}: {picture}", picture.reason)
            report.add(picture.reason, found.place, str(first))
        if not seen:
            raise InputError(f"{self.name} has no images; expected {', '.join(self.form[:1])}")
        if first is not None and 2 * faults > seen:
            count = f"{faults:,} of {seen:,} images cannot be used"
            raise InputError(f"{first}; {count}: fix them, or name their folder, too: FOLDER {self.name}")


def _checked(found: Found) -> tuple[Found, Picture | ImageFault]:
    try:
        return found, checked(_picture(found))
    except ImageFault as fault:
        return found, fault


def _picture(found: Found) -> Picture:
    if found.home is None:
        return find_picture(found.member)
    member = found.member
    if os.path.isabs(member) and isinstance(found.home, Folder):
        member = os.path.relpath(member, os.path.abspath(found.home.path))
    member = os.path.normpath(member) if isinstance(found.home, Folder) else member.removeprefix("./")
    if member.split(os.sep)[0] == ".." or os.path.isabs(member):
        fault = f"{found.member} is outside of {found.home.path}"
        raise ImageFault(f"{fault}; name its folder next to the table", Reason.OUTSIDE_IMAGE)
    return found.home.picture(found.home.find(member))


@dataclass(frozen=True)
class _Files:
    """One path of the data: how it is read, and the images that it names."""

    path: str
    data: DataConfig

    @property
    def form(self) -> tuple[str, ...]:
        raise NotImplementedError

    def entries(self, report: ReadReport) -> Iterator[Found]:
        raise NotImplementedError

    @cached_property
    def images(self) -> Home:
        """The home of the images that a table names."""
        return open_home(self.data.images or os.path.dirname(self.path) or ".")

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.data.encoding, self.data.on_bad_bytes, self.data.max_line)


def _in_home(path: str, data: DataConfig) -> _Files:
    if os.path.isdir(path):
        for name in METADATA:
            if os.path.isfile(os.path.join(path, name)):
                return _Table(os.path.join(path, name), data)
    return _Members(path, data)


@dataclass(frozen=True)
class _Members(_Files):
    """The images of a folder, an archive or packed files."""

    @cached_property
    def homes(self) -> list[tuple[Home, list[str]]]:
        """Homes with the names of their images."""
        home = open_home(self.path)
        packed = [] if isinstance(home, Packed) else [name for name in home.names if is_packed(name)]
        homes = [open_home(home.full_name(name)) for name in packed] or [home]
        return [(each, each.image_names) for each in homes]

    @property
    def form(self) -> tuple[str, ...]:
        homes = self.homes
        if any(isinstance(home, Packed) for home, _ in homes):
            return ("images in packed files",)
        entries = list(self.entries(ReadReport()))
        if self._twins:
            return (f"{pluralize(len(entries), 'image')} with text files of the same name",)
        labels = pluralize(len({entry.text for entry in entries}), "class", "classes")
        return (f"{pluralize(len(entries), 'image')} in folders of {labels}",)

    @cached_property
    def _twins(self) -> set[str]:
        """The names of text files, without their ending, if nearly every image has one."""
        names = (name for home, _ in self.homes for name in home.names)
        texts = {os.path.splitext(name)[0] for name in names if name.lower().endswith(".txt")}
        images = [os.path.splitext(name)[0] for _, images in self.homes for name in images]
        return texts if images and sum(name in texts for name in images) >= SHARE * len(images) else set()

    def entries(self, report: ReadReport) -> Iterator[Found]:
        for home, images in self.homes:
            if isinstance(home, Packed):
                for name in images:
                    yield Found(home, name, home.label(name) or "", home.place(name))
                continue
            if images and not (self._twins or any(map(os.path.dirname, images))):
                tables = [name for name in home.names if ending(name) in (*TABLES, *OBJECTS)]
                table = "a table of their labels or captions"
                if tables and os.path.isdir(self.path):
                    table += f", such as {os.path.join(self.path, tables[0])}"
                rule = f"put them in a folder for each class, or name {table}"
                raise InputError(f"{self.path} has no sub-folders with images; {rule}")
            for link in home.linked_folders if isinstance(home, Folder) else ():
                fault = f"{link} is a link to a folder, which is not followed; put a copy in its place"
                report.add(Reason.OUTSIDE_IMAGE, Place(link, 0), fault)
            classes = class_folder(images)
            for name in images:
                yield from self._entry(home, name, classes, report)

    def _entry(self, home: Home, name: str, classes: str, report: ReadReport) -> Iterator[Found]:
        place = home.place(name)
        if self._twins:
            stem = os.path.splitext(name)[0]
            content = home.read(f"{stem}.txt") if stem in self._twins else b""
            for line in bytes(content).decode(self.data.encoding, "replace").splitlines():
                if line.strip():
                    yield Found(home, name, line.strip(), place)
            return
        folders = PurePosixPath(Path(name).as_posix()).relative_to(classes).parts[:-1]
        if folders:
            yield Found(home, name, folders[0], place)
        else:
            report.add(Reason.BAD_ROW, place, f"{place}: the image is in no folder of a class")


@dataclass(frozen=True)
class _Table(_Files):
    """Rows of an image and its text. Paths are relative to the table, or to `data.images`."""

    @cached_property
    def pairs(self) -> PairFiles:
        data, glance = self.data, look_at([self.path], self.data)
        found = None if glance is None else image_columns(glance)
        if data.columns is None and (found is None or glance is None):
            raise InputError(
                f"{self.path}: no column has the names of images; name the columns, as in "
                "--columns file:label or --columns 1:2"
            )
        header, columns = data.header, data.columns
        if found is not None and glance is not None and columns is None:
            columns = ":".join(column.name for column in found)
            if header is None and glance.shape != "jsonl":
                header = _heading(glance, found[0]) in NAMES or not names_image(found[0].sample[0])
        evidence = "requested" if data.columns else "the image and its text"
        known = "requested" if header == data.header else "recognised by the names of images"
        options = FormatOptions(data.format, data.delimiter, header, columns, data.quoting, evidence, known)
        rules = SkipRules(data.skip_bad_rows, ENDLESS)
        return PairFiles([self.path], options=options, decoding=self.decoding, rules=rules)

    @property
    def form(self) -> tuple[str, ...]:
        return (*self.pairs.form, f"images in {self.images.path}")

    def entries(self, report: ReadReport) -> Iterator[Found]:
        for cell, text, place in self.pairs.read(report):
            home = None if cell.startswith(URI) else self.images
            yield Found(home, NUMBERED.sub(r"\1", cell.strip()), str(text).strip(), place)


@dataclass(frozen=True)
class _Coco(_Files):
    """Captions of COCO: {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}."""

    @property
    def form(self) -> tuple[str, ...]:
        return ("captions of COCO", f"images in {self.images.path}")

    def entries(self, report: ReadReport) -> Iterator[Found]:
        document = json_document(self.path)
        files: dict[int | str, str] = {}
        for number, image in enumerate(document["images"], start=1):
            fields = image if isinstance(image, dict) else {}
            key, name = fields.get("id"), fields.get("file_name")
            if isinstance(key, int | str) and isinstance(name, str):
                files[key] = name
            else:
                fault = f"image {number} has no file_name, or no id that is a number or a text"
                report.add(Reason.BAD_ROW, Place(self.path, number), fault)
        notes = document["annotations"]
        keys = dict.fromkeys(key for note in notes if isinstance(note, dict) for key in note)
        if notes and "caption" not in keys:
            rule = "captions are needed, as in captions_train2017.json"
            raise InputError(f"{self.path} has annotations with {shorten_list(keys)} and no caption; {rule}")
        for number, note in enumerate(notes, start=1):
            place, fields = Place(self.path, number), note if isinstance(note, dict) else {}
            caption, key = fields.get("caption"), fields.get("image_id")
            file = files.get(key) if isinstance(key, int | str) else None
            if isinstance(caption, str) and caption.strip() and file is not None:
                yield Found(self.images, file, " ".join(caption.split()), place)
            else:
                report.add(Reason.BAD_ROW, place, f"annotation {number} has no image or no caption")


def _is_coco(path: str) -> bool:
    document, keys = json_document(path), ("images", "annotations")
    return isinstance(document, dict) and all(isinstance(document.get(key), list) for key in keys)


def tables_and_home(paths: Sequence[str], data: DataConfig) -> tuple[list[str], str] | None:
    """Return the tables of a list like `photos captions.tsv`, and where the images are that they name."""
    homes = [path for path in paths if is_home(path)]
    tables = [path for path in paths if path not in homes]
    if len(homes) != 1 or not all(map(os.path.isfile, tables)) or data.images is not None:
        return None
    glance = look_at(tables, data) if tables else None
    if glance is None or image_layout(glance) is None or not open_home(homes[0]).image_names:
        return None
    near = os.path.dirname(tables[0]) or "."  # a table may name photos/1.jpg
    return tables, max((homes[0], near), key=lambda home: _known(tables[0], replace(data, images=home)))


def _known(table: str, data: DataConfig) -> int:
    """Return how many of the first images of a table exist."""
    (layout,) = ImageFiles((table,), data).layouts
    first = islice(layout.entries(ReadReport()), LOOKED)
    found = [(entry.home, entry.member) for entry in first if entry.home is not None]
    return sum(home.has(home.find(os.path.normpath(member))) for home, member in found)


def files_of(paths: Sequence[str], data: DataConfig) -> list[str]:
    """Return every file that reading depends on: tables, archives, and the images themselves."""
    homes = (*paths, *([] if data.images is None else [data.images]))
    found = [file for path in homes for file in files_in([archive_above(path) or path])]
    if data.images is None:
        tables = (each for each in ImageFiles(tuple(paths), data).layouts if not isinstance(each, _Members))
        found += [file for table in tables for file in _named(table)]
    return list(dict.fromkeys(found))


def _named(layout: _Files) -> list[str]:
    """Return the existing files that a table names."""
    entries = layout.entries(ReadReport())
    found = ((entry.home, entry.member) for entry in entries if entry.home is not None)
    files = (home.full_name(home.find(member)) for home, member in found)
    return [file for file in dict.fromkeys(files) if os.path.isfile(file)]


def images_in(path: str) -> Iterator[Picture]:
    """Yield the images of a folder, an archive or a packed file, in order."""
    home = open_home(path)
    names = home.image_names
    if not names:
        raise InputError(f"{path} has no images")
    yield from map(home.picture, names)
