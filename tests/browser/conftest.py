"""A real JupyterLab and a real Chromium, both on this machine only."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def pytest_collection_modifyitems(items):
    """They need chromium and chromedriver; PORISM_BROWSER=1 says that these must be there."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        item.add_marker(pytest.mark.full)
        item.add_marker(pytest.mark.slow)
        if not (BROWSER and DRIVER) and os.environ.get("PORISM_BROWSER") != "1":
            item.add_marker(pytest.mark.skip(reason="no chromium with chromedriver on the path"))


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """Where pictures are kept: $PORISM_SCREENSHOTS, or pytest's own folder."""
    folder = Path(os.environ.get("PORISM_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def browser(tmp_path, needs):
    """Open a page: `browser(url, width, dark=False)` gives a selenium driver, closed afterwards."""
    webdriver = needs("selenium.webdriver")
    with contextlib.ExitStack() as opened:

        def open_page(url, width=1400, height=1800, dark=False):
            options = webdriver.ChromeOptions()
            for option in (
                *OPTIONS,
                f"--window-size={width},{height}",
                f"--user-data-dir={tmp_path}/chromium",
            ):
                options.add_argument(option)
            options.binary_location = BROWSER
            options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
            driver = webdriver.Chrome(service=webdriver.ChromeService(DRIVER), options=options)
            opened.callback(driver.quit)
            # the window of a headless browser is no narrower than 500 pixels: the page is told its width
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            driver.get(url)
            return driver

        yield open_page


@pytest.fixture(scope="session")
def lab(tmp_path_factory, root):
    """Start JupyterLab on a copy of the notebooks, at smoke scale; returns the address of a notebook."""
    home = tmp_path_factory.mktemp("lab")
    for script in (root / "notebooks").glob("*.ipynb"):
        shutil.copy(script, home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {f"JUPYTER_{name}_DIR": str(home / f".{name.lower()}") for name in ("CONFIG", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.token=", "--ServerApp.password=", f"--ServerApp.root_dir={home}"]
    command += ["--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.extension_manager=readonly", "--LabApp.news_url="]
    with (home / "lab.log").open("w") as log:
        environment = {
            **os.environ,
            **folders,
            "PORISM_SCALE": "smoke",
            "JUPYTERLAB_WORKSPACES_DIR": str(home),
        }
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(120):
                assert server.poll() is None, (home / "lab.log").read_text()[-2000:]
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{address}/api", timeout=5).read()
                    break
                time.sleep(0.5)
            yield lambda name: f"{address}/lab/tree/{re.sub('[.]py$', '.ipynb', name)}?reset"
        finally:
            server.terminate()
            server.wait(30)
