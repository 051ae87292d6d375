"""The command ``python -m benchmarks``: list, run, report, peers, standings, compare."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.comparison import HEADER, ROUNDS, compare
from benchmarks.contest.entrants import ours
from benchmarks.contest.records import RECORDS, complete
from benchmarks.contest.records import summary as of_splits
from benchmarks.contest.sets import of_kind, set_named
from benchmarks.contest.standings import entrant_lines, rare_lines, set_lines, stored, value_lines
from benchmarks.contest.trials import run_trials
from benchmarks.registry import Case, discover, select
from benchmarks.report import aligned, bars, updated
from benchmarks.results import FOLDER, load, store
from benchmarks.running import ROOT, CaseError, fetch_data, run_alone

HOUSE = "house"
MOST_SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options, discover())
    except (ValueError, CaseError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure histogp.")
    commands = parser.add_subparsers(required=True)

    def command(name: str, work: object, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(command=work)
        one.add_argument("--results", type=Path, default=FOLDER, metavar="FOLDER", help="default: benchmarks/results")
        return one

    listing = command("list", _list, "show cases, their data and bars, and when they were measured")
    listing.add_argument("names", nargs="*", metavar="NAME", help="cases or groups; default: all")
    running = command("run", _run, "measure, each case in a process of its own, and store the results")
    running.add_argument("names", nargs="*", metavar="NAME", help="cases or groups; default: all")
    running.add_argument("--smoke", action="store_true", help="tiny sizes, to see that cases run")
    reporting = command("report", _report, "compare stored results with bars, and update the tables of the README")
    reporting.add_argument("--check", action="store_true", help="change nothing; fail if the README differs")
    reporting.add_argument("--readme", type=Path, default=ROOT / "README.md", metavar="FILE")
    completing = command("peers", _peers, "run peers of the plain line on the data sets where their scores are missing")
    completing.add_argument("names", nargs="*", metavar="SET", help="data sets; default: all, the smallest first")
    completing.add_argument("--group", action="append", choices=("peers", "named"), help="default: both, in this order")
    completing.add_argument("--again", action="append", default=[], metavar="ENTRANT", help="run it although it has")
    standing = command("standings", _standings, "tables of the plain line among its peers, from stored scores")
    standing.add_argument("names", nargs="*", metavar="SET", help="run the plain line on these now, and store nothing")
    comparing = command(
        "compare", _compare, "times of two checkouts of histogp, in turn; fails if the new one is slower"
    )
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("names", nargs="*", metavar="NAME", help=f"cases or groups; default: {HOUSE}")
    comparing.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    comparing.add_argument("--smoke", action="store_true", help="tiny sizes, to see that cases run")
    return parser


def _list(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    results = load(options.results)
    lines = [("group", "case", "measured", "data", "needs", "bars", "what")]
    for case in sorted(select(cases, options.names), key=lambda case: case.group):
        lines.append(
            (
                case.group,
                case.name,
                results[case.name].date if case.name in results else "-",
                ", ".join(case.data) or "-",
                ", ".join(case.needs) or "-",
                ", ".join(f"{name} {bar}" for name, bar in case.bars.items()) or "-",
                case.title,
            )
        )
    print(aligned(lines))
    return 0


def _run(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    if options.smoke and options.results.resolve() == FOLDER.resolve():
        options.results = None  # numbers of a smoke run mean nothing
    failed = False
    for case in select(cases, options.names):
        if missing := case.missing():
            _say(f"{case.name}: left out, needs {', '.join(missing)}")
            continue
        try:
            fetch_data(case)
            result = run_alone(case, options.smoke)
        except CaseError as error:
            failed = True
            _say(f"{case.name}: FAILED, {error}")
            continue
        if options.results is not None:
            store(result, options.results)
        shown = [f"{name} {value:.4g}" for name, value in result.values.items()]
        more = [f"and {len(shown) - MOST_SHOWN} more"] * (len(shown) > MOST_SHOWN)
        _say(f"{case.name}: {result.seconds:.1f} s: {', '.join([*shown[:MOST_SHOWN], *more])}")
    return int(failed)


def _report(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    results = load(options.results)
    print(aligned(bars(cases, results)))
    for name in [name for name in cases if name not in results]:
        print(f"not measured: {name}")
    unknown = sorted(results.keys() - cases.keys())
    for name in unknown:
        print(f"stored, but no case: {name}")
    text = options.readme.read_text()
    found = updated(text, results)
    for row in found.unmeasured:
        print(f"row not measured: {row}")
    if not options.check:
        options.readme.write_text(found.text)
        return 0
    if found.text != text:
        print(f"{options.readme.name} differs from the stored results: run `python -m benchmarks report`.")
    return int(found.text != text or bool(unknown))


def _peers(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    sets = [set_named(name) for name in options.names] or of_kind()
    for group in options.group or ("peers", "named"):
        for one in sets:
            complete(one, [group], again=options.again, folder=options.results / RECORDS.name, say=_say)
    return 0


def _standings(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    board = stored(options.results, options.results / RECORDS.name)
    sets = [set_named(name) for name in options.names]
    for one in sets:
        for name in ours(one.kind):
            splits = run_trials(one, name, range(one.n_splits), n_threads=None)
            board.scores[one.name][name] = splits
            _say(f"{one.name}: {name}: {of_splits(splits)}")
    tables = [set_lines(board, options.names)]
    if not sets:
        tables += [entrant_lines(board), value_lines(board), rare_lines(board)]
    print("\n\n".join(aligned(lines) for lines in tables))
    return 0


def _compare(options: argparse.Namespace, cases: Mapping[str, Case]) -> int:
    chosen = select(cases, options.names or [HOUSE])
    found = compare(options.old, options.new, chosen, options.rounds, options.smoke, _say)
    print(aligned([HEADER, *(one.cells() for one in found)]))
    return int(not all(one.is_met for one in found))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
