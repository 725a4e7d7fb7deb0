"""A file that is replaced has the old content or the new, and a failed write leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenflow.files import replace_file


def test_the_content_is_replaced_and_no_draft_stays(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        replace_file(tmp_path / "view.json", content)
        assert (tmp_path / "view.json").read_bytes() == content
        assert [path.name for path in tmp_path.iterdir()] == ["view.json"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "view.json", b"old")

    def fail(self: Path, target: Path) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        replace_file(tmp_path / "view.json", b"new")
    assert (tmp_path / "view.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["view.json"]
