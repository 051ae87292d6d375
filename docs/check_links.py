"""Fail if a link between pages of the site leads nowhere: ``python docs/check_links.py FOLDER``."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places in it that links may lead to."""

    def __init__(self, text: str):
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what is a link or a place."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name in ("id", "name"):
                self.places.add(value)


root = Path(sys.argv[1]).resolve()
pages = {path: Page(path.read_text()) for path in root.rglob("*.html") if "_static" not in path.parts}
broken = []
for path, page in pages.items():
    for link in sorted(page.links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        place = unquote(parts.fragment)
        if not target.exists() or (place and target in pages and place not in pages[target].places):
            broken.append(f"{path.relative_to(root)}: {link}")
print("\n".join(broken) or f"All links between {len(pages)} pages lead somewhere.")
sys.exit(bool(broken))
