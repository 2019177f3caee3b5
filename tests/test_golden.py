from pathlib import Path

import pytest

from tests.golden import check_golden


@pytest.fixture(autouse=True)
def without_update(monkeypatch):
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)


def test_equal_text_passes(tmp_path: Path):
    (tmp_path / "plan.txt").write_text("store a\n")
    check_golden(tmp_path / "plan.txt", "store a\n")


def test_different_text_fails_with_a_diff_of_both(tmp_path: Path):
    (tmp_path / "plan.txt").write_text("store a\nread b\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-read b\n\+read c"):
        check_golden(tmp_path / "plan.txt", "store a\nread c\n")


def test_text_that_differs_only_in_its_last_line_end_fails(tmp_path: Path):
    (tmp_path / "plan.txt").write_text("store a\n")
    with pytest.raises(pytest.fail.Exception, match="last line's end"):
        check_golden(tmp_path / "plan.txt", "store a")


def test_a_missing_file_fails_and_says_how_to_write_it(tmp_path: Path):
    with pytest.raises(pytest.fail.Exception, match="UPDATE_GOLDEN=1"):
        check_golden(tmp_path / "plan.txt", "store a\n")


def test_update_writes_the_file(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("UPDATE_GOLDEN", "1")
    check_golden(tmp_path / "new" / "plan.txt", "store a\n")
    assert (tmp_path / "new" / "plan.txt").read_text() == "store a\n"
