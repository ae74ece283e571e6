"""What a ReleaseImage object says when its image is refused, and when it is usable again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.planning import PlanningActivities, PlanRequest
from activities.requests import ManagementFence
from hopline.domain.errors import InvalidRelease, ReleasePhase, Transient
from hopline.domain.other_controllers import ControllerPolicy
from hopline.domain.release import RawBundle
from hopline.domain.resources import RELEASE_IMAGE, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.operations.observing import ObservedClusters
from hopline.operations.one_controller import OneController
from hopline.operations.planning import Planner
from hopline.operations.release_status import tell_refused_release
from hopline.operations.releases import ReleaseShelf
from hopline.operations.target_reach import TargetReach

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
VERSION = "v26.06-rc.3"


async def release_image(east: Any, name: str = "mine") -> ObjectRef:
    ref = ObjectRef(kind=RELEASE_IMAGE, name=name, kube_namespace=east.key.kube_namespace)
    metadata = {"name": name, "namespace": east.key.kube_namespace}
    head = {"apiVersion": RELEASE_IMAGE.api_version, "kind": "ReleaseImage", "metadata": metadata}
    await east.management.create({**head, "spec": {"version": VERSION}}, kind=RELEASE_IMAGE)
    status = {"phase": "Valid", "componentCount": 2, "source": "OCI", "digest": "sha256:old"}
    await east.management.patch(ref, {"status": status}, subresource="status")
    return ref


def refused(phase: ReleasePhase, version: str = VERSION) -> InvalidRelease:
    error = InvalidRelease("it cannot be used", subject="registry.test/a:b", remedy="push it again", phase=phase)
    error.release_version = version
    return error


@pytest.mark.parametrize(
    "phase", [ReleasePhase.INVALID, ReleasePhase.MANIFEST_MISSING, ReleasePhase.COMPATIBILITY_FAILED]
)
async def test_each_phase_once_per_reason(east: Any, phase: ReleasePhase) -> None:
    ref = await release_image(east)
    for minutes in range(2):
        await tell_refused_release(east.management, east.key, refused(phase), NOW + timedelta(minutes=minutes))
    status = (await east.management.get(ref))["status"]
    assert status["phase"] == phase.value
    assert "it cannot be used" in status["message"]
    assert status["validatedAt"] == "2026-11-30T12:00:00Z"
    assert ("compatibilityReport" in status) == (phase is ReleasePhase.COMPATIBILITY_FAILED)
    assert not {"componentCount", "source", "digest"} & status.keys()


async def test_objects_of_other_versions_and_absent_ones_are_left_alone(east: Any) -> None:
    ref = await release_image(east)
    await tell_refused_release(east.management, east.key, refused(ReleasePhase.INVALID, "v26.06"), NOW)
    await tell_refused_release(east.management, east.key, refused(ReleasePhase.INVALID, ""), NOW)
    assert (await east.management.get(ref))["status"]["phase"] == "Valid"
    assert len((await east.management.list(RELEASE_IMAGE)).items) == 1


class Faulty:
    """A release source with one answer."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    async def fetch(
        self, version: str, *, digest: str = "", cluster: ClusterKey | None = None, anew: bool = False
    ) -> RawBundle:
        raise self._fault


async def plan(east: Any, fault: Exception, *, observing: bool = False) -> ApplicationError:
    clusters = ObservedClusters(east.clusters) if observing else east.clusters
    alone = OneController(clusters.management, ControllerPolicy())
    planner = Planner(clusters, ReleaseShelf(Faulty(fault)), "bke", alone)
    fence = ManagementFence(clusters.management)
    activities = PlanningActivities(planner, fence, TargetReach(clusters), management=clusters.management)
    request = PlanRequest(cluster=east.key, desired_version=VERSION, mode="batches")
    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(activities.plan_upgrade, request)
    return caught.value


async def test_a_plan_tells_the_object_why_its_release_was_refused(east: Any) -> None:
    ref = await release_image(east)
    error = await plan(east, refused(ReleasePhase.MANIFEST_MISSING, ""))
    assert error.type == "Refused"
    assert (await east.management.get(ref))["status"]["phase"] == "ManifestMissing"


async def test_a_registry_that_is_away_never_makes_it_invalid(east: Any) -> None:
    ref = await release_image(east)
    error = await plan(east, Transient("the registry is silent"))
    assert not error.non_retryable
    assert (await east.management.get(ref))["status"]["phase"] == "Valid"


async def test_an_observing_worker_tells_nobody(east: Any) -> None:
    ref = await release_image(east)
    error = await plan(east, refused(ReleasePhase.INVALID, ""), observing=True)
    assert "it cannot be used" in str(error)
    assert (await east.management.get(ref))["status"]["phase"] == "Valid"
