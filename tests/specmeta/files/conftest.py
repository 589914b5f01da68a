"""What the tests of the file readers share."""

from __future__ import annotations

import pytest
import yaml


@pytest.fixture(params=["libyaml", "pure Python"])
def yaml_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of PyYAML, one after the other; without libyaml it has no CSafeLoader."""
    if request.param == "pure Python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML is built without libyaml")
