"""Dialects: interfaces that clients already know. Each module has `operations(server)`."""

from __future__ import annotations

from seqwright.serve.dialects import libretranslate, openai, own
from seqwright.serve.operations import Operation, Server

DIALECTS = (own, openai, libretranslate)


def operations(server: Server) -> list[Operation]:
    return [operation for dialect in DIALECTS for operation in dialect.operations(server)]
