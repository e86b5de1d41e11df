"""The command `tacit report`."""

from tests.cli.conftest import NO_TARGET, QUICK, setting


def test_report_of_one_run_and_of_several(tacit, tmp_path):
    for name in ("one", "two"):
        assert tacit("train", *QUICK, *NO_TARGET, *setting("algorithm.noise_multiplier=2"), "--out", name).code == 0
    (tmp_path / "one/report.html").unlink()
    assert tacit("report", "one").out == "Report: one/report.html\n"
    assert "<dt>Verified</dt>" in (tmp_path / "one/report.html").read_text()
    assert tacit("report", "one", "two", "--out", "both.html").code == 0
    assert "2 runs compared" in (tmp_path / "both.html").read_text()


def test_folder_without_a_run_is_refused(tacit, tmp_path):
    ended = tacit("report", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "is not a run folder" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_document_options_that_do_not_fit_are_refused(tacit):
    several = tacit("report", "one", "two", "--format", "pdf")
    assert (several.code, several.err) == (2, "error: --format pdf is for one run, got 2: write one document per run\n")
    purpose = tacit("report", "one", "--purpose", "A study")
    assert (purpose.code, purpose.out) == (2, "")
    assert "add --format pdf" in purpose.err
