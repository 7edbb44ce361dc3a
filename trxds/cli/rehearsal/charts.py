"""Charts as SVG, to be put into a page. Every text is escaped here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

WIDTH = 860
HEIGHT = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 8, 22
_BAR = 14  # the height of a host's bar

Values = Sequence[float | None]


def over_time(title: str, unit: str, series: Mapping[str, Values], marks: Sequence[float]) -> str:
    """Return a chart of values, one for each second, with a vertical line at each of `marks`, in seconds.

    The keys of `series` are the classes of its lines in the page's style, and their names in the legend.
    """
    length = max(2, *(len(values) for values in series.values()))
    highest = max((value for values in series.values() for value in values if value is not None), default=0) or 1
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(second: float) -> float:
        return _LEFT + second / (length - 1) * width

    def y(value: float) -> float:
        return _TOP + height * (1 - value / highest)

    parts = [*_grid(highest, unit, length, x, y)]
    parts += [
        f'<line class="mark" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{_TOP}" y2="{_TOP + height}"/>' for at in marks
    ]
    for name, values in series.items():
        parts += [f'<polyline class="{escape(name)}" points="{points}"/>' for points in _polylines(values, x, y)]
    legend = " ".join(f'<span class="key {escape(name)}">{escape(name)}</span>' for name in series)
    return (
        f"<figure><figcaption>{escape(title)} {legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _grid(highest: float, unit: str, length: int, x: object, y: object) -> Iterator[str]:
    assert callable(x) and callable(y)
    for share in (0.0, 0.5, 1.0):
        value = highest * share
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        yield f'<text class="end" x="{_LEFT - 5}" y="{y(value) + 4:.1f}">{_number(value)} {escape(unit)}</text>'
    step = next((each for each in (5, 10, 30, 60, 120, 300, 600, 1800) if length / each <= 12), 3600)
    for second in range(0, length, step):
        yield f'<text class="middle" x="{x(second):.1f}" y="{HEIGHT - 6}">{second} s</text>'


def _polylines(values: Values, x: object, y: object) -> Iterator[str]:
    """Yield the points of each unbroken run of values."""
    assert callable(x) and callable(y)
    run: list[str] = []
    for second, value in enumerate((*values, None)):
        if value is not None:
            run.append(f"{x(second):.1f},{y(value):.1f}")
        elif run:
            # A single second is a line of no length, which round ends make a dot.
            yield " ".join(run if len(run) > 1 else run * 2)
            run = []


def by_host(title: str, unit: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return a chart of two bars for each host."""
    hosts = list(dict.fromkeys((*before, *after)))
    highest = max((*before.values(), *after.values()), default=0) or 1
    label = 190
    width = WIDTH - label - 70
    parts: list[str] = []
    for row, host in enumerate(hosts):
        top = row * (2 * _BAR - 4)
        parts.append(f'<text class="end" x="{label - 6}" y="{top + 14}">{escape(host)}</text>')
        for name, values, offset in (("before", before, 0), ("after", after, 9)):
            value = values.get(host, 0)
            size = value / highest * width
            parts.append(f'<rect class="{name}" x="{label}" y="{top + 2 + offset}" width="{size:.1f}" height="8"/>')
            parts.append(
                f'<text class="small" x="{label + size + 4:.1f}" y="{top + 9 + offset}">{_number(value)}</text>'
            )
    legend = '<span class="key before">before</span> <span class="key after">after</span>'
    box = f"0 0 {WIDTH} {max(1, len(hosts)) * (2 * _BAR - 4) + 4}"
    return (
        f"<figure><figcaption>{escape(title)}, {escape(unit)} {legend}</figcaption>"
        f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )
