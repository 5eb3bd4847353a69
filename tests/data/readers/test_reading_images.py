"""Layouts of images with labels or captions, and images that cannot be used."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seqwright.config import DataConfig
from seqwright.data.corpus import Corpus
from seqwright.data.glance import look_at, recognise
from seqwright.data.images import ImageFault, checked, find_picture, to_uri
from seqwright.data.read_report import ReadReport, Reason
from seqwright.data.readers.images import files_of, image_layout, images_in, open_images, tables_and_home
from seqwright.data.split import parts_in
from seqwright.data.task import task_class
from seqwright.errors import InputError
from seqwright.pipeline.design import design

LABELS = ("cat", "dog")


def image(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def by_class(folder: Path, count: int = 12, seed: int = 0) -> Path:
    for number in range(count):
        image(folder / LABELS[number % 2] / f"{number}.png", seed + number)
    return folder


def zipped(folder: Path, top: str = "") -> Path:
    """An archive of a folder, as a Mac makes it: below a top folder, with files of the system."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(folder.rglob("*.*")):
            file.write(each, top / each.relative_to(folder))
        file.writestr("__MACOSX/photos/._0.png", b"resource fork")
        file.writestr(f"{top}/.DS_Store", b"icons")
    shutil.rmtree(folder)
    return path


def table(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def layouts(home: Path, layout: str) -> Path:
    """Twelve images of two classes in one layout."""
    folder = by_class(home / "photos")
    rows = [(f"photos/{LABELS[n % 2]}/{n}.png", LABELS[n % 2]) for n in range(12)]
    if layout == "folders":
        return folder
    if layout == "zip":
        return zipped(folder)
    if layout == "zip with a top folder":
        return zipped(folder, "set/photos")
    if layout == "a folder in a zip":
        return zipped(folder, "set/photos") / "set"
    if layout == "a folder in a folder":
        (home / "above").mkdir()
        folder.rename(home / "above" / "photos")
        return home / "above"
    if layout == "tsv":
        return table(home / "t.tsv", [f"{name}\t{label}" for name, label in rows])
    if layout == "csv with header":
        return table(home / "t.csv", ["file,label", *(f"{name},{label}" for name, label in rows)])
    if layout == "label first":
        return table(home / "t.tsv", [f"{label}\t{name}" for name, label in rows])
    if layout == "data URIs":
        uris = [(to_uri(np.asarray(Image.open(home / name))), label) for name, label in rows]
        return table(home / "t.tsv", [f"{uri}\t{label}" for uri, label in uris])
    entries = [{"file_name": name.removeprefix("photos/"), "label": label} for name, label in rows]
    if layout == "metadata.jsonl":
        table(folder / "metadata.jsonl", list(map(json.dumps, entries)))
    if layout == "metadata.csv":
        lines = [f"{entry['file_name']},{entry['label']}" for entry in entries]
        table(folder / "metadata.csv", ["file_name,label", *lines])
    return folder


@pytest.mark.parametrize(
    "layout",
    [
        *("folders", "zip", "tsv", "csv with header", "label first", "data URIs"),
        *("zip with a top folder", "a folder in a zip", "a folder in a folder"),
        *("metadata.jsonl", "metadata.csv"),
    ],
)
def test_layouts_of_labels_are_recognised_and_read(layout, tmp_path):
    path = str(layouts(tmp_path, layout))
    assert recognise([path], DataConfig(), "text_to_text").task == "image_classification"
    reader, report = open_images([path], DataConfig()), ReadReport()
    read = list(reader.read(report))
    assert len(read) == 12
    assert not report.counts
    assert [example.label for example in read].count("cat") == 6
    assert len({example.image.facts.digest for example in read}) == 12
    assert all(example.place.file in files_of([path], DataConfig()) for example in read)
    assert all(isinstance(form, str) for form in reader.form)
    if layout != "data URIs":
        names = {int(Path(example.image.name).stem) % 2 == 0 for example in read if example.label == "cat"}
        assert names == {True}


CAPTIONS = ["a cat sleeps on the mat", "the dog runs over a green field", "two boats lie in the harbour"]


def captioned(home: Path, layout: str) -> tuple[Path, DataConfig]:
    """Three images with two captions each."""
    for number in range(3):
        image(home / "images" / f"{number}.jpg", number)
    rows = [(f"{n}.jpg", f"{text} {again}") for n, text in enumerate(CAPTIONS) for again in "ab"]
    data = DataConfig(images=str(home / "images"))
    if layout == "tsv":
        return table(home / "c.tsv", [f"{name}\t{text}" for name, text in rows]), data
    if layout == "Kaggle":
        return table(home / "captions.csv", ["image,caption", *(f"{n},{t}" for n, t in rows)]), data
    if layout == "Flickr8k":
        lines = [f"{name}#{number % 2}\t{text}" for number, (name, text) in enumerate(rows)]
        return table(home / "Flickr8k.token.txt", lines), data
    if layout == "archive":
        data = DataConfig(images=str(zipped(home / "images")))
        return table(home / "c.tsv", [f"{name}\t{text}" for name, text in rows]), data
    if layout.startswith("archive with a top folder"):
        archive = zipped(home / "images", "Flicker8k_Dataset")
        inside = archive / "Flicker8k_Dataset" if layout.endswith("named") else archive
        return table(home / "c.tsv", [f"{name}\t{text}" for name, text in rows]), DataConfig(
            images=str(inside)
        )
    if layout == "COCO":
        images = [{"id": 10 + n, "file_name": f"{n}.jpg"} for n in range(3)]
        notes = [{"image_id": 10 + int(name[0]), "caption": text} for name, text in rows]
        (home / "c.json").write_text(json.dumps({"images": images, "annotations": notes}))
        return home / "c.json", data
    if layout == "metadata":
        entries = [{"file_name": name, "text": text} for name, text in rows]
        table(home / "images" / "metadata.jsonl", list(map(json.dumps, entries)))
    else:
        for n in range(3):
            table(home / "images" / f"{n}.txt", [text for name, text in rows if name == f"{n}.jpg"])
    return home / "images", DataConfig()


@pytest.mark.parametrize(
    "layout",
    [
        *("tsv", "Kaggle", "Flickr8k", "archive", "COCO", "metadata", "texts of the same name"),
        *("archive with a top folder", "archive with a top folder that is named"),
    ],
)
def test_layouts_of_captions_are_recognised_and_read(layout, tmp_path):
    path, data = captioned(tmp_path, layout)
    glance = look_at([str(path)], data)
    assert glance is not None
    assert image_layout(glance).kind == "captions"
    read = list(open_images([str(path)], data).read(ReadReport()))
    assert [example.text for example in read] == [f"{text} {again}" for text in CAPTIONS for again in "ab"]
    assert [Path(example.image.name).name for example in read] == [f"{n}.jpg" for n in range(3) for _ in "ab"]
    homes = [str(path), *([] if data.images is None else [data.images])]
    assert all(Path(each).is_file() for each in files_of([str(path)], data))
    named = tables_and_home(homes, DataConfig()) if len(homes) > 1 else None
    assert named == (None if data.images is None else ([str(path)], data.images))


def test_objects_of_coco_are_no_captions(tmp_path):
    document = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"image_id": 1, "bbox": [0] * 4}],
    }
    (tmp_path / "instances.json").write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"annotations with image_id, bbox and no caption; captions are needed"
    ):
        list(open_images([str(tmp_path / "instances.json")], DataConfig()).read(ReadReport()))


