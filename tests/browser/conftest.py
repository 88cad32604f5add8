"""A headless Chromium, and reports of real runs for it to open."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from procrustean import fit
from procrustean.report import write_report

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement


def missing_browser() -> str | None:
    """Why no browser can be started, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not on the PATH (Debian: apt install chromium chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "the package selenium is not installed"
    return None


@dataclass
class Browser:
    """One window, of which width, colour scheme and medium can be set."""

    driver: Chrome

    def open(self, address: str, *, width: int = 1280, scheme: str = "light") -> None:
        """Open a page in a window of this size, with nothing left of earlier ones."""
        self.driver.get("about:blank")
        self.medium("", scheme)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.console(), self.requests()
        self.driver.get(address)

    def medium(self, medium: str, scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})

    def console(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self, *, even_blocked: bool = True) -> list[str]:
        """The addresses asked for since the last call, also those that the policy of the page held back."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        blocked = {
            message["params"]["requestId"]
            for message in messages
            if message["method"] == "Network.loadingFailed" and message["params"].get("blockedReason") == "csp"
        }
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
            and (even_blocked or message["params"]["requestId"] not in blocked)
        ]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element("css selector", selector)

    def click(self, selector: str) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", self.one(selector))
        self.one(selector).click()

    def hover(self, selector: str, x: float, y: float) -> None:
        """Move the pointer over an element, x and y as shares of its size."""
        from selenium.webdriver import ActionChains

        target = self.one(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", target)
        size = self.run("const b = arguments[0].getBoundingClientRect(); return [b.width, b.height]", target)
        away = [round((share - 0.5) * length) for share, length in zip((x, y), size, strict=True)]
        ActionChains(self.driver).move_to_element_with_offset(target, *away).perform()

    def until(self, condition: Callable[[], Any], seconds: float = 12) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        # An element that was found and is gone when it is asked belongs to a page that is just being redrawn.
        wait = WebDriverWait(self.driver, seconds, 0.1, [StaleElementReferenceException])
        return wait.until(lambda _: condition())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    reason = missing_browser()
    if reason is not None:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(f"REQUIRE_BROWSER=1, but {reason}")
        pytest.skip(reason)
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    yield Browser(driver)
    driver.quit()


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Real runs on the digits: two methods with two seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    settings: dict[str, Any] = {"imbalance": "step", "rho": 20, "epochs": 4, "hold_out": 2, "track_training": True}
    paths = []
    for method in ("erm", "mfw"):
        for seed in range(2):
            path = folder / f"{method}-{seed}"
            fit("digits", method=method, seed=seed, run_dir=path, device="cpu", **settings)
            paths.append(path)
    return paths


@pytest.fixture(scope="session")
def report(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(runs, path, examples=3)
    return path
