"""Draw docs/pictures: python -m examples.pictures. With --train, train the small model again first."""

from __future__ import annotations

import argparse

from examples.pictures import page, toy
from examples.pictures.gallery import PICTURES, draw_all


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.pictures", description="Draw docs/pictures.")
    parser.add_argument(
        "--train", action="store_true", help="train the small model of the SVG pictures again (half a minute)"
    )
    if parser.parse_args().train:
        toy.write(toy.train_and_look())
    draw_all()
    print(f"{len(PICTURES)} pictures drawn", flush=True)
    print(page.take())


if __name__ == "__main__":
    main()