@pytest.mark.parametrize("key", [[1], {}, None, 1.5])
def test_ids_of_coco_that_are_no_numbers_or_texts_are_bad_rows(key, tmp_path):
    path, data = captioned(tmp_path, "COCO")
    document = json.loads(path.read_text())
    document["images"].append({"id": key, "file_name": "0.jpg"})
    document["annotations"].append({"image_id": key, "caption": "a caption of no image"})
    path.write_text(json.dumps(document))
    report = ReadReport()
    assert len(list(open_images([str(path)], data).read(report))) == 6
    assert {reason: [str(place) for place in found.places] for reason, found in report} == {
        Reason.BAD_ROW: [f"{path}:4", f"{path}:7"]
    }
    assert report.counts[Reason.BAD_ROW].fault.startswith(
        "image 4 has no file_name, or no id that is a number"
    )


def test_a_folder_that_an_archive_does_not_have_is_named(tmp_path):
    path, data = captioned(tmp_path, "archive with a top folder")
    with pytest.raises(InputError, match=r"images\.zip has no folder none; name one of its folders"):
        list(open_images([str(path)], replace(data, images=f"{data.images}/none")).read(ReadReport()))


def test_predictions_take_a_folder_in_an_archive(tmp_path):
    folder = zipped(by_class(tmp_path / "photos"), "photos") / "photos" / "cat"
    names = [picture.name for picture in images_in(str(folder))]
    assert names == [f"{folder}/{number}.png" for number in (0, 10, 2, 4, 6, 8)]
    assert all(checked(find_picture(name)).facts.width == 8 for name in names)


