"""What the pages of this project share: phone width, dark mode, one file without scripts or other assets."""

import base64
from collections.abc import Iterable
from html import escape

__all__ = ["document", "figure", "table"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c2128; --soft: #59636e; --line: #d5dae0; --paper: #fff;
  --card: #f6f8fa; --good: #0a6b4b; --bad: #b42318; --link: #0b5fa5 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a3adb8; --line: #3a424c;
  --paper: #14181d; --card: #1d2229; --good: #4cc38a; --bad: #ff8f85; --link: #7cbcf5 } }
* { box-sizing: border-box }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100% }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif }
h1 { margin: 0 0 .25rem; font-size: 1.7rem; line-height: 1.2 }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.35rem }
h3 { margin: 2rem 0 .5rem; font-size: 1.1rem }
a { color: var(--link) }
p { max-width: 46rem; margin: .4rem 0 }
nav { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .4rem 1rem }
.soft, figcaption, caption { color: var(--soft) }
.good { color: var(--good) } .bad { color: var(--bad) }
.good, .bad { font-weight: 600 }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; margin: .75rem 0 }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
table { border-collapse: collapse; width: 100%; font-size: .9rem; line-height: 1.4 }
th, td { padding: .5rem .75rem; text-align: left; vertical-align: top; overflow-wrap: break-word }
thead th { background: var(--card); white-space: nowrap }
tbody { border-top: 1px solid var(--line) }
tbody th { white-space: nowrap }
td.long { min-width: min(20rem, 45vw); max-width: 32rem }
td.number { font-variant-numeric: tabular-nums; min-width: 6rem; max-width: 14rem }
tr.control { color: var(--soft) } tr.control td { padding-top: 0 }
tbody:target { background: var(--card) }
small { display: block; color: var(--soft) }
summary { color: var(--soft); cursor: pointer }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)) }
figure { margin: 0 }
figure img { display: block; width: 100%; height: auto; padding: .5rem; background: #fff;
  border: 1px solid var(--line); border-radius: .5rem }
figcaption { font-size: .9rem; margin-top: .4rem }
"""


def document(title: str, lead: str, links: Iterable[tuple[str, str]], main: str) -> str:
    """A page: HTML under its title, anchors of its contents with their words, and HTML of the rest."""
    contents = "".join(f'<a href="#{anchor}">{escape(words)}</a>' for anchor, words in links)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{lead}
<nav aria-label="Contents">{contents}</nav>
</header>
<main>
{main}
</main>
</body>
</html>
"""


def table(label: str, heads: Iterable[str], body: str) -> str:
    """A table that scrolls where it is wider than the page; its body is HTML."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    box = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label, quote=True)}">'
    return f"{box}<table>{head}{body}</table></div>"


def figure(anchor: str, kind: str, content: bytes, alt: str, caption: str) -> str:
    """A picture in the page itself; its caption is HTML."""
    data = base64.b64encode(content).decode()
    return (
        f'<figure id="{anchor}"><img src="data:image/{kind};base64,{data}" alt="{escape(alt, quote=True)}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
