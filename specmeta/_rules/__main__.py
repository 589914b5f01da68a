"""``python -m specmeta._rules``: rewrite the tables of families and rules in ``docs/errors.md``."""

import sys
from pathlib import Path

from . import FAMILIES, RULES

BEGIN = "<!-- rules: begin, written by python -m specmeta._rules -->"
END = "<!-- rules: end -->"


def tables() -> str:
    """The families, then every rule, as two tables."""
    lines = ["| family | subject |", "|---|---|"]
    lines += [_row(name, subject) for name, subject in FAMILIES.items()]
    lines += ["", "| type | family | severity | protects | remedy | public reports |"]
    lines.append("|---|---|---|---|---|---|")
    for rule in RULES.values():
        severity = f"{rule.severity}, overridable" if rule.overridable else rule.severity
        reports = ", ".join(rule.reports)
        lines.append(
            _row(f"`{rule.name}`", rule.family, severity, rule.protects, rule.remedy, reports)
        )
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with the tables of now between its markers.

    Raises:
        ValueError: a marker is missing, or they are in the wrong order.

    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no line {BEGIN!r} with a line {END!r} behind it; add both")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Rewrite the page named by the one argument, ``docs/errors.md`` without any; 2 where it cannot
    be.
    """
    page = Path(arguments[0] if arguments else "docs/errors.md")
    try:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_tables(text), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"{page}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 2
    return 0


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