def test_images_of_equal_content_are_one_group(tmp_path):
    folder = by_class(tmp_path / "photos")
    shutil.copy(folder / "cat" / "0.png", folder / "cat" / "copy.png")
    task = task_class("image_classification")
    read = list(open_images([str(folder)], DataConfig()).read(ReadReport()))
    assert len(read) == 13
    assert len({task.group(example) for example in read}) == 12


def test_faults_are_counted_with_their_places(tmp_path):
    folder = by_class(tmp_path / "photos", 20)
    (folder / "cat" / "0.png").write_bytes(b"junk")
    (folder / "cat" / "2.png").write_bytes((folder / "cat" / "4.png").read_bytes()[:60])
    Image.new("1", (8000, 7000)).save(folder / "cat" / "6.png")
    (tmp_path / "secret.png").write_bytes((folder / "cat" / "4.png").read_bytes())
    lines = [f"photos/{LABELS[n % 2]}/{n}.png\t{LABELS[n % 2]}" for n in range(20)]
    path = table(tmp_path / "t.tsv", [*lines, "photos/none.png\tdog", "../x/secret.png\tdog"])
    report = ReadReport()
    read = list(open_images([str(path)], DataConfig()).read(report))
    assert len(read) == 17
    places = {reason: [str(place) for place in found.places] for reason, found in report}
    assert places == {
        Reason.BAD_IMAGE: [f"{path}:1", f"{path}:3"],
        Reason.LARGE_IMAGE: [f"{path}:7"],
        Reason.MISSING_IMAGE: [f"{path}:21"],
        Reason.OUTSIDE_IMAGE: [f"{path}:22"],
    }
    assert "0.png is not an image" in report.counts[Reason.BAD_IMAGE].fault


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40)


