"""Reading and setting up a page in a real browser."""

from __future__ import annotations

from typing import Any

from evenflow.testing import wait_for


def emulate(browser: Any, width: int = 1280, height: int = 1000, dark: bool = False) -> None:
    """Set the size of the window and the colour scheme that the system prefers."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def open_page(browser: Any, address: str, batch: int | None = None) -> None:
    """Open a page, and wait until it shows a batch."""
    browser.get_log("browser")  # what was logged before is not ours
    browser.get(address)
    if batch is not None:
        wait_for_batch(browser, batch)


def wait_for_batch(browser: Any, batch: int) -> None:
    """Wait until the page shows a batch."""
    script = "document.body.dataset.batch"
    wait_for(lambda: shown(browser, script) == str(batch), f"batch {batch} on the page")


def shown(browser: Any, expression: str) -> Any:
    """Return the value of an expression in the page."""
    return browser.execute_script(f"return {expression}")


def fact(browser: Any, name: str) -> str:
    """Return a number of the last batch as the page shows it."""
    return str(shown(browser, f"document.querySelector('#fact-{name} dd').textContent"))


def table_of(browser: Any, chart: str) -> list[list[str]]:
    """Open the table behind a chart and return its cells."""
    fold = f"document.querySelector('#{chart} details')"
    browser.execute_script(f"{fold}.open = true")
    wait_for(lambda: shown(browser, f"{fold}.querySelector('tbody') !== null"), "the table")
    return cells_of(browser, f"{fold}.querySelectorAll('tbody tr')")


def cells_of(browser: Any, rows: str) -> list[list[str]]:
    """Return the texts of the cells of table rows."""
    script = f"[...{rows}].map(row => [...row.cells].map(cell => cell.textContent))"
    found: list[list[str]] = shown(browser, script)
    return found


def errors(browser: Any) -> list[str]:
    """Return what the browser has complained about since the page was opened."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] != "INFO"]
