"""An upgrade started by hand in Temporal's web UI, as docs/operations.md says it, on a simulated cluster.

Pictures of its timeline and details go to the folder that HOPLINE_PICTURES names (docs/images for the docs).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from browser.web_driver import INSTALL, Browser, missing_programs
from hopline.domain.resources import CLUSTER_VERSION, ObjectRef
from hopline.runtime.settings import Settings
from hopline.sim import open_simulation
from hopline.sim.clusters import SimulatedClusters
from hopline.sim.scenarios import EXAMPLE_CONTROLLER_IMAGE, Durations, create_scenario
from hopline.wiring import Ports, build_ports
from looking import PATIENCE
from starter.dev_server import dev_server
from worker.composition import build_worker
from worker.search_attributes import ensure_search_attributes

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy" / "examples"
OPERATIONS = ROOT / "docs" / "operations.md"
MOST_BYTES = 300_000
PNG = b"\x89PNG\r\n\x1a\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_programs()), reason=f"no {' and '.join(missing_programs())}: run {INSTALL}"),
]


@dataclass(frozen=True)
class Site:
    """A Temporal server with its web UI, and a worker on a simulated cluster.

    The agent of the last worker node is asleep until the script is cleared, so that there is time for a look.
    """

    ui: str
    client: Client
    ports: Ports
    simulation: SimulatedClusters


@dataclass(frozen=True)
class Form:
    """What a person types, from the docs."""

    workflow_id: str
    task_queue: str
    workflow_type: str
    data: str


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    file = tmp_path / "simulation.db"
    create_scenario(file, examples=EXAMPLES, durations=Durations(command=0.2, rollout=0.5))
    async with dev_server(ui=True) as server:
        client = await Client.connect(server.address, data_converter=pydantic_data_converter)
        assert await ensure_search_attributes(client)
        settings = Settings(simulation=file, releases=EXAMPLES / "releases", own_images=EXAMPLE_CONTROLLER_IMAGE)
        ports = await build_ports(settings)
        async with build_worker(client, ports, settings, search_attributes=True):
            simulation = open_simulation(file)
            simulation.script.agent_down("192.0.2.25")
            yield Site(server.ui_url, client, ports, simulation)
            await simulation.aclose()
        await ports.aclose()


@pytest.fixture
def form() -> Form:
    text = OPERATIONS.read_text()
    rows = dict(re.findall(r"^\| (Workflow ID|Task Queue|Workflow Type|Data) \| `(.+)` \|$", text, re.MULTILINE))
    return Form(rows["Workflow ID"], rows["Task Queue"], rows["Workflow Type"], rows["Data"])


def fill_in(browser: Browser, ui: str, form: Form) -> None:
    """The form "Start Workflow", and its button."""
    browser.open(f"{ui}/namespaces/default/workflows/start-workflow")
    browser.write("#workflowId", form.workflow_id)
    browser.write("#taskQueue", form.task_queue)
    browser.write("#workflowType", form.workflow_type)
    browser.write(".cm-content", form.data)
    # The editor lays the text out anew when it is left, which moves the button.
    browser.click("h1")
    browser.see('"desiredVersion"', "Task Queue is Active")
    browser.until(lambda: "\n" in browser.script("return document.querySelector('.cm-content').innerText"), "layout")
    browser.click("//button[@type='button' and normalize-space()='Start Workflow']")
    browser.see("Workflow started successfully")


async def until_the_last_worker_is_in_hand(handle: WorkflowHandle[Any, Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if "containerd on w5" in json.dumps(await handle.query("status")):
                return
            await asyncio.sleep(0.2)


def page_of(site: Site, form: Form, run_id: str) -> str:
    return f"{site.ui}/namespaces/default/workflows/{quote(form.workflow_id, safe='')}/{run_id}"


def keep(name: str, picture: bytes, folder: Path) -> None:
    assert picture.startswith(PNG)
    assert 20_000 < len(picture) < MOST_BYTES
    (Path(os.environ.get("HOPLINE_PICTURES", folder)) / f"{name}.png").write_bytes(picture)


def look_at_details(browser: Browser, page: str, folder: Path) -> None:
    """In mid-run: what the workflow says of itself."""
    browser.open(f"{page}/timeline")
    browser.click("//a[normalize-space()='User Metadata']")
    browser.see("Current Details")
    with browser.frame("iframe"):
        browser.see("hop 1 of 2", "v26.06-rc.2", "v26.06-rc.3", "containerd on w5", "kubernetes-master")
    browser.see("RUNNING")
    browser.show("//a[normalize-space()='User Metadata']")
    keep("web-ui-details", browser.picture(), folder)


def look_at_timeline(browser: Browser, page: str, folder: Path) -> None:
    """Of the first hop, after it."""
    browser.open(f"{page}/timeline")
    browser.see("Timeline", "publish status")
    browser.click("//button[normalize-space()='Descending']")
    browser.see("plan the way to v26.06", "1/6 provider: apply v26.06-rc.3")
    browser.show("//*[self::h2 or self::h3][normalize-space()='Timeline']")
    keep("web-ui-timeline", browser.picture(), folder)


async def test_the_documented_form_starts_the_upgrade_and_it_runs_to_its_end(
    site: Site, form: Form, tmp_path: Path
) -> None:
    assert json.loads(form.data)["cluster"] == {"namespace": "east", "name": "east"}
    handle = site.client.get_workflow_handle(form.workflow_id)
    with Browser() as browser:
        await asyncio.to_thread(fill_in, browser, site.ui, form)
        first = (await handle.describe()).run_id
        await until_the_last_worker_is_in_hand(handle)
        await asyncio.to_thread(look_at_details, browser, page_of(site, form, first), tmp_path)
        site.simulation.script.clear_all()
        result = await handle.result()
        await asyncio.to_thread(look_at_timeline, browser, page_of(site, form, first), tmp_path)
    assert (result["to"], result["hops"]) == ("v26.06", 2)
    ref = ObjectRef(kind=CLUSTER_VERSION, name="east", kube_namespace="east")
    version = await site.ports.clusters.management.get(ref)
    assert (version["spec"]["desiredVersion"], version["status"]["currentVersion"]) == ("v26.06", "v26.06")


async def test_under_another_workflow_id_it_refuses_on_the_page_and_names_the_right_one(site: Site, form: Form) -> None:
    wrong = Form("my-upgrade", form.task_queue, form.workflow_type, form.data)
    with Browser() as browser:
        await asyncio.to_thread(fill_in, browser, site.ui, wrong)
        run_id = (await site.client.get_workflow_handle(wrong.workflow_id).describe()).run_id
        page = f"{page_of(site, wrong, run_id)}/timeline"
        await asyncio.to_thread(browser.open, page)
        text = await asyncio.to_thread(browser.see, "FAILED", f"--workflow-id {form.workflow_id}")
    assert "one workflow id per cluster" in text
