"""The report of `accel verify` as one self-contained page: verdict, loss curves, differences, the diff of the scripts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from html import escape

from accel_migrate.command.verify_chart import chart
from accel_migrate.command.verify_table import block, unverified
from accel_migrate.verify.job import Job, shown
from accel_migrate.verify.report import Comparison, Report

_STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; overflow-wrap: anywhere; padding: 0 1rem; color: #1f2328; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.verdict { display: inline-block; padding: .15rem .7rem; border-radius: 1rem; color: #fff; background: #1a7f37 }
.verdict.different { background: #cf222e } .verdict.expected { background: #9a6700 }
pre { white-space: pre-wrap; padding: .8rem; border-radius: .4rem; background: #f6f8fa; font-size: 13px; line-height: 1.4 }
.add { color: #116329; background: #dafbe1; display: block } .del { color: #82071e; background: #ffebe9; display: block }
.beside { display: grid; gap: 0 2rem } .beside > * { min-width: 0 }
@media (min-width: 90rem) { body { max-width: 110rem } .charts, .beside { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem } }
.legend { margin: 0; font-size: 13px } .legend span { margin-right: 1rem }
svg text { font: 12px system-ui, sans-serif; fill: #57606a }
"""


def page(report: Report, original: Job, migrated: Job) -> str:
    """The whole page; nothing in it is loaded from elsewhere."""
    return "\n".join(["<!DOCTYPE html>", '<html lang="en">', "<head>", *_head(report), "</head>", "<body>", *_body(report, original, migrated), "</body>", "</html>", ""])


def _head(report: Report) -> Iterator[str]:
    yield '<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(report.original)}: {report.verdict}</title>"
    yield f"<style>\n{_STYLE}</style>"


def _body(report: Report, original: Job, migrated: Job) -> Iterator[str]:
    yield f"<h1>{escape(report.original)} and {escape(report.migrated)}</h1>"
    yield f'<p><span class="verdict {report.verdict.split()[0]}">{report.verdict}</span> in {report.took}</p>'
    why = list(dict.fromkeys(reason for comparison in report.comparisons for reason in comparison.reasons))
    if why:
        yield "<h2>Why</h2>\n<ul>" + "".join(f"<li>{escape(reason)}</li>" for reason in why) + "</ul>"
    yield from ('<div class="charts">', *_charts(report), "</div>", '<div class="beside">', "<div>", *_findings(report), "</div>")
    yield "<div><h2>What differs in the code</h2>"
    yield f"<pre>{''.join(_diff(original, migrated)) or 'nothing'}</pre></div></div>"


def _charts(report: Report) -> Iterator[str]:
    title = "Loss of every optimizer step"
    yield f"<div><h2>{title}</h2>"
    yield chart({_label(run): losses for run, losses in report.losses.items()}, title) + "</div>"
    title = "Relative difference from the original"
    yield f"<div><h2>{title}</h2>"
    yield chart({_label(str(c.processes)) + _without(c): c.apart for c in report.comparisons}, title, logarithmic=True) + "</div>"


def _findings(report: Report) -> Iterator[str]:
    for comparison in report.comparisons:
        title, *rest = block(comparison)
        yield f"<h2>{escape(title)}</h2>"
        yield f"<pre>{escape(chr(10).join(line.removeprefix('  ') for line in rest))}</pre>"
    left = unverified(report)
    if left:
        yield "<h2>Not verified</h2>\n<ul>" + "".join(f"<li>{escape(text)}</li>" for text in left) + "</ul>"


def _label(run: str) -> str:
    return run if run.startswith("original") else f"migrated, {run} process{'' if run == '1' else 'es'}"


def _without(comparison: Comparison) -> str:
    """What is switched off in the runs of which the differences are."""
    return f", without {' and '.join(comparison.switched_off)}" if comparison.switched_off else ""


def _diff(original: Job, migrated: Job) -> Iterator[str]:
    """The script's diff, and that of every other file which the migration changes."""
    for name in dict.fromkeys([migrated.script, *sorted(migrated.changed)]):
        theirs = original.script if name == migrated.script else name
        for line in difflib.unified_diff(_text(original, theirs), _text(migrated, name), shown(theirs), shown(name), lineterm=""):
            kind = {"+": "add", "-": "del"}.get(line[0])
            yield f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line) + "\n"


def _text(job: Job, name: str) -> list[str]:
    path = job.folder / name
    text = job.changed.get(name) or (path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "")
    return text.splitlines()
