"""Settings of every Hopline process. The only reader of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from hopline.domain.agent_push import HostKeyPolicy
from hopline.domain.errors import InvalidInput, InvalidVersion
from hopline.domain.etcd import EtcdProbing
from hopline.domain.image_overrides import ImageOverrides, read_overrides
from hopline.domain.node_strategy import DrainPolicy, DrainRules
from hopline.domain.oldest_version import OLDEST_VERSION
from hopline.domain.other_controllers import PLATFORM_CONTROLLER, ControllerPolicy, ForeignProvider
from hopline.domain.plan import SchedulingMode
from hopline.domain.resources import DEFAULT_FIELD_MANAGER, DEPLOYMENT, ObjectRef
from hopline.domain.versions import parse_version
from hopline.domain.wire import ClusterKey
from hopline.runtime.registry_settings import RegistrySettings

_Choice = TypeVar("_Choice", bound=StrEnum)

DEFAULT_TEMPORAL_ADDRESS = "localhost:7233"
DEFAULT_TASK_QUEUE = "hopline"
NOBODY = "none"
"""As HOPLINE_OTHER_CONTROLLERS: nobody is looked for."""


class LogFormat(StrEnum):
    """How a process writes its log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """What a process writes into its log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TemporalSettings(BaseModel):
    """How to reach the Temporal service: one profile of `temporalio.envconfig`, shared with the `temporal` CLI.

    Attributes:
        tls: whether, or the SDK's TLSConfig: no type of the SDK, which commands on files alone do not load.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    address: str = DEFAULT_TEMPORAL_ADDRESS
    temporal_namespace: str = "default"
    api_key: SecretStr | None = None
    tls: Any = Field(default=False, repr=False)
    metadata: Mapping[str, str] = Field(default_factory=dict, repr=False)


