"""One HTML page that needs nothing else: claims, verdicts, figures, tables, commands, times."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from lincode.experiments.experiment import Claim, Table, duration
from lincode.experiments.report.tables import verdict

if TYPE_CHECKING:
    from lincode.experiments.report import Chapter

STYLE = """
:root { --ink:#1c2024; --soft:#5b6570; --line:#dfe3e8; --paper:#fff; --tint:#f5f7f9;
  --yes:#1b6e3c; --yes-tint:#e3f4e9; --no:#a03024; --no-tint:#fbe9e7; --link:#0b6e99; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6e9ec; --soft:#a2abb4; --line:#333a41;
  --paper:#15181b; --tint:#1e2327; --yes:#7bd69a; --yes-tint:#173524; --no:#f0a095;
  --no-tint:#3d1f1b; --link:#6fc3e4; } }
* { box-sizing:border-box; }
body { margin:0; font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif; color:var(--ink);
  background:var(--paper); overflow-wrap:break-word; }
main, header { max-width:62rem; margin:0 auto; padding:1.5rem 1.25rem; }
h1 { font-size:1.9rem; line-height:1.2; margin:1rem 0 .4rem; }
h2 { font-size:1.3rem; margin:0 0 .5rem; }
a { color:var(--link); }
p { max-width:46rem; }
.lead, .soft, figcaption, caption { color:var(--soft); }
.score { display:flex; flex-wrap:wrap; gap:.75rem; margin:1.2rem 0; padding:0; list-style:none; }
.score li { flex:1 1 9rem; background:var(--tint); border-radius:.6rem; padding:.7rem 1rem; }
.score b { display:block; font-size:1.5rem; line-height:1.2; }
section { border-top:1px solid var(--line); padding:1.8rem 0 1rem; }
.scroll { overflow-x:auto; margin:1rem 0; }
table { border-collapse:collapse; width:100%; font-size:.92rem; }
caption { text-align:left; padding:0 0 .4rem; }
th, td { text-align:left; vertical-align:top; padding:.4rem .7rem .4rem 0;
  border-bottom:1px solid var(--line); }
.numbers .right { text-align:right; font-variant-numeric:tabular-nums; white-space:nowrap; }
.verdict { display:inline-block; white-space:nowrap; border-radius:1rem; padding:.05rem .6rem;
  font-size:.85rem; font-weight:600; }
.holds { color:var(--yes); background:var(--yes-tint); }
.fails { color:var(--no); background:var(--no-tint); }
.open { color:var(--soft); background:var(--tint); }
.warning { background:var(--no-tint); color:var(--no); border-radius:.6rem; padding:.6rem 1rem; }
figure { margin:1.2rem 0; }
figure img { width:100%; height:auto; max-width:46rem; background:#fff; border-radius:.4rem;
  border:1px solid var(--line); }
pre { background:var(--tint); border-radius:.4rem; padding:.6rem .9rem; white-space:pre-wrap; }
nav ol { columns:18rem; padding-left:1.2rem; }
details { margin:.8rem 0; } summary { cursor:pointer; color:var(--soft); }
@media (max-width:40rem) {
  .claims thead { display:none; } .claims tr { display:block; padding:.6rem 0;
    border-bottom:1px solid var(--line); }
  .claims td { display:block; border:0; padding:.1rem 0; }
  .claims td[data-label]::before { content:attr(data-label) ": "; color:var(--soft); } }
"""


Pictures = Mapping[str, Mapping[str, bytes]]
"""By experiment the files of its figures."""


def page(chapters: Sequence[Chapter], pictures: Pictures, scale: str) -> str:
    """The whole page."""
    body = "\n".join(section(c, pictures[c.experiment.id], scale) for c in chapters)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lincode: the paper reproduced</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
{head(chapters, scale)}
<main>
{body}
</main>
</body>
</html>
"""


def head(chapters: Sequence[Chapter], scale: str) -> str:
    """What it is, the score, and where to find what."""
    claims = [claim for chapter in chapters for claim in chapter.claims]
    judged = [claim for claim in claims if claim.holds is not None]
    close = sum(claim.close for claim in claims)
    records = {record.run.key: record for chapter in chapters for record in chapter.records}
    seconds = sum(record.seconds for record in records.values())
    links = "\n".join(
        f'<li><a href="#{c.experiment.id}">{escape(c.experiment.title)}</a></li>' for c in chapters
    )
    return f"""<header>
<h1>A linear approach for sparse coding, reproduced</h1>
<p class="lead">The experiments of Section 4 of Montalto, Tessitore and Prevete (Neurocomputing
149, 2015), run with lincode: what the paper says, what came out here, and whether it holds.
λ, thresholds and classifiers were chosen on validation data.</p>
{warnings_of(chapters, scale)}
<ul class="score">
<li><b>{sum(claim.holds is True for claim in judged)} of {len(judged)}</b> claims that can be judged
hold here{f"; {close} more are too close to say" if close else ""}</li>
<li><b>{len(records)}</b> runs, {escape(scale)} scale</li>
<li><b>{duration(seconds)}</b> of computing in all</li>
</ul>
<nav><ol>
{links}
</ol></nav>
</header>"""


def warnings_of(chapters: Sequence[Chapter], scale: str) -> str:
    """What nobody may overlook: small runs, and data that stand in for the paper's."""
    made = []
    if scale != "paper":
        made.append(
            f"This is the {escape(scale)} scale: a few small runs to see that all works. No claim"
            " of the paper is judged by them; the texts below tell the sizes of the paper’s scale."
        )
    names = sorted({c.data for c in chapters if any(r.run.embedded for r in c.records)})
    if names:
        made.append(f"Not on the paper’s data: {escape('; '.join(names))}.")
    return "\n".join(f'<p class="warning">{text}</p>' for text in made)


def section(chapter: Chapter, pictures: Mapping[str, bytes], scale: str) -> str:
    """One experiment."""
    x = chapter.experiment
    done = len(chapter.records)
    part = (
        "" if done == chapter.n_runs else f" <b>Only {done} of {chapter.n_runs} runs are done.</b>"
    )
    figures = "\n".join(
        picture(name, content) for name, content in pictures.items() if name.endswith(".svg")
    )
    tables = "\n".join(numbers(table) for table in chapter.tables)
    return f"""<section id="{x.id}">
<h2>{escape(x.title)}</h2>
<p>{escape(x.about)}</p>
<p class="soft">Data: {escape(chapter.data)}. {done} runs, {duration(chapter.seconds)}.{part}</p>
{claims_table(chapter.claims)}
{tried(chapter)}
{figures}
{tables}
<pre>{escape(command(chapter, scale))}</pre>
</section>"""


def tried(chapter: Chapter) -> str:
    """What was done about claims that do not hold."""
    text = chapter.experiment.tried
    if not text or all(claim.holds is not False for claim in chapter.claims):
        return ""
    return f"<p><b>Where it does not hold.</b> {escape(text)}</p>"


def command(chapter: Chapter, scale: str) -> str:
    """What makes these runs."""
    runs = [record.run for record in chapter.records]
    words = ["lincode reproduce", chapter.experiment.id, "--scale", scale]
    words += ["--embedded"] if runs[0].embedded else ["--data-dir DATA"]
    seed = min(run.seed for run in runs)
    return " ".join(words + ([f"--seed {seed}"] if seed else []))


def claims_table(claims: Sequence[Claim]) -> str:
    """Claim, paper, here, verdict."""
    if not claims:
        return "<p>Too few runs are done to judge the paper’s claims.</p>"
    rows = "\n".join(
        f"<tr><td>{escape(claim.sentence)}</td>"
        f'<td data-label="paper">{escape(claim.paper)}</td>'
        f'<td data-label="here">{escape(claim.ours)}</td>'
        f"<td>{pill(claim)}</td></tr>"
        for claim in claims
    )
    return f"""<div class="scroll"><table class="claims">
<thead><tr><th>the paper’s claim</th><th>paper</th><th>here</th><th>verdict</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def pill(claim: Claim) -> str:
    """The verdict in colour."""
    colour = {True: "holds", False: "fails", None: "open"}[claim.holds]
    return f'<span class="verdict {colour}">{verdict(claim)}</span>'


def picture(name: str, content: bytes) -> str:
    """An SVG inside the page, so that the page can travel alone."""
    data = b64encode(content).decode()
    words = escape(name.removesuffix(".svg").replace("-", " "))
    return f'<figure><img alt="{words}" src="data:image/svg+xml;base64,{data}"></figure>'


def numbers(table: Table) -> str:
    """A table of numbers."""
    sides = [side(column) for column in zip(*table.rows, strict=True)]

    def line(tag: str, cells: Sequence[str]) -> str:
        pairs = zip(sides, cells, strict=True)
        return "".join(f"<{tag}{at}>{escape(cell)}</{tag}>" for at, cell in pairs)

    header = line("th", table.columns)
    rows = "\n".join(f"<tr>{line('td', row)}</tr>" for row in table.rows)
    return f"""<div class="scroll"><table class="numbers"><caption>{escape(table.caption)}</caption>
<thead><tr>{header}</tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def side(column: Sequence[str]) -> str:
    """A column that has numbers stands to the right."""
    return ' class="right"' if any(cell[:1].isdigit() for cell in column) else ""
