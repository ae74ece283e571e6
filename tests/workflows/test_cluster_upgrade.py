"""The story on the simulator, with real activities and the real Temporal server."""

from __future__ import annotations

import pytest

from hopline.domain.status import RunState
from upgrade_lab import UpgradeLab

pytestmark = pytest.mark.slow


async def test_two_hops_to_ready(lab: UpgradeLab) -> None:
    async with lab.worker():
        handle = await lab.start("v26.06")
        result = await handle.result()
    assert (result.from_version, result.to_version, result.hops) == ("v26.06-rc.2", "v26.06", 2)
    version, bke = await lab.version(), await lab.bke()
    assert version["status"]["currentVersion"] == "v26.06"
    assert version["status"]["phase"] == "Ready"
    assert version["spec"]["desiredVersion"] == "v26.06"
    assert [(entry["from"], entry["to"]) for entry in version["status"]["upgradeHistory"]][-2:] == [
        ("v26.06-rc.2", "v26.06-rc.3"),
        ("v26.06-rc.3", "v26.06"),
    ]
    assert bke["status"]["clusterHealthState"] == "Healthy"
    assert bke["status"]["openFuyaoVersion"] == "v26.06"
    assert not [key for key in bke["metadata"].get("annotations", {}) if key.startswith(("cvo.", "hopline."))]
    async with lab.worker():
        assert (await lab.status()).state is RunState.DONE
