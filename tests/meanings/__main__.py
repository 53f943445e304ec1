"""Draws inputs, judges them, and prints what became of them."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.meanings.draws import FORMS, run_cases
from tests.meanings.oracle import CRASH, OUTCOMES, WRONG
from tests.meanings.report import Found, group


def main() -> int:
    """Returns 1 if an outcome is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="number of inputs")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--form", choices=sorted(FORMS))
    parser.add_argument("--keep", type=Path, help="folder that keeps the inputs")
    parser.add_argument("--show", action="store_true", help="print each outcome that is asked for")
    parser.add_argument("--outcome", action="append", choices=OUTCOMES, help="by default wrong and crash")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    table: dict[str, Counter[str]] = {}
    found: list[Found] = []
    start = time.perf_counter()
    cases = run_cases(arguments.seed, arguments.count, first=arguments.first, form=arguments.form, keep=arguments.keep)
    for one in cases:
        table.setdefault(one.case.form, Counter())[one.outcome.kind] += 1
        if one.outcome.kind in (arguments.outcome or (WRONG, CRASH)):
            found.append(one)
            if arguments.show:
                print(one.show())
    seconds = time.perf_counter() - start
    print("\n".join(format_table(table)))
    print(f"{arguments.count} inputs in {seconds:.1f} s, {1000 * seconds / max(arguments.count, 1):.0f} ms each")
    for kind, ones in group(found).items():
        print(f"{len(ones):5}  {kind}: {', '.join(one.name for one in ones[:3])}")
    return int(any(counts[WRONG] + counts[CRASH] for counts in table.values()))


def format_table(table: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yields the lines of a table: a row for each form, and one for all."""
    yield f"{'form':16}" + "".join(f"{one:>9}" for one in OUTCOMES)
    total: Counter[str] = Counter()
    for form, counts in sorted(table.items()):
        total.update(counts)
        yield f"{form:16}" + "".join(f"{counts[one]:9}" for one in OUTCOMES)
    yield f"{'all':16}" + "".join(f"{total[one]:9}" for one in OUTCOMES)


if __name__ == "__main__":
    sys.exit(main())
