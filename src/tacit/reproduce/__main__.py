"""`python -m tacit.reproduce PAGE …`: write the tables of pages anew from the kept results."""

import sys
from pathlib import Path

from tacit.reproduce.kept import with_tables

for path in map(Path, sys.argv[1:]):
    text = path.read_text(encoding="utf-8")
    if (new := with_tables(text)) != text:
        path.write_text(new, encoding="utf-8")
        sys.stdout.write(f"{path} was written anew\n")
