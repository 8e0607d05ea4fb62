"""An experiment's findings on disk: report.md, report.json, and each chart as SVG and, with matplotlib, PNG."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from heedful.config.optional_packages import missing
from heedful.data.atomic import explained, write_files
from heedful.errors import DataError
from heedful.lab.charts.canvas import png, svg
from heedful.lab.charts.chart import draw
from heedful.lab.experiment import Experiment
from heedful.lab.findings import Findings
from heedful.score.tables import Rows, Section, markdown_table, show_text

MARKDOWN, JSON = "report.md", "report.json"


def write_report(folder: Path, experiment: Experiment, findings: Findings) -> Path:
    """Write all files of a report, or none; returns the Markdown."""
    has_png = not missing(["matplotlib"])
    contents = {MARKDOWN: _markdown(experiment, findings).encode(), JSON: _json(experiment, findings)}
    for name, chart in findings.charts.items():
        drawing = draw(chart)
        contents[f"{name}.svg"] = svg(drawing).encode()
        if has_png:
            contents[f"{name}.png"] = png(drawing)
    with explained(folder, DataError):
        folder.mkdir(parents=True, exist_ok=True)
        write_files({folder / name: content for name, content in contents.items()})
    return folder / MARKDOWN


def verdict_rows(findings: Findings) -> Rows:
    """The claims as a table."""
    heading = ["claim", "predicted", "measured", "verdict"]
    return [heading, *([each.claim, each.predicted, each.measured, each.verdict] for each in findings.judged)]


def _markdown(experiment: Experiment, findings: Findings) -> str:
    lines = [f"# {experiment.name}", "", f"{experiment.question} ({experiment.section})"]
    if findings.judged:
        lines += ["", "## Claims", "", *markdown_table(verdict_rows(findings))]
    for name, chart in findings.charts.items():
        lines += ["", f"![{chart.title}]({name}.svg)"]
    for section in findings.tables:
        lines += ["", f"## {section.title}", "", *_body(section)]
    lines += [line for note in findings.notes for line in ("", note)]
    return "\n".join(lines) + "\n"


def _body(section: Section) -> list[str]:
    return markdown_table(section.rows) if section.rows else list(section.lines)


def _json(experiment: Experiment, findings: Findings) -> bytes:
    record = {"experiment": experiment.name, "question": experiment.question, "section": experiment.section}
    content = record | msgspec.to_builtins(findings)
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def report_text(experiment: Experiment, findings: Findings) -> Iterator[str]:
    """What a terminal shows: the question, the first table, and the verdicts."""
    yield f"{experiment.name}: {experiment.question} ({experiment.section})"
    yield from (show_text(section) for section in findings.tables[:1])
    if findings.judged:
        yield show_text(Section("Claims", verdict_rows(findings)))
