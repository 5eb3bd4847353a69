"""Images: every format and every fault, homes, and the pixels that come out."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from seqwright.data import images, progress
from seqwright.data.images import (
    ImageFault,
    Picture,
    as_array,
    checked,
    decoded,
    find_picture,
    format_of,
    in_parallel,
    of_pillow,
    open_home,
    to_uri,
)
from seqwright.data.read_report import Reason
from seqwright.errors import InputError


def quarters() -> np.ndarray:
    """Red, green, blue and white quarters of 16 × 16 pixels."""
    pixels = np.zeros((16, 16, 3), np.uint8)
    pixels[:8, :8, 0] = pixels[:8, 8:, 1] = pixels[8:, :8, 2] = 255
    pixels[8:, 8:] = 255
    return pixels


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels_of(content: bytes, size: int = 16, channels: int = 3) -> np.ndarray:
    return decoded(checked(Picture("x", content=content)), size, channels)


LOSSLESS = {
    "PNG": lambda image: saved(image, "PNG"),
    "palette": lambda image: saved(image.quantize(8), "PNG"),
    "GIF": lambda image: saved(image, "GIF"),
    "BMP": lambda image: saved(image, "BMP"),
    "WebP": lambda image: saved(image, "WEBP", lossless=True),
    "TIFF": lambda image: saved(image, "TIFF"),
    "opaque RGBA": lambda image: saved(image.convert("RGBA"), "PNG"),
    "two frames": lambda image: saved(
        image, "GIF", save_all=True, append_images=[Image.new("RGB", (16, 16))], duration=100
    ),
}


@pytest.mark.parametrize("kind", LOSSLESS)
def test_formats_without_loss_give_the_pixels(kind):
    found = pixels_of(LOSSLESS[kind](Image.fromarray(quarters())))
    assert np.array_equal(found, quarters())


@pytest.mark.parametrize("kind", LOSSLESS)
def test_the_first_bytes_show_the_format(kind):
    content = LOSSLESS[kind](Image.fromarray(quarters()))
    assert format_of(content) == Image.open(io.BytesIO(content)).format.replace("PNM", "PPM")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\0\0\0\x1cftypheic\0\0\0\0mif1heic", "HEIC"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"\xff\x4f\xff\x51", "JPEG 2000"),
        (b"8BPS\0\1", "Photoshop"),
        (b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'>", "SVG"),
    ],
)
def test_a_format_that_is_not_decoded_is_named(content, name):
    with pytest.raises(ImageFault, match=f"x has the format {name}, which pillow does not decode here"):
        checked(Picture("x", content=content))
    assert format_of(b"\0\0\0\x1cftypisom") is None  # a film
    assert format_of(b"BM is not a bitmap") is None


def test_avif_is_read_where_pillow_decodes_it(monkeypatch):
    if "AVIF" not in images._formats():
        pytest.skip("this pillow does not decode AVIF")
    content = saved(Image.fromarray(quarters()), "AVIF", quality=95)
    assert format_of(content) == "AVIF"
    assert np.abs(pixels_of(content).astype(int) - quarters()).mean() < 30
    monkeypatch.setattr(images, "_formats", lambda: ["PNG", "JPEG"])
    with pytest.raises(ImageFault, match="format AVIF"):
        pixels_of(content)


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "L"])
def test_jpeg_in_every_mode_is_near(mode):
    image = Image.fromarray(quarters()).resize((64, 64), Image.Resampling.NEAREST)
    expected = np.asarray(image.convert(mode).convert("RGB"), np.int64)
    found = pixels_of(saved(image.convert(mode), "JPEG", quality=95), 64).astype(np.int64)
    assert np.abs(found - expected).mean() < 12


def test_one_bit_and_sixteen_bits():
    grid = np.indices((16, 16)).sum(0) % 2 * 255
    assert np.array_equal(
        pixels_of(saved(Image.fromarray(grid.astype(np.uint8)).convert("1"), "PNG"), 16, 1)[..., 0], grid
    )
    deep = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    found = pixels_of(saved(Image.fromarray(deep), "PNG"), 16, 1)[..., 0]
    assert np.array_equal(found, deep >> 8)


SLOPE = np.arange(256).reshape(16, 16)
DEEP = {
    "8 bits of 16": SLOPE.astype(np.uint16),
    "12 bits of 16": (SLOPE * 16).astype(np.uint16),
    "16 bits of 32": (SLOPE * 256).astype(np.int32),
    "32 bits": (SLOPE * 2**20).astype(np.int32),
    "negative": ((SLOPE - 128) * 2**20).astype(np.int32),
    "fractions": (SLOPE / 255).astype(np.float32),
    "floats of 8 bits": SLOPE.astype(np.float32),
    "heights": (SLOPE * 1e4 - 500).astype(np.float32),
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_images_are_scaled_to_bytes(kind):
    image = Image.fromarray(DEEP[kind])
    given = Picture("x", content=saved(image, "TIFF")), of_pillow(image)
    for picture in given:
        assert np.array_equal(decoded(checked(picture), 16, 1)[..., 0], SLOPE)
        assert not checked(picture).facts.colour


def test_numbers_that_are_not_finite_are_a_fault():
    pixels = np.zeros((4, 4), np.float32)
    pixels[0, 0] = np.nan
    with pytest.raises(ImageFault, match="x is damaged: it has numbers that are not finite"):
        checked(Picture("x", content=saved(Image.fromarray(pixels), "TIFF")))


@pytest.mark.parametrize("transparent", ["RGBA", "LA", "palette", "key"])
def test_transparent_pixels_are_white(transparent):
    if transparent == "palette":
        image = Image.new("P", (4, 4), 0)
        image.putpalette([9, 9, 9, 200, 0, 0])
        content = saved(image, "PNG", transparency=0)
    elif transparent == "key":
        content = saved(Image.new("L", (4, 4), 7), "PNG", transparency=7)
    else:
        content = saved(Image.new(transparent, (4, 4)), "PNG")
    assert (pixels_of(content, 4) == 255).all()
    half = saved(Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "PNG")
    assert abs(int(pixels_of(half, 4)[0, 0, 0]) - 127) <= 1


@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_rotation_is_applied(turn):
    """Stored turned by the inverse, shown upright."""
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    image = Image.fromarray(quarters())
    stored = image.transpose(undo[turn]) if turn in undo else image
    exif = Image.Exif()
    exif[0x0112] = turn
    assert np.array_equal(pixels_of(saved(stored, "PNG", exif=exif)), quarters())


def rotated(kind: str = "JPEG") -> bytes:
    """Quarters that are stored on their side; EXIF says how to turn them."""
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = Image.fromarray(quarters()).transpose(Image.Transpose.ROTATE_90)
    return saved(stored, kind, exif=exif, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_path_bytes_a_pil_image_and_an_array_are_one_image(kind, tmp_path):
    path = tmp_path / "phone"
    path.write_bytes(rotated(kind))
    lazy, loaded = Image.open(path), Image.open(path).convert("RGB")
    same = [
        find_picture(str(path)),
        Picture("x", content=path.read_bytes()),
        of_pillow(lazy),
        of_pillow(loaded),
    ]
    same.append(Picture("x", content=as_array(ImageOps.exif_transpose(Image.open(path)))))
    for channels in (1, 3):
        first, *others = (decoded(checked(each), 16, channels) for each in same)
        assert all(np.array_equal(first, other) for other in others)
    assert np.abs(first.astype(int) - quarters()).mean() < 4


COLOURS = ["CMYK", "HSV", "LAB", "P", "RGB", "RGBA", "RGBX", "RGBa", "YCbCr"]


@pytest.mark.parametrize("mode", [*COLOURS, "1", "L", "LA", "La", "PA"])
def test_pil_images_of_every_mode_are_read(mode):
    image = Image.fromarray(quarters())
    if mode == "LAB":
        given = ImageCms.profileToProfile(
            image, ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
        )
    else:
        above = {"RGBa": "RGBA", "La": "LA", "PA": "P"}.get(mode)
        given = (image.convert(above) if above else image).convert(mode)
    picture = checked(of_pillow(given))
    grey = mode not in (*COLOURS, "PA")
    assert picture.facts.colour != grey
    expected = image.convert("1").convert("L") if mode == "1" else image.convert("L") if grey else image
    found = decoded(picture, 16, 1 if grey else 3).squeeze().astype(int)
    assert np.abs(found - np.asarray(expected, int)).max() <= (25 if mode == "LAB" else 3)


def test_a_pil_image_that_cannot_be_used_is_a_fault():
    lazy = Image.open(io.BytesIO(saved(Image.effect_noise((64, 64), 90), "JPEG")[:-400]))
    with pytest.raises(ImageFault, match="image of 64 × 64 pixels is damaged: image file is truncated"):
        of_pillow(lazy)
    with pytest.raises(ImageFault, match="8,000 × 7,000 pixels, more than 50 megapixels"):
        of_pillow(Image.new("1", (8000, 7000)))


def test_the_whole_image_is_resized():
    tall = np.zeros((64, 16, 3), np.uint8)
    tall[:32] = 255
    found = pixels_of(saved(Image.fromarray(tall), "PNG"), 16)
    assert (found[:7] > 250).all()
    assert (found[9:] < 5).all()


def bomb() -> bytes:
    """A PNG whose header claims 20,000 × 20,000 pixels."""
    content = saved(Image.new("1", (8, 8)), "PNG")
    import zlib

    head = b"IHDR" + struct.pack(">IIBBBBB", 20_000, 20_000, 1, 0, 0, 0, 0)
    return content[:12] + head + struct.pack(">I", zlib.crc32(head)) + content[33:]


LARGE = saved(Image.new("1", (8000, 7000)), "PNG")
FAULTS = {
    "empty": (b"", Reason.BAD_IMAGE, "is empty"),
    "text": (b"not an image at all", Reason.BAD_IMAGE, "is not an image"),
    "truncated PNG": (LOSSLESS["PNG"](Image.fromarray(quarters()))[:-30], Reason.BAD_IMAGE, "damaged"),
    "truncated JPEG": (
        saved(Image.effect_noise((64, 64), 90), "JPEG")[:-400],
        Reason.BAD_IMAGE,
        "damaged",
    ),
    "damaged PNG": (
        LOSSLESS["PNG"](Image.fromarray(quarters())).replace(b"IDAT", b"IDAT\xff\xff", 1),
        Reason.BAD_IMAGE,
        "x is ",
    ),
    "56 megapixels": (LARGE, Reason.LARGE_IMAGE, "8,000 × 7,000 pixels, more than 50 megapixels"),
    "bomb": (bomb(), Reason.LARGE_IMAGE, "50 megapixels"),
    "script": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", Reason.BAD_IMAGE, "is not an image"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_has_a_reason(fault):
    content, reason, message = FAULTS[fault]
    with pytest.raises(ImageFault, match=message) as caught:
        checked(Picture("x", content=content))
    assert caught.value.reason is reason


@pytest.mark.parametrize("seed", range(40))
def test_mutated_files_raise_nothing_but_faults(seed):
    draw = np.random.default_rng(seed)
    kind = ["PNG", "JPEG", "GIF", "WEBP"][seed % 4]
    content = bytearray(saved(Image.effect_noise((24, 24), 60).convert("RGB"), kind))
    for place in draw.integers(0, len(content), 8):
        content[place] = draw.integers(256)
    with suppress(ImageFault):
        assert pixels_of(bytes(content)).shape == (16, 16, 3)


def archive(path: Path, files: dict[str, bytes]) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, content in files.items():
                file.writestr(name, content)
    elif path.suffix in (".tar", ".gz", ".bz2"):
        with tarfile.open(path, f"w:{path.suffix[1:]}" if path.suffix != ".tar" else "w") as file:
            for name, content in files.items():
                info = tarfile.TarInfo(f"./{name}")
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    else:
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    return str(path)


@pytest.mark.parametrize("name", ["folder", "a.zip", "a.tar", "a.tar.gz", "a.tar.bz2"])
def test_homes_hold_the_same_images(name, tmp_path):
    content = saved(Image.fromarray(quarters()), "PNG")
    files = {"b/2.png": content, "a/1.png": content, ".hidden/3.png": content, "a/notes.txt": b"x"}
    home = open_home(archive(tmp_path / name, files))
    assert home.names == ["a/1.png", "a/notes.txt", "b/2.png"]
    assert home.read("b/2.png") == content
    with pytest.raises(ImageFault) as caught:
        home.read("c.png")
    assert caught.value.reason is Reason.MISSING_IMAGE
    found = find_picture(home.full_name("a/1.png"))
    assert np.array_equal(decoded(checked(found), 16, 3), quarters())


def linked(path: Path, name: str, kind: bytes, target: str) -> None:
    with tarfile.open(path, "a") as file:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        file.addfile(info)


def test_hard_links_of_a_tar_are_read_and_other_links_are_faults(tmp_path):
    content = saved(Image.fromarray(quarters()), "PNG")
    path = tmp_path / "a.tar"
    archive(path, {"a/1.png": content, ".store/2.png": content})
    linked(path, "b/hard.png", tarfile.LNKTYPE, "./a/1.png")
    linked(path, "b/stored.png", tarfile.LNKTYPE, ".store/2.png")
    linked(path, "b/gone.png", tarfile.LNKTYPE, "none.png")
    linked(path, "b/soft.png", tarfile.SYMTYPE, "../a/1.png")
    home = open_home(str(path))
    assert home.image_names == ["a/1.png", *(f"b/{name}.png" for name in ("gone", "hard", "soft", "stored"))]
    assert home.read("b/hard.png") == home.read("b/stored.png") == content
    for name, target in (("gone", "none.png"), ("soft", "../a/1.png")):
        with pytest.raises(
            ImageFault, match=f"{name}.png is a link to {target}, which is not followed; pack"
        ):
            checked(find_picture(f"{path}/b/{name}.png"))


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_a_damaged_archive_is_an_error(name, tmp_path):
    path = Path(archive(tmp_path / name, {"a.png": os.urandom(5000)}))
    path.write_bytes(path.read_bytes()[:800])
    with pytest.raises(InputError, match="archive"):
        open_home(str(path)).read("a.png")


def test_a_damaged_member_of_a_zip_is_a_fault(tmp_path):
    path = Path(archive(tmp_path / "a.zip", {"a.png": b"0123456789" * 50, "b.png": b"x"}))
    path.write_bytes(path.read_bytes().replace(b"0123456789", b"01234x6789", 1))
    with pytest.raises(ImageFault, match=r"a\.png"):
        checked(find_picture(f"{path}/a.png"))


def idx(path: Path, array: np.ndarray) -> Path:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx_files_have_images_and_labels(ending, tmp_path):
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (5, 6, 6))
    path = idx(tmp_path / f"train-images-idx3-ubyte{ending}", pixels)
    idx(tmp_path / f"train-labels-idx1-ubyte{ending}", np.array([3, 1, 4, 1, 5]))
    home = open_home(str(path))
    assert [home.label(name) for name in home.names] == ["3", "1", "4", "1", "5"]
    found = checked(find_picture(f"{path}#2"))
    assert np.array_equal(decoded(found, 6, 1)[..., 0], pixels[2])
    assert found.facts[:3] == (6, 6, False)
    with pytest.raises(ImageFault, match="5 images, no 7"):
        open_home(str(path)).read("7")


def test_damaged_idx_files_are_errors(tmp_path):
    path = idx(tmp_path / "train-images-idx3-ubyte", np.zeros((5, 6, 6)))
    content = path.read_bytes()
    for wrong, message in ((content[:-1], "179 bytes of data, not 180"), (b"junk" * 9, "not an IDX file")):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=message):
            open_home(str(path))
    path.write_bytes(content)
    idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(4))
    with pytest.raises(InputError, match="5 images and 4 labels"):
        open_home(str(path))


def test_batches_of_cifar(tmp_path):
    draw = np.random.default_rng(0)
    records = draw.integers(0, 256, (3, images.CIFAR), dtype=np.uint8)
    records[:, 0] = [1, 0, 1]
    (tmp_path / "data_batch_1.bin").write_bytes(records.tobytes())
    (tmp_path / "batches.meta.txt").write_text("cat\ndog\n")
    home = open_home(str(tmp_path / "data_batch_1.bin"))
    assert [home.label(name) for name in home.names] == ["dog", "cat", "dog"]
    assert home.read("1")[4, 7].tolist() == [records[1, 1 + c * 1024 + 4 * 32 + 7] for c in range(3)]
    (tmp_path / "data_batch_1.bin").write_bytes(records.tobytes()[:-1])
    with pytest.raises(InputError, match="3,073 bytes per image"):
        open_home(str(tmp_path / "data_batch_1.bin"))


def test_a_data_uri_holds_an_image():
    uri = to_uri(quarters())
    assert np.array_equal(decoded(find_picture(uri), 16, 3), quarters())
    for wrong in ("data:image/png;base64,!!!", "data:image/png,abc"):
        with pytest.raises(ImageFault, match="data URI"):
            find_picture(wrong)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_blank_name_is_a_fault(name):
    with pytest.raises(ImageFault, match="the name of an image is blank; give a path"):
        find_picture(name)


def test_a_folder_or_a_pipe_in_place_of_an_image_is_a_fault(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path, tmp_path / "pipe.png"):
        with pytest.raises(ImageFault, match=f"{path.name} cannot be read: it is not a regular file"):
            checked(find_picture(str(path)))


def test_a_changed_file_is_checked_again(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"junk")
    with pytest.raises(ImageFault):
        checked(find_picture(str(path)))
    path.write_bytes(saved(Image.fromarray(quarters()), "PNG"))
    first = checked(find_picture(str(path)))
    assert first.facts[:3] == (16, 16, True)
    path.unlink()
    with pytest.raises(ImageFault, match="does not exist"):
        checked(find_picture(str(path)))


def test_arrays_become_pixels():
    assert as_array(np.zeros((4, 5))).shape == (4, 5, 1)
    assert as_array(np.ones((4, 4, 3))).max() == 255
    assert as_array(np.eye(4, dtype=bool)).max() == 255
    assert as_array(np.full((4, 4), 200, np.int64)).dtype == np.uint8
    for wrong in (np.zeros((2, 2, 2)), np.full((2, 2), 300), np.full((2, 2), 1.5), np.zeros((0, 3))):
        with pytest.raises(InputError, match="image"):
            as_array(wrong)


def test_a_terminal_shows_a_count_and_nothing_else_does(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    assert list(progress.counted(range(3), "images checked")) == [0, 1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(progress.counted(range(3), "images checked")) == [0, 1, 2]
    shown = capsys.readouterr().err
    assert "3 images checked" in shown
    assert shown.endswith("\r\033[K")


def test_work_in_parallel_keeps_the_order():
    assert list(in_parallel(lambda x: 2 * x, range(1000))) == [2 * x for x in range(1000)]
