"""The measured part of the page, and the file behind it."""

import json

import pytest
from benchmarks.__main__ import measure
from benchmarks.page import page
from benchmarks.profiled import _SOURCE, PARTS, part_of
from benchmarks.rows import ROWS, Cell
from benchmarks.store import Store

SETTINGS = {"quick": False, "threads": 2}


def one(seconds, memory=100.0):
    return {"seconds": seconds, "repetitions": 3, "memory": memory, "base": 200.0}


def results(cells):
    return {
        "machine": "a machine",
        "versions": {"torch": "2", "opacus": "1"},
        "began": "2026-01-02T03:04:05",
        "cells": {key: {"spent": 60.0, **cell} for key, cell in cells.items()},
    }


def test_training_has_rates_memory_and_ratios():
    case = {"model": "cnn", "n": 10, "clip": "record", "batch": 64}
    cells = {"cnn/cnn n=10 record": {"case": case, "measured": {"tacit": one(0.1), "opacus": one(0.4, 50.0)}}}
    text = page(results(cells))
    assert "| CNN, 26,010 | record | 10 | 10.0 (100) |  | 2.50 (50) |  |  |  | **4.00×** |  |" in text
    assert "| CNN, n = 10: faster Opacus | ≥ 3.5× | 1.8 to 2.3× | 4.00× | met |" in text
    assert "Measured on 2026-01-02 in 1 minutes" in text


def test_peers_have_their_versions_and_reasons():
    cells = {
        "small/Flower, logistic": {
            "title": "Flower, logistic",
            "version": "9.9",
            "measured": {"tacit": one(0.001), "peer": one(1.0)},
        },
        "others/NVFlare, consensus": {"reason": "it could not be installed"},
    }
    text = page(results(cells))
    assert "Flower 9.9" in text
    assert "| Flower, logistic | 1.00 (100) | 1,000 (100) | **1,000×** |" in text
    assert "Not measured: NVFlare, consensus (it could not be installed)." in text


def test_growth_compares_each_size_with_the_one_before():
    sizes = {"growth/nodes = 10": 0.1, "growth/nodes = 100": 0.8, "growth/batch = 16": 0.2}
    text = page(results({key: {"measured": {"tacit": one(seconds)}} for key, seconds in sizes.items()}))
    assert "| nodes | 100 | 800 ms | 100 | 10.0× | 8.00× |" in text
    assert "| batch | 16 | 200 ms | 100 |  |  |" in text


def test_a_part_of_the_page_without_results_is_left_out():
    text = page(results({}))
    assert text.count("\n## ") == 1
    assert "## Aims" in text


def test_every_cell_of_a_run_has_its_own_name():
    for quick in (False, True):
        keys = [cell.key for row in ROWS for cell in ROWS[row](quick)]
        assert len(set(keys)) == len(keys)
        assert {key.split("/")[0] for key in keys} == set(ROWS)


def test_an_interrupted_run_continues_and_failed_cells_are_measured_again(tmp_path):
    path, calls = tmp_path / "results.json", []

    def cell(name, found):
        def run():
            calls.append(name)
            if isinstance(found, Exception):
                raise found
            return found

        return Cell(name, 1.0, run)

    store = Store(path, SETTINGS)
    store.begin()
    with pytest.raises(KeyboardInterrupt):
        measure(store, [cell("a", {"measured": {}}), cell("b", ValueError("no")), Cell("c", 1.0, interrupt)])
    again = Store(path, SETTINGS)
    assert again.is_unfinished
    assert [key for key in ("a", "b", "c") if not again.has(key)] == ["b", "c"]
    assert again.cells["b"]["reason"] == "no"
    measure(again, [cell("c", {"measured": {}}), cell("b", {"measured": {}})])
    again.finish(["a", "b", "c"])
    assert list(json.loads(path.read_text())["cells"]) == ["a", "b", "c"]
    assert not Store(path, SETTINGS).is_unfinished
    assert calls == ["a", "b", "c", "b"]


def interrupt():
    raise KeyboardInterrupt


def test_results_of_other_settings_are_not_continued(tmp_path):
    store = Store(tmp_path / "results.json", SETTINGS)
    store.begin()
    store.save("a", {}, 1.0)
    assert Store(store.path, SETTINGS | {"threads": 1}).content == {}
    assert Store(store.path, SETTINGS).predicted("a", 9.0) == 1.0
    assert store.predicted("b", 9.0) == 9.0


def test_parts_of_a_profile_are_modules_of_tacit():
    from pathlib import Path

    for prefix, part in PARTS.items():
        assert Path(_SOURCE, prefix).exists() or Path(_SOURCE, f"{prefix}.py").exists(), prefix
        assert part_of(f"{_SOURCE}{prefix}/x.py") == part
    assert part_of("/elsewhere/x.py") == part_of(f"{_SOURCE}errors.py")