class Settings(BaseModel):
    """Everything that an operator can set, as read once at the start of a process.

    Attributes:
        kubeconfig: file of the management cluster's kubeconfig as written; empty means in-cluster or the default file.
        in_cluster: this process runs in a pod.
        simulation: SQLite file of the simulator, which then replaces every Kubernetes API server.
        releases: directory of release bundles, one sub-folder each; None: they come from registries.
        release_cache_mb, release_cache_days: how large the folder may become, and how long something stays unused.
        release_cache, registry_ca, registry_auth, registry_plain_http, release_keys: see `registry_settings`.
        registry_hosts: hosts, with commas, that the registry of an offline cluster may send us to.
        registry_overrides: `FROM=TO` with commas: images of manifests are taken from TO.
        management_cluster: the BKECluster that stands for the management cluster itself.
        slots: components of one hop in flight at once.
        probe_port: of /livez and /readyz; 0 switches them off.
        catalogue_interval: seconds between two looks at the catalogue's registry; 0: nobody follows it.
        telemetry: an OTLP endpoint is set.
        other_controllers: Deployments that must not run beside us, `NAMESPACE/NAME`, with commas; `none`: nobody.
        own_images: prefixes of images that are ours in spite of such a name, with commas; None: no image is.
        observe: plan and report only.
        keep_health: the watcher keeps health states true between upgrades.
        oldest_version: the oldest one from which an upgrade starts.
        agent_ssh_secret: Secret with credentials for nodes, `NAMESPACE/NAME` or a name in each cluster's namespace;
            None: agents cannot be pushed.
        agent_source: address or directory of node agents, in place of each cluster's `httpRepo`.
        etcd_probe: whether an etcd that nobody can look at may be upgraded.
        drain, drain_timeout: what is done about pods that cannot be evicted within so many seconds, for new runs.
    """

    model_config = ConfigDict(frozen=True)

    temporal: TemporalSettings = TemporalSettings()
    task_queue: str = DEFAULT_TASK_QUEUE
    kubeconfig: str = ""
    in_cluster: bool = False
    simulation: Path | None = None
    releases: Path | None = None
    release_cache: Path = Path("~/.cache/hopline/releases")
    release_cache_mb: int = 1024
    release_cache_days: int = 90
    registry_ca: Path | None = None
    registry_auth: Path | None = None
    registry_plain_http: bool = False
    registry_hosts: str | None = None
    registry_overrides: str | None = None
    release_keys: Path | None = None
    management_cluster: ClusterKey | None = None
    field_manager: str = DEFAULT_FIELD_MANAGER
    mode: SchedulingMode = SchedulingMode.BATCHES
    slots: int = 8
    other_controllers: str = f"{PLATFORM_CONTROLLER.kube_namespace}/{PLATFORM_CONTROLLER.name}"
    own_images: str | None = None
    foreign_provider: ForeignProvider = ForeignProvider.BLOCK
    observe: bool = False
    keep_health: bool = False
    oldest_version: str = OLDEST_VERSION
    agent_ssh_secret: str | None = None
    agent_ssh_host_keys: HostKeyPolicy = HostKeyPolicy.STRICT
    agent_source: str | None = None
    etcd_probe: EtcdProbing = EtcdProbing.REQUIRED
    drain: DrainPolicy = DrainPolicy.WAIT
    drain_timeout: int = 600
    catalogue_interval: int = 300
    probe_port: int = 0
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.INFO
    telemetry: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, *, offline: bool = False) -> Settings:
        """Read the environment of this process, or `environment`; `offline`: without the way to Temporal.

        Raises:
            InvalidInput: a variable has a value that cannot be used; names variable, value and remedy.
        """
        env = _Environment(os.environ if environment is None else environment)
        return cls(
            temporal=_temporal_settings(env.values, offline=offline),
            task_queue=env.text("HOPLINE_TASK_QUEUE", DEFAULT_TASK_QUEUE),
            kubeconfig=env.text("HOPLINE_KUBECONFIG") or ("" if env.in_cluster else env.text("KUBECONFIG")),
            in_cluster=env.in_cluster,
            simulation=env.path("HOPLINE_SIMULATION"),
            releases=env.path("HOPLINE_RELEASES"),
            release_cache=env.path("HOPLINE_RELEASE_CACHE") or cls().release_cache,
            release_cache_mb=env.number("HOPLINE_RELEASE_CACHE_MB", 1024, low=0, high=1_000_000),
            release_cache_days=env.number("HOPLINE_RELEASE_CACHE_DAYS", 90, low=0, high=10_000),
            registry_ca=env.path("HOPLINE_REGISTRY_CA"),
            registry_auth=env.path("HOPLINE_REGISTRY_AUTH"),
            registry_plain_http=env.switch("HOPLINE_REGISTRY_PLAIN_HTTP"),
            registry_hosts=env.text("HOPLINE_REGISTRY_HOSTS") or None,
            registry_overrides=env.overrides("HOPLINE_REGISTRY_OVERRIDES") or None,
            release_keys=env.path("HOPLINE_RELEASE_KEYS"),
            management_cluster=env.cluster("HOPLINE_MANAGEMENT_CLUSTER"),
            field_manager=env.text("HOPLINE_FIELD_MANAGER", DEFAULT_FIELD_MANAGER),
            mode=env.choice("HOPLINE_MODE", SchedulingMode, SchedulingMode.BATCHES),
            slots=env.number("HOPLINE_SLOTS", 8, low=1, high=64),
            other_controllers=env.deployments("HOPLINE_OTHER_CONTROLLERS", cls().other_controllers),
            own_images=env.text("HOPLINE_OWN_IMAGES") or None,
            foreign_provider=env.choice("HOPLINE_FOREIGN_PROVIDER", ForeignProvider, ForeignProvider.BLOCK),
            observe=env.switch("HOPLINE_OBSERVE"),
            keep_health=env.switch("HOPLINE_KEEP_HEALTH"),
            oldest_version=env.version("HOPLINE_OLDEST_VERSION", OLDEST_VERSION),
            agent_ssh_secret=env.secret("HOPLINE_AGENT_SSH_SECRET") or None,
            agent_ssh_host_keys=env.choice("HOPLINE_AGENT_SSH_HOST_KEYS", HostKeyPolicy, HostKeyPolicy.STRICT),
            agent_source=env.text("HOPLINE_AGENT_SOURCE") or None,
            etcd_probe=env.choice("HOPLINE_ETCD_PROBE", EtcdProbing, EtcdProbing.REQUIRED),
            drain=env.choice("HOPLINE_DRAIN", DrainPolicy, DrainPolicy.WAIT),
            drain_timeout=env.number("HOPLINE_DRAIN_TIMEOUT", 600, low=1, high=86400),
            catalogue_interval=env.number("HOPLINE_CATALOGUE_INTERVAL", 300, low=0, high=86400),
            probe_port=env.number("HOPLINE_PROBE_PORT", 0, low=0, high=65535),
            log_format=env.choice("HOPLINE_LOG_FORMAT", LogFormat, LogFormat.TEXT),
            log_level=env.choice("HOPLINE_LOG_LEVEL", LogLevel, LogLevel.INFO),
            telemetry=bool(env.text("OTEL_EXPORTER_OTLP_ENDPOINT")),
        )

    @property
    def kubeconfig_file(self) -> Path | None:
        """The kubeconfig of the management cluster; None means the account of this pod. InvalidInput when unusable."""
        if not self.kubeconfig and self.in_cluster:
            return None
        if os.pathsep in self.kubeconfig:
            raise _invalid("KUBECONFIG", self.kubeconfig, "names several files", "set HOPLINE_KUBECONFIG to one file")
        file = Path(self.kubeconfig or "~/.kube/config").expanduser()
        if not file.is_file():
            remedy = "set it to a kubeconfig file, or HOPLINE_SIMULATION to a simulation"
            raise _invalid("HOPLINE_KUBECONFIG", str(file), "is not a file", remedy)
        return file

    @property
    def registry(self) -> RegistrySettings:
        """How releases are fetched when no directory of releases is set."""
        return RegistrySettings(
            cache=self.release_cache.expanduser(),
            cache_bytes=self.release_cache_mb * 1024 * 1024,
            cache_seconds=self.release_cache_days * 86_400.0,
            ca=self.registry_ca,
            auth=self.registry_auth,
            keys=self.release_keys,
            plain_http=self.registry_plain_http,
            hosts=_names(self.registry_hosts or ""),
        )

    @property
    def image_overrides(self) -> ImageOverrides:
        """From which other registries images are taken. InvalidInput when the rules cannot be used."""
        return read_overrides(self.registry_overrides or "", "HOPLINE_REGISTRY_OVERRIDES")

    @property
    def controllers(self) -> ControllerPolicy:
        """Who must not run beside us, and which images are ours."""
        return ControllerPolicy(
            deployments=tuple(_deployment(name) for name in _names(self.other_controllers) if name != NOBODY),
            own_images=_names(self.own_images or ""),
            foreign_provider=self.foreign_provider,
        )

    @property
    def drain_rules(self) -> DrainRules:
        """How nodes make room, where a release says nothing else."""
        return DrainRules(policy=self.drain, timeout_seconds=self.drain_timeout)

    @property
    def releases_directory(self) -> Path:
        """The directory of release bundles. InvalidInput when there is none."""
        if self.releases is None or not self.releases.is_dir():
            value = "" if self.releases is None else str(self.releases)
            remedy = "set it to a directory that holds one release bundle per sub-folder"
            raise _invalid("HOPLINE_RELEASES", value, "is not a directory", remedy)
        return self.releases


