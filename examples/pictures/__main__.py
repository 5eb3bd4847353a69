"""Draws docs/pictures anew: python -m examples.pictures. With --train the small model is trained first."""

from __future__ import annotations

import argparse

from examples.pictures import toy
from examples.pictures.gallery import PICTURES, draw_all


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.pictures", description="Draw docs/pictures.")
    parser.add_argument("--train", action="store_true", help="train the small model anew (half a minute)")
    if parser.parse_args().train:
        toy.write(toy.train_and_look())
    draw_all()
    print(f"{len(PICTURES)} pictures drawn")


if __name__ == "__main__":
    main()
