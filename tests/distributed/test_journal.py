import json
from pathlib import Path

import pytest

from specmeta import RequestId
from specmeta_workers import RequestResult
from specmeta_workers.distributed import DistributedError, read_journal
from specmeta_workers.distributed._journal import JournalReader, JournalWriter, encode_results
from tests.distributed.test_plan import make_plan


def make_results(*ids: int) -> list[RequestResult]:
    return [RequestResult(RequestId(i), (7, i, 9), (2, 1), "length") for i in ids]


def write(path: Path, parts: dict[int, list[RequestResult]]) -> None:
    journal = JournalWriter(path)
    for part, results in parts.items():
        journal.write(part=part)
        for result in results:
            journal.write(part=part, results=json.loads(encode_results([result])))
        journal.write(part=part, seconds=0.5 + part)
    journal.close()


COMPLETE = {
    0: make_results(1002, 1001),
    1: make_results(1001, 1002),
    2: make_results(1003, 1004),
    3: make_results(1004, 1003),
    4: make_results(1005),
    5: make_results(1005),
}


def test_results_come_back_whole_and_in_the_order_of_the_plan(tmp_path: Path) -> None:
    write(tmp_path / "j", COMPLETE)
    served = read_journal(tmp_path / "j", make_plan())
    assert list(served) == ["K=0", "K=3"]
    assert served["K=0"].results == served["K=3"].results == make_results(*range(1001, 1006))
    assert served["K=3"].tokens == [6, 6, 3]
    assert served["K=3"].seconds == [1.5, 3.5, 5.5]


def test_every_request_has_a_result_or_is_listed(tmp_path: Path) -> None:
    write(tmp_path / "j", {0: make_results(1002), 1: make_results(1001, 1002)})
    with pytest.raises(DistributedError) as caught:
        read_journal(tmp_path / "j", make_plan())
    error = caught.value
    assert error.unfinished == {"K=0": (1001, 1003, 1004, 1005), "K=3": (1003, 1004, 1005)}
    assert [len(served.results) for served in error.finished.values()] == [1, 2]
    assert str(error) == (
        f"{tmp_path / 'j'}: the run ended early; 7 requests have no result:\n"
        "  K=0: 1001, 1003-1005\n"
        "  K=3: 1003-1005"
    )


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "j"
    reader = JournalReader(path, make_plan())
    assert reader.read() == []
    line = json.dumps({"part": 0, "results": json.loads(encode_results(make_results(1001)))})
    path.write_text(line[:20])
    assert reader.read() == []
    path.write_text(line + "\n")
    assert reader.read() == [("K=0", make_results(1001)[0])]
    assert reader.read() == []


def test_a_journal_of_another_run_is_not_appended_to(tmp_path: Path) -> None:
    write(tmp_path / "j", COMPLETE)
    with pytest.raises(ValueError, match="exists already; give each run its own journal"):
        JournalWriter(tmp_path / "j")