def endings(home: Path, kept: str) -> Path:
    """Images of two classes with rare endings and none, one HEIC file and two texts."""
    for number in range(12):
        path = image(home / LABELS[number % 2] / f"{number}.png", number)
        path.rename(path.with_suffix((".jfif", ".JPE", "", ".upload")[number // 2 % 4]))
    (home / "cat" / "phone.HEIC").write_bytes(HEIC)
    (home / "dog" / "disguised").write_bytes(HEIC)
    (home / "cat" / "README").write_text("Photos of cats.")
    (home / "dog" / "notes.md").write_text("P1 3 is no picture")
    if kept == "folder":
        return home
    made = shutil.make_archive(str(home), "zip" if kept == "zip" else "tar", home)
    return Path(made)


@pytest.mark.parametrize("kept", ["folder", "zip", "tar"])
def test_images_of_every_ending_are_read_or_counted(kept, tmp_path):
    path = str(endings(tmp_path / "photos", kept))
    assert recognise([path], DataConfig(), "text_to_text").task == "image_classification"
    reader, report = open_images([path], DataConfig()), ReadReport()
    assert len(list(reader.read(report))) == 12
    assert {reason: found.count for reason, found in report} == {Reason.BAD_IMAGE: 2}
    fault = report.counts[Reason.BAD_IMAGE].fault
    assert fault.endswith(
        "phone.HEIC has the format HEIC, which pillow does not decode here; convert it to JPEG or PNG"
    )
    names = [picture.name for picture in images_in(path)]
    assert len(names) == 14
    with suppress(ImageFault):
        assert all(checked(find_picture(name)).facts.width == 8 for name in names)


def test_a_folder_of_heic_names_the_format(tmp_path):
    for number in range(6):
        (tmp_path / "photos" / LABELS[number % 2]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / LABELS[number % 2] / f"{number}.heic").write_bytes(HEIC)
    path = str(tmp_path / "photos")
    assert recognise([path], DataConfig(), "text_to_text").task == "image_classification"
    with pytest.raises(InputError, match=r"0\.heic has the format HEIC, .* 6 of 6 images cannot be used"):
        list(open_images([path], DataConfig()).read(ReadReport()))


def test_a_few_drawings_do_not_make_a_folder_of_images(tmp_path):
    for number in range(30):
        folder = tmp_path / "docs" / LABELS[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.txt").write_text("A sentence about something. " * 40)
        (folder / "figure.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    glance = look_at([str(tmp_path / "docs")], DataConfig())
    assert glance is not None
    assert image_layout(glance) is None


def test_images_outside_of_the_folder_are_not_read(tmp_path):
    by_class(tmp_path / "data" / "photos", 4)
    secret = image(tmp_path / "secret.png", 9)
    inside = tmp_path / "data" / "photos" / "cat" / "0.png"
    rows = [f"{secret}\tcat", "photos/../../secret.png\tcat", f"{inside}\tcat", "photos/cat/2.png\tdog"]
    path, report = table(tmp_path / "data" / "t.tsv", rows), ReadReport()
    read = list(open_images([str(path)], DataConfig(columns="1:2", header=False)).read(report))
    assert [Path(example.image.name).name for example in read] == ["0.png", "2.png"]
    assert report[Reason.OUTSIDE_IMAGE] == 2


def test_links_to_images_are_followed_and_links_to_folders_are_named(tmp_path):
    folder, other = by_class(tmp_path / "photos", 6), by_class(tmp_path / "all", 8, seed=50)
    (folder / "cat" / "link.png").symlink_to(other / "cat" / "0.png")
    (folder / "dog" / "broken.png").symlink_to(other / "dog" / "none.png")
    (folder / "bird").symlink_to(other / "cat")
    report = ReadReport()
    read = list(open_images([str(folder)], DataConfig()).read(report))
    assert [Path(each.image.name).name for each in read if each.label == "cat"].count("link.png") == 1
    assert len(read) == 7
    places = {reason: [str(place) for place in found.places] for reason, found in report}
    assert places == {
        Reason.OUTSIDE_IMAGE: [f"{folder}/bird"],
        Reason.MISSING_IMAGE: [f"{folder}/dog/broken.png"],
    }
    assert "bird is a link to a folder, which is not followed" in report.counts[Reason.OUTSIDE_IMAGE].fault


def test_a_folder_of_links_to_folders_is_named(tmp_path):
    by_class(tmp_path / "all", 4)
    (tmp_path / "photos").mkdir()
    for label in LABELS:
        (tmp_path / "photos" / label).symlink_to(tmp_path / "all" / label)
    with pytest.raises(InputError, match=r"photos has links to folders \(cat, dog\), which are not followed"):
        design({"data": {"train": [str(tmp_path / "photos")]}})


def test_mostly_missing_images_are_an_error_that_names_the_first(tmp_path):
    path = table(tmp_path / "t.tsv", [f"{n}.png\t{LABELS[n % 2]}" for n in range(30)])
    assert recognise([str(path)], DataConfig(), "text_to_text").task == "image_classification"
    with pytest.raises(InputError, match=r"t\.tsv:1: .*0\.png does not exist; 30 of 30 .*FOLDER .*t\.tsv"):
        list(open_images([str(path)], DataConfig()).read(ReadReport()))


@pytest.mark.parametrize("archived", [False, True])
def test_images_without_folders_of_classes_are_named(archived, tmp_path):
    folder = image(tmp_path / "flat" / "0.png", 0).parent
    path = str(zipped(folder) if archived else folder)
    assert recognise([path], DataConfig(), "text_to_text").task == "image_classification"
    with pytest.raises(InputError, match=r"flat.* has no sub-folders with images; put them .* name a table"):
        list(open_images([path], DataConfig()).read(ReadReport()))


def test_a_table_next_to_the_images_is_named(tmp_path):
    folder = image(tmp_path / "flat" / "0.png", 0).parent
    (folder / "captions.CSV").write_text("image,caption\n0.png,a picture\n")
    with pytest.raises(InputError, match=r"or captions, such as .*flat/captions\.CSV$"):
        list(open_images([str(folder)], DataConfig()).read(ReadReport()))


def test_folders_without_images_are_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no images"):
        list(open_images([str(tmp_path / "empty")], DataConfig()).read(ReadReport()))


def idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


@pytest.mark.parametrize("top", ["", "set"])
def test_parts_of_folders_archives_and_packed_files(top, tmp_path):
    home = tmp_path / "set" / top
    for part in ("train", "val", "test"):
        by_class(home / part, 6, seed=100 * len(part))
    expected = {"train": ["train"], "valid": ["val"], "test": ["test"]}
    found = parts_in(str(tmp_path / "set"))
    assert {part: [Path(path).name for path in paths] for part, paths in found.items()} == expected
    archive = zipped(tmp_path / "set")
    parts = parts_in(str(archive))
    read = list(open_images(parts["valid"], DataConfig()).read(ReadReport()))
    assert sorted(example.label for example in read) == ["cat"] * 3 + ["dog"] * 3
    packed = tmp_path / "mnist"
    packed.mkdir()
    for part, count in (("train", 30), ("t10k", 10)):
        idx(
            packed / f"{part}-images-idx3-ubyte", np.random.default_rng(count).integers(0, 256, (count, 8, 8))
        )
        idx(packed / f"{part}-labels-idx1-ubyte", np.arange(count) % 2)
    corpus = Corpus(
        task_class("image_classification"),
        DataConfig(**{part: tuple(paths) for part, paths in parts_in(str(packed)).items()}),
    )
    assert len(list(corpus.examples("test"))) == 10
    assert {example.label for example in corpus.examples("train")} == {"0", "1"}
