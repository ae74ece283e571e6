import pytest

from hopline.domain.errors import PathReason
from hopline.domain.oldest_version import OLDEST_VERSION, too_old
from hopline.domain.wire import ClusterKey


@pytest.mark.parametrize("current", ["v26.03", "v26.06-rc.1", "v25.12.4"])
def test_older_platforms_are_sent_to_the_older_guide(current: str) -> None:
    error = too_old(current, OLDEST_VERSION, ClusterKey(kube_namespace="east", name="east"))
    assert error is not None
    assert error.reason is PathReason.TOO_OLD
    assert str(error) == (
        f"{current} is older than v26.06-rc.2, from which on a platform is upgraded by its desired version; "
        f"ClusterVersion east/east status.currentVersion is '{current}'; remedy: upgrade to v26.06-rc.2 or later as "
        "the openFuyao upgrade guide for v26.03 to v26.06 says, then declare the version again"
    )


@pytest.mark.parametrize("current", ["v26.06-rc.2", "v26.06-rc.10", "v26.06", "v30.01", "latest"])
def test_newer_ones_and_those_without_an_order_are_no_matter_of_age(current: str) -> None:
    assert too_old(current, OLDEST_VERSION) is None
