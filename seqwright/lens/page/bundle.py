"""Bundle the JavaScript modules of the page into one script.

Every module becomes a function that is called once and returns its exports, so names of different modules do
not collide. The modules use one form of each statement: `import { a, b as c } from "./module.js";`, and
`export` before a function, a class or a const.
"""

from __future__ import annotations

import re
from pathlib import Path

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
SCRIPT_END = re.compile(r"</script", re.IGNORECASE)


def bundle(folder: Path, first: str) -> str:
    """The module `first` after everything it imports, in a deterministic order."""
    parts: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"{' → '.join([*importers, name])} is an import cycle")
        if name in parts:
            return
        text = (folder / f"{name}.js").read_text(encoding="utf-8")
        for found in IMPORT.finditer(text):
            add(found[2], (*importers, name))
        parts[name] = enclose(name, text)

    add(first, ())
    return "\n".join(parts.values())


def enclose(name: str, text: str) -> str:
    """Wrap a module into a constant that holds its exports."""
    exports = ", ".join(EXPORT.findall(text))
    text = EXPORT.sub("", text)
    text = IMPORT.sub(lambda m: f"const {{{m[1].replace(' as ', ': ')}}} = module_{m[2]};\n", text)
    if odd := LEFT_OVER.search(text) or SCRIPT_END.search(text):
        raise ValueError(f"{name}.js has {odd[0]!r}, which the bundler does not support")
    return f"const module_{name} = (() => {{\n{text}return {{ {exports} }};\n}})();\n"
