"""Code blocks are written as CONTRIBUTING.md describes it, so that a test can run them."""

import re

import pytest

from tests.docs.blocks import CONSOLE, LANGUAGES, NOT_RUN, OUTPUT, PAGES, PYTHON, ROOT, RUN_INSTEAD, TEXT, read_blocks
from tests.docs.options import wrong_options

MAX_NOT_RUN = 8  # blocks of all pages that no test runs
MIN_REASON = 15  # characters
_INDENTED_COMMAND = re.compile(r"^ {4,}(?:\$ )?(?:tacit|python|make|pip|torchrun|openssl|curl) .*", re.M)
_FENCED = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.M | re.S)


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request):
    return request.param


def test_every_block_has_a_language_or_is_a_file(page):
    for block in read_blocks(page.read_text(encoding="utf-8")):
        at = f"line {block.line}"
        assert block.language, f"{at}: a block needs a language; diagrams and output have `text`"
        assert block.language in LANGUAGES or block.title, f"{at}: {block.language} is not run, and it has no title"
        if block.language == TEXT:
            assert not block.text.lstrip().startswith("$ "), f"{at}: commands belong to a `console` block"


def test_comments_are_for_blocks_that_they_fit(page):
    for block in read_blocks(page.read_text(encoding="utf-8")):
        at = f"line {block.line}"
        assert not {NOT_RUN, RUN_INSTEAD} <= set(block.comments), f"{at}: either not run, or run instead"
        assert block.language == CONSOLE or RUN_INSTEAD not in block.comments, f"{at}: only for commands"
        assert block.language == TEXT or OUTPUT not in block.comments, f"{at}: only for output of Python"
        assert len(block.comments.get(NOT_RUN, "a good reason is here")) >= MIN_REASON, f"{at}: give a reason"


def test_commands_that_are_not_run_as_they_are_have_correct_options(page):
    for block in read_blocks(page.read_text(encoding="utf-8")):
        if block.language == CONSOLE and {NOT_RUN, RUN_INSTEAD} & set(block.comments):
            for command in block.commands():
                assert wrong_options(command.text) is None, f"line {command.line}: {command.text}"


def test_commands_are_in_blocks_and_not_indented(page):
    rest = _FENCED.sub("", page.read_text(encoding="utf-8"))
    assert _INDENTED_COMMAND.findall(rest) == []


def test_few_blocks_are_not_run():
    skipped = [
        f"{page.name}: line {block.line}"
        for page in PAGES
        for block in read_blocks(page.read_text(encoding="utf-8"))
        if NOT_RUN in block.comments
    ]
    assert len(skipped) <= MAX_NOT_RUN, skipped


def test_the_documentation_has_blocks_of_every_kind():
    blocks = [block for page in PAGES for block in read_blocks(page.read_text(encoding="utf-8"))]
    for language, least in {PYTHON: 15, CONSOLE: 30, TEXT: 5}.items():
        assert sum(block.language == language for block in blocks) >= least, language