def child_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process that shall see `changes` and none of this process's own Hopline settings."""
    ours = ("HOPLINE_", "TEMPORAL_", "OTEL_", "KUBE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **changes}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _deployment(text: str) -> ObjectRef:
    kube_namespace, _, name = text.partition("/")
    return ObjectRef(kind=DEPLOYMENT, name=name, kube_namespace=kube_namespace)


def _invalid(variable: str, value: str, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput(
        f"the setting {variable} {problem}", subject="environment", field=variable, value=value, remedy=remedy
    )


class _Environment:
    """Typed look-ups; an empty value counts as unset."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    @property
    def in_cluster(self) -> bool:
        return bool(self.text("KUBERNETES_SERVICE_HOST"))

    def text(self, variable: str, default: str = "") -> str:
        return self.values.get(variable, "").strip() or default

    def path(self, variable: str) -> Path | None:
        value = self.text(variable)
        return Path(value).expanduser().absolute() if value else None

    def number(self, variable: str, default: int, *, low: int, high: int) -> int:
        value = self.text(variable)
        if not value:
            return default
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            raise _invalid(variable, value, "is not usable", f"use a whole number from {low} to {high}")
        return int(value)

    def choice(self, variable: str, choices: type[_Choice], default: _Choice) -> _Choice:
        value = self.text(variable)
        allowed = {choice.value: choice for choice in choices if choice.value != "unknown"}
        if value and value not in allowed:
            raise _invalid(variable, value, "is not usable", f"use one of: {', '.join(allowed)}")
        return allowed[value] if value else default

    def switch(self, variable: str) -> bool:
        value = self.text(variable, "false").lower()
        if value not in ("true", "false"):
            raise _invalid(variable, value, "is not usable", "use one of: true, false")
        return value == "true"

    def deployments(self, variable: str, default: str) -> str:
        value = self.text(variable, default)
        for name in _names(value):
            if name != NOBODY and (name.count("/") != 1 or not all(name.split("/"))):
                raise _invalid(
                    variable, value, "is not usable", f"write NAMESPACE/NAME of each Deployment, or {NOBODY}"
                )
        return value

    def secret(self, variable: str) -> str:
        value = self.text(variable)
        if value and (value.count("/") > 1 or not all(value.split("/"))):
            raise _invalid(variable, value, "is not usable", "write NAME or NAMESPACE/NAME of the Secret")
        return value

    def overrides(self, variable: str) -> str:
        value = self.text(variable)
        read_overrides(value, variable)
        return value

    def version(self, variable: str, default: str) -> str:
        value = self.text(variable, default)
        try:
            parse_version(value)
        except InvalidVersion as error:
            raise _invalid(variable, value, "is not a version", error.remedy) from error
        return value

    def cluster(self, variable: str) -> ClusterKey | None:
        value = self.text(variable)
        if not value:
            return None
        kube_namespace, _, name = value.partition("/")
        if not kube_namespace or not name or "/" in name:
            raise _invalid(variable, value, "is not usable", "write it as NAMESPACE/NAME of the BKECluster")
        return ClusterKey(kube_namespace=kube_namespace, name=name)


def _temporal_settings(values: Mapping[str, str], *, offline: bool) -> TemporalSettings:
    if offline:
        return TemporalSettings()
    from temporalio.envconfig import ClientConfig

    try:
        found = ClientConfig.load_client_connect_config(override_env_vars=dict(values))
    except (RuntimeError, ValueError, OSError) as error:
        remedy = "correct the file named by TEMPORAL_CONFIG_FILE, or the variables TEMPORAL_*"
        value = values.get("TEMPORAL_PROFILE", "default")
        raise _invalid("TEMPORAL_PROFILE", value, f"cannot be loaded ({error})", remedy) from error
    key = found.get("api_key")
    return TemporalSettings(
        address=found.get("target_host", DEFAULT_TEMPORAL_ADDRESS),
        temporal_namespace=found.get("namespace", "default"),
        api_key=SecretStr(key) if key else None,
        tls=found.get("tls", False),
        metadata=dict(found.get("rpc_metadata", {})),
    )
