"""Chromium for the tests of the HTML page."""

import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    """Chromium, until the end of the file: its event loop would be in the way of other tests."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "the HTML page needs Chromium to be tested: apt-get install chromium, or pytest -m 'not browser'"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path)
        yield found
        found.close()


@pytest.fixture
def opened(browser, address):
    """Opens the page in a new window; any error or network request fails the test at the end."""
    faults, contexts, folder = [], [], address.removesuffix("index.html")

    def open_(width=1280, height=900, view="", **more):
        context = browser.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: faults.append(f"console: {message.text}"))
        tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda request: request.url.startswith((folder, "blob:")) or faults.append(f"request: {request.url}"))
        tab.goto(address + view)
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert faults == []
