"""The playground as a person uses it, in a headless Chromium, on a server of its own process with the default model.

`CONSTRAINED_SCREENSHOTS=docs/images` keeps the pictures that docs/server.md shows.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from .conftest import KEY

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; on Debian `apt-get install chromium` brings it")
    with playwright.sync_playwright() as tools:
        # Chromium refuses to run as root with its sandbox, and the page is our own.
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        chromium = tools.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page with its key filled in; at the end nothing went wrong in it, and nothing was asked of another host."""
    page = browser.new_page(viewport={"width": 960, "height": 560})
    problems: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.fill("#key", KEY)
    page.locator("#key").blur()
    playwright.expect(page.locator("#model")).to_have_text("SmolLM2-135M-Instruct")
    yield page
    page.close()
    assert problems == []
    assert all(url.startswith(address) for url in asked)


def generate(page: Any) -> str:
    """Presses the button and waits for the end."""
    page.click("#run")
    playwright.expect(page.locator("#run")).to_be_enabled(timeout=60_000)
    return str(page.locator("#output").text_content())


def choose(page: Any, kind: str, grammar: str) -> None:
    page.select_option("#kind", kind)
    page.fill("#grammar", grammar)


def picture(page: Any, name: str) -> None:
    folder = os.environ.get("CONSTRAINED_SCREENSHOTS")
    if folder is not None:
        page.screenshot(path=Path(folder) / name)


def green(span: Any) -> float:
    """How far the colour is from red (0) to green (1)."""
    found = re.search(r"rgba\((\d+), (\d+), (\d+)", span.evaluate("one => getComputedStyle(one).backgroundColor"))
    assert found is not None
    return int(found[2]) / (int(found[1]) + int(found[2]))


def test_each_token_is_coloured_and_tells_what_the_mask_removed(page: Any) -> None:
    choose(page, "schema", json.dumps(SCHEMA, indent=2))
    page.click("#check")
    playwright.expect(page.locator("#said")).to_contain_text("supported")
    playwright.expect(page.locator("#said")).to_contain_text("#/properties/age")
    jsonschema.validate(json.loads(generate(page)), SCHEMA)
    tokens = page.locator("#output span")
    greens = [green(tokens.nth(at)) for at in range(tokens.count())]
    assert greens[0] < 0.35 < 0.6 < max(greens)  # few ways to begin, many inside a string
    tokens.first.hover()
    about = page.locator("#about")
    few = str(about.text_content())
    assert re.match(r"\d+ tokens? (was|were) allowed; the mask removed \d", few)
    rows = about.locator("tr")
    assert rows.count() >= 3
    removed = [row for row in rows.all_text_contents() if "removed by the mask" in row]
    assert removed
    assert any("came" in row for row in rows.all_text_contents())
    tokens.nth(greens.index(max(greens))).focus()  # the keyboard gets there, too
    playwright.expect(about).not_to_have_text(few)
    picture(page, "playground-schema.png")


@pytest.mark.parametrize(
    ("kind", "grammar", "pattern"),
    [
        ("regex", "[A-Z]{2}-[0-9]{3}", "[A-Z]{2}-[0-9]{3}"),
        ("lark", 'start: NUMBER ("+" NUMBER)~1..2\nNUMBER: /[0-9]{1,2}/', r"\d{1,2}(\+\d{1,2}){1,2}"),
    ],
)
def test_other_grammars_are_held_and_explained(page: Any, kind: str, grammar: str, pattern: str) -> None:
    choose(page, kind, grammar)
    page.fill("#text", "1+x" if kind == "lark" else "AB-1x")
    page.click("#explain")
    playwright.expect(page.locator("#said")).to_contain_text('no "x" can come')
    playwright.expect(page.locator("#said")).to_contain_text("tokens may come next")
    assert re.fullmatch(pattern, generate(page))
    page.locator("#output span").last.hover()
    picture(page, f"playground-{kind}.png")


def test_what_is_wrong_is_said_where_it_is_looked_for(page: Any) -> None:
    choose(page, "schema", '{"properties": {"a": {"minimum": "x"}}}')
    page.click("#check")
    playwright.expect(page.locator("#said")).to_contain_text("#/properties/a")
    assert "error" in page.locator("#said").get_attribute("class")
    choose(page, "regex", "a(")
    assert "unterminated subpattern at position 1" in generate(page)
    page.fill("#key", "another")
    assert "API key" in generate(page)
    playwright.expect(page.locator("#output .error")).to_be_visible()


def test_a_generation_can_be_stopped(page: Any) -> None:
    choose(page, "none", "")
    page.fill("#max", "512")
    page.click("#run")
    playwright.expect(page.locator("#output span").nth(2)).to_be_visible(timeout=60_000)
    page.click("#stop")
    playwright.expect(page.locator("#run")).to_be_enabled(timeout=10_000)
    assert page.locator("#output span").count() < 512
    choose(page, "choice", "yes\nno")
    page.fill("#max", "8")
    for _ in range(100):  # the step that was running when it was stopped
        if (said := generate(page)) in ("yes", "no"):
            break
        assert "being watched" in said
    assert said in ("yes", "no")
