"""What all traces share: one JSON document with packed arrays, checked when it is read from a file."""

from __future__ import annotations

import html
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ValidationError

from seqwright.errors import InputError, ModelError
from seqwright.files import atomic_file, encode_json, read_json


class TraceDocument(ABC):
    """A trace. `document` is the JSON; the methods of subclasses unpack its arrays.

    what, format: of the documents that it reads; schema: their parts as types.
    """

    what: ClassVar[str]
    format: ClassVar[int]
    schema: ClassVar[type[BaseModel]]

    def __init__(self, document: Mapping[str, Any]):
        if document.get("what") != self.what or not isinstance(document.get("format"), int):
            raise InputError(
                f"not a {self.what.capitalize()}; make one with `seqwright look RUN TEXT -o x.json`"
            )
        if (version := document["format"]) > self.format:
            raise InputError(f"the trace has format {version}, newer than {self.format}; update Seqwright")
        self.document = self.upgraded(document)

    @classmethod
    def upgraded(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a document of any format in the current one."""
        return dict(document)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Self:
        """Read a trace from a file and check it, or take the document itself."""
        if isinstance(source, Mapping):
            return cls(source)
        try:
            return cls(read_json(Path(source))).checked()
        except ModelError as error:
            raise InputError(str(error)) from error
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
            raise InputError(f"{os.fspath(source)} is not a trace: {reason}; copy it again") from error

    def checked(self) -> Self:
        """Return the trace if its document has the form of docs/trace.md; otherwise a ValidationError."""
        self.schema.model_validate(self.document)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        with atomic_file(Path(path), follow=True) as file:
            file.write(self.to_bytes())

    def to_json(self) -> dict[str, Any]:
        return self.document

    def to_bytes(self) -> bytes:
        return encode_json(self.document)

    @property
    def text(self) -> str:
        return self.document["text"]

    @abstractmethod
    def layers(self, kind: str) -> int:
        """Number of layers that have weights of a kind."""

    def why(self, key: str) -> str:
        """The reason why a part is missing."""
        return self.document["absent"].get(key, "it was not requested")

    def page(self) -> str:
        """The HTML page of the trace, self-contained."""
        from seqwright.lens.page import render

        return render([self.document])

    @abstractmethod
    def __str__(self) -> str:
        """The trace as text for a terminal."""

    def __repr__(self) -> str:  # for an interactive prompt
        return str(self)

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 48rem; border: 0"
        return f'<iframe srcdoc="{html.escape(self.page())}" style="{style}" title="trace"></iframe>'
