"""What a page consists of."""

from __future__ import annotations

from docs.tools import pages

PAGE = """# Title

<!-- given
names = 1
-->
<!-- run -->
```python title="train.py"
import one
```

Prose.

<!-- run: tf-2.15 -->
```sh
two
```

```python
three
```
"""


def test_the_parts_of_a_page() -> None:
    parts = [part for part in pages.parts_of(PAGE) if not isinstance(part, str)]
    given, run, one, run_there, two, three = parts
    assert given == pages.Note("given", "\nnames = 1\n", 3)
    assert run == pages.Note("run", " ", 6)
    assert one == pages.Block("python", "train.py", "import one\n", 8, run)
    assert two == pages.Block("sh", "", "two\n", 15, run_there)
    assert three == pages.Block("python", "", "three\n", 19)
    assert [part for part in pages.parts_of(PAGE) if isinstance(part, str) and part] == [
        "# Title",
        "Prose.",
    ]


def test_a_note_holds_for_the_block_below_it_only() -> None:
    parts = list(pages.parts_of("<!-- run -->\n\n```python\n1\n```\n"))
    assert not any(pages.is_fragment(part, "") for part in parts)


def test_which_blocks_are_fragments() -> None:
    blocks = [part for part in pages.parts_of(PAGE) if pages.is_fragment(part, "")]
    assert [block.line for block in blocks if isinstance(block, pages.Block)] == [8]


def test_the_site_shows_no_note() -> None:
    shown = pages.without_notes(PAGE)
    assert "<!--" not in shown
    assert "names = 1" not in shown
    assert "import one" in shown


def test_what_is_generated_takes_the_place_of_its_note() -> None:
    text = "a\n\n<!-- generated: flags -->\n\n<!-- run -->\n"
    assert pages.replace_generated(text, {"flags": "b"}) == "a\n\nb\n\n<!-- run -->\n"
