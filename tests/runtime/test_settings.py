from pathlib import Path

import pytest

from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.errors import InvalidInput
from hopline.domain.other_controllers import PLATFORM_CONTROLLER, ControllerPolicy, ForeignProvider
from hopline.domain.plan import SchedulingMode
from hopline.domain.wire import ClusterKey
from hopline.runtime.settings import LogFormat, Settings


def test_defaults_need_no_environment() -> None:
    settings = Settings.from_environment({})
    assert settings.temporal.address == "localhost:7233"
    assert settings.temporal.temporal_namespace == "default"
    assert settings.task_queue == "hopline"
    assert settings.field_manager == "bke"
    assert settings.mode is SchedulingMode.BATCHES
    assert settings.slots == 8
    assert settings.probe_port == 0
    assert not settings.telemetry


def test_every_variable_is_read(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            "TEMPORAL_ADDRESS": "temporal.example.test:7233",
            "TEMPORAL_NAMESPACE": "upgrades",
            "TEMPORAL_API_KEY": "hush-41c7",
            "HOPLINE_TASK_QUEUE": "blue",
            "HOPLINE_KUBECONFIG": str(tmp_path / "config"),
            "HOPLINE_SIMULATION": str(tmp_path / "sim.sqlite"),
            "HOPLINE_RELEASES": str(tmp_path),
            "HOPLINE_MANAGEMENT_CLUSTER": "mgmt/root",
            "HOPLINE_FIELD_MANAGER": "other",
            "HOPLINE_MODE": "eager",
            "HOPLINE_SLOTS": "3",
            "HOPLINE_OTHER_CONTROLLERS": "a/b, c/d",
            "HOPLINE_OWN_IMAGES": "registry.test/hopline, ghcr.test/hopline",
            "HOPLINE_FOREIGN_PROVIDER": "scale-to-zero",
            "HOPLINE_OBSERVE": "True",
            "HOPLINE_AGENT_SSH_SECRET": "ops/node-access",
            "HOPLINE_AGENT_SSH_HOST_KEYS": "accept-new",
            "HOPLINE_AGENT_SOURCE": "https://files.test/agents",
            "HOPLINE_PROBE_PORT": "8081",
            "HOPLINE_LOG_FORMAT": "json",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        }
    )
    assert settings.temporal.address == "temporal.example.test:7233"
    assert settings.temporal.temporal_namespace == "upgrades"
    assert settings.temporal.tls is True
    assert "hush-41c7" not in repr(settings)
    assert settings.task_queue == "blue"
    assert settings.kubeconfig == str(tmp_path / "config")
    assert settings.simulation == tmp_path / "sim.sqlite"
    assert settings.releases_directory == tmp_path
    assert settings.management_cluster == ClusterKey(kube_namespace="mgmt", name="root")
    assert settings.field_manager == "other"
    assert settings.mode is SchedulingMode.EAGER
    assert settings.slots == 3
    assert [str(ref) for ref in settings.controllers.deployments] == ["Deployment a/b", "Deployment c/d"]
    assert settings.controllers.own_images == ("registry.test/hopline", "ghcr.test/hopline")
    assert settings.controllers.foreign_provider is ForeignProvider.SCALE_TO_ZERO
    assert (settings.agent_ssh_secret, settings.agent_source) == ("ops/node-access", "https://files.test/agents")
    assert settings.agent_ssh_host_keys is HostKeyPolicy.ACCEPT_NEW
    assert settings.observe
    assert settings.probe_port == 8081
    assert settings.log_format is LogFormat.JSON
    assert settings.telemetry


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("HOPLINE_MODE", "fast", "batches, eager"),
        ("HOPLINE_MODE", "unknown", "batches, eager"),
        ("HOPLINE_SLOTS", "0", "1 to 64"),
        ("HOPLINE_SLOTS", "many", "1 to 64"),
        ("HOPLINE_PROBE_PORT", "70000", "0 to 65535"),
        ("HOPLINE_MANAGEMENT_CLUSTER", "root", "NAMESPACE/NAME"),
        ("HOPLINE_OTHER_CONTROLLERS", "a/b,c", "NAMESPACE/NAME of each Deployment, or none"),
        ("HOPLINE_FOREIGN_PROVIDER", "ignore", "block, skip, scale-to-zero"),
        ("HOPLINE_OBSERVE", "yes", "true, false"),
        ("HOPLINE_MANAGEMENT_CLUSTER", "a/b/c", "NAMESPACE/NAME"),
        ("HOPLINE_AGENT_SSH_SECRET", "a/b/c", "NAME or NAMESPACE/NAME of the Secret"),
        ("HOPLINE_AGENT_SSH_SECRET", "a/", "NAME or NAMESPACE/NAME of the Secret"),
        ("HOPLINE_AGENT_SSH_HOST_KEYS", "no", "strict, accept-new"),
        ("HOPLINE_LOG_FORMAT", "xml", "text, json"),
        ("HOPLINE_REGISTRY_OVERRIDES", "docker.io", "FROM=TO"),
        ("TEMPORAL_PROFILE", "nowhere", "TEMPORAL_CONFIG_FILE"),
    ],
)
def test_a_bad_value_is_refused_with_variable_value_and_remedy(variable: str, value: str, remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Settings.from_environment({variable: value})
    assert caught.value.field == variable
    assert caught.value.value == value
    assert remedy in caught.value.remedy


def test_the_existing_controller_is_looked_for_unless_nobody_is_and_no_image_is_ours() -> None:
    assert Settings().controllers == ControllerPolicy()
    assert ControllerPolicy().deployments == (PLATFORM_CONTROLLER,)
    assert Settings.from_environment({"HOPLINE_OTHER_CONTROLLERS": "none"}).controllers.deployments == ()


def test_other_registries_and_hosts() -> None:
    rules = {"HOPLINE_REGISTRY_OVERRIDES": "docker.io=a.example/hub, quay.io=b.example"}
    settings = Settings.from_environment({**rules, "HOPLINE_REGISTRY_HOSTS": "store.example:9000, tokens.example"})
    assert settings.image_overrides.rules == (("docker.io", "a.example/hub"), ("quay.io", "b.example"))
    assert settings.registry.read().hosts == ("store.example:9000", "tokens.example")
    assert not Settings.from_environment({}).image_overrides
    assert Settings.from_environment({}).registry.read().hosts == ()


def test_a_profile_file_is_shared_with_the_temporal_cli(tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.prod]\naddress = "prod.example.test:7233"\nnamespace = "prod"\n')
    settings = Settings.from_environment({"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "prod"})
    assert (settings.temporal.address, settings.temporal.temporal_namespace) == ("prod.example.test:7233", "prod")


def test_in_a_pod_the_pods_account_is_used_and_a_file_wins_over_it(tmp_path: Path) -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBECONFIG": "/ignored"}
    assert Settings.from_environment(pod).kubeconfig_file is None
    file = tmp_path / "config"
    file.write_text("")
    assert Settings.from_environment({**pod, "HOPLINE_KUBECONFIG": str(file)}).kubeconfig_file == file


def test_a_missing_or_ambiguous_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a file") as caught:
        _ = Settings.from_environment({"KUBECONFIG": str(tmp_path / "none")}).kubeconfig_file
    assert caught.value.value == str(tmp_path / "none")
    with pytest.raises(InvalidInput, match="several files"):
        _ = Settings.from_environment({"KUBECONFIG": "/a:/b"}).kubeconfig_file


def test_releases_must_be_a_directory() -> None:
    with pytest.raises(InvalidInput, match="HOPLINE_RELEASES"):
        _ = Settings.from_environment({"HOPLINE_RELEASES": "/nowhere/at/all"}).releases_directory
