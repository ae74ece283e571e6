"""Where the releases of a cluster come from and what they must prove: read from objects, with settings behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import SecretStr

from hopline.domain.errors import InvalidInput, InvalidRelease, NotFound
from hopline.domain.image_references import (
    CATALOGUE_NAME,
    CATALOGUE_TAG,
    RELEASE_NAME,
    Repository,
    catalogue_repository,
    release_repository,
)
from hopline.domain.image_supply import catalogue_mode, supply_of
from hopline.domain.plan import SupplyMode
from hopline.domain.registry_credentials import DOCKER_CONFIG, docker_login, secret_text
from hopline.domain.release import images_of
from hopline.domain.release_origin import RegistryAccess, RegistryDefaults, ReleaseOrigin, ReleasePolicy
from hopline.domain.resources import BKE_CLUSTER, CONFIG_MAP, RELEASE_IMAGE, SECRET, Document, ObjectRef
from hopline.domain.wire import ClusterKey
from hopline.ports import ClusterClient

PLATFORM_CONFIG = ObjectRef(kind=CONFIG_MAP, name="bke-config", kube_namespace="cluster-system")
_REPOSITORY = "spec.clusterConfig.cluster.imageRepo"
_KEY_IN_SECRET = "cosign.pub"
_SECRET_SCHEME = "k8s://"


class ClusterReleaseOrigins:
    """Reads BKECluster, `bke-config`, Secrets and ReleaseImages. Nothing is kept: they may change at any time."""

    def __init__(self, management: ClusterClient, defaults: RegistryDefaults) -> None:
        self._management = management
        self._defaults = defaults

    async def origin(self, cluster: ClusterKey | None, version: str) -> ReleaseOrigin:
        """For one release of one cluster.

        Raises:
            InvalidRelease: what says where it lies, or what it must prove, cannot be used.
            Transient: the management cluster does not answer.
        """
        if cluster is None:
            raise InvalidRelease(
                f"nothing says from which registry release {version} comes",
                subject=f"release {version}",
                field="cluster",
                remedy="ask for the release of a cluster",
            )
        bke, config, images = await asyncio.gather(
            self._management.get(ObjectRef(kind=BKE_CLUSTER, name=cluster.name, kube_namespace=cluster.kube_namespace)),
            self._found(PLATFORM_CONFIG),
            self._management.list(RELEASE_IMAGE, kube_namespace=cluster.kube_namespace),
        )
        image_repo = _mapping(_mapping(_mapping(_mapping(bke, "spec"), "clusterConfig"), "cluster"), "imageRepo")
        repository = release_repository(image_repo, _mapping(config, "data"))
        subject = f"BKECluster {cluster}"
        supply = supply_of(image_repo, _mapping(config, "data"), subject)
        try:
            references = repository.references(RELEASE_NAME, version)
            access = await self._access(cluster.kube_namespace, image_repo, repository)
            access = self._within(access, supply.mode, repository)
        except InvalidInput as error:
            raise _as_refusal(error, subject) from error
        policy = await self._policy(cluster, version, images.items)
        return ReleaseOrigin(references, access, policy, _notice(repository, access))

    async def keys(self, cluster: ClusterKey | None, signature_key: str) -> tuple[str, ...]:
        """The PEM texts behind `spec.signatureKey`: itself, else `cosign.pub` (or the only text) of a Secret.

        A Secret is named as `k8s://NAMESPACE/NAME`, or by its name in the namespace of the cluster.
        """
        if "-----BEGIN" in signature_key:
            return (signature_key,)
        place = signature_key.removeprefix(_SECRET_SCHEME)
        kube_namespace, _, name = place.rpartition("/")
        own = cluster.kube_namespace if cluster is not None else ""
        ref = ObjectRef(kind=SECRET, name=name, kube_namespace=kube_namespace or own)
        secret = await self._found(ref)
        data = _mapping(secret, "data")
        chosen = _KEY_IN_SECRET if _KEY_IN_SECRET in data or len(data) != 1 else next(iter(data))
        text = secret_text(secret, chosen)
        if not text:
            raise InvalidRelease(
                "the key of the signature cannot be found",
                subject=str(ref),
                field=f"data[{_KEY_IN_SECRET}]",
                value="no such Secret" if not secret else "no such key",
                remedy=f"kubectl create secret generic {name} -n {ref.kube_namespace} --from-file={_KEY_IN_SECRET}",
            )
        return (text,)

    async def _found(self, ref: ObjectRef) -> Document:
        try:
            return await self._management.get(ref)
        except NotFound:
            return {}

    def _within(self, access: RegistryAccess, mode: SupplyMode, repository: Repository) -> RegistryAccess:
        """Offline, no request leaves the hosts that somebody has named."""
        if mode is not SupplyMode.OFFLINE:
            return access
        return replace(access, hosts=(*repository.hosts, *self._defaults.hosts))

    async def _access(
        self, kube_namespace: str, image_repo: Mapping[str, Any], repository: Repository
    ) -> RegistryAccess:
        access = RegistryAccess(
            plain_http=self._defaults.plain_http, ca=self._defaults.ca, proxies=self._defaults.proxies
        )
        if self._defaults.auth:
            user, password = docker_login(self._defaults.auth, repository.hosts[0], subject="HOPLINE_REGISTRY_AUTH")
            if user:
                access = replace(access, username=user, password=SecretStr(password), source="HOPLINE_REGISTRY_AUTH")
        if repository.is_public:
            # The Secrets belong to the cluster's own registry; another host must never see them.
            return access
        if image_repo.get("insecureSkipTLSVerify") is True:
            access = replace(access, verify_tls=False)
        tls = _mapping(image_repo, "tlsSecretRef")
        if tls.get("name"):
            ref = _secret_ref(tls, kube_namespace)
            key = str(tls.get("caKey") or "ca.crt")
            ca = secret_text(await self._needed(ref, f"{_REPOSITORY}.tlsSecretRef"), key)
            access = replace(access, ca=f"{access.ca}\n{ca}".strip())
        login = _mapping(image_repo, "authSecretRef")
        if login.get("name"):
            ref = _secret_ref(login, kube_namespace)
            secret = await self._needed(ref, f"{_REPOSITORY}.authSecretRef")
            user, password = _login(secret, login, repository.hosts[0], str(ref))
            access = replace(access, username=user, password=SecretStr(password), source=str(ref))
        return access

    async def _needed(self, ref: ObjectRef, field: str) -> Document:
        secret = await self._found(ref)
        if not secret:
            raise InvalidInput(
                "a Secret that the repository names does not exist",
                field=field,
                value=str(ref),
                remedy="create it, or correct the name",
            )
        return secret

    async def _policy(self, cluster: ClusterKey, version: str, images: list[Document]) -> ReleasePolicy:
        """By the ReleaseImage of this version, when there is one; keys of the settings are needed besides."""
        made = images_of(images, version)
        if len(made) > 1:
            names = ", ".join(str(image["metadata"]["name"]) for image in made)
            raise InvalidRelease(
                f"several ReleaseImages stand for {version}, and which one counts would be a guess",
                subject=f"ReleaseImage {cluster.kube_namespace}/{made[0]['metadata']['name']}",
                field="spec.version",
                value=names,
                remedy=f"keep one and delete the others: kubectl delete releaseimage NAME -n {cluster.kube_namespace}",
            )
        spec = _mapping(made[0], "spec") if made else {}
        keys = self._defaults.keys
        named = str(spec.get("signatureKey") or "")
        wanted = spec.get("verifySignature") is True
        if not keys and wanted and named:
            keys = await self.keys(cluster, named)
        return ReleasePolicy(
            digest=str(spec.get("digest") or ""),
            verify_signature=wanted or bool(self._defaults.keys),
            keys=keys,
            allow_cache_fallback=spec.get("allowCacheFallback") is True,
        )


async def names_catalogue(management: ClusterClient) -> bool:
    """Whether `bke-config` says where the catalogue lies. False where nobody set a repository up: that is no fault."""
    try:
        config = await management.get(PLATFORM_CONFIG)
        catalogue_repository(_mapping(config, "data"))
    except (NotFound, InvalidInput):
        return False
    return True


class CatalogueOrigins(ClusterReleaseOrigins):
    """Where the one catalogue of a management cluster lies, by `bke-config`; no cluster and no version matter."""

    async def origin(self, cluster: ClusterKey | None, version: str) -> ReleaseOrigin:
        """Raises InvalidRelease when nothing says where, Transient when the management cluster does not answer."""
        config = _mapping(await self._found(PLATFORM_CONFIG), "data")
        try:
            repository = catalogue_repository(config)
            references = repository.references(CATALOGUE_NAME, CATALOGUE_TAG)
            access = await self._access("", {}, repository)
            access = self._within(access, catalogue_mode(repository, config), repository)
        except InvalidInput as error:
            raise _as_refusal(error, str(PLATFORM_CONFIG)) from error
        return ReleaseOrigin(references, access, notice=_notice(repository, access))


def _login(secret: Document, ref: Mapping[str, Any], host: str, subject: str) -> tuple[str, str]:
    config = secret_text(secret, DOCKER_CONFIG)
    if config:
        user, password = docker_login(config, host, subject=subject)
    else:
        user = secret_text(secret, str(ref.get("usernameKey") or "username"))
        password = secret_text(secret, str(ref.get("passwordKey") or "password"))
    if not user:
        raise InvalidInput(
            f"the Secret holds no login for {host}",
            field=f"{_REPOSITORY}.authSecretRef",
            value=subject,
            remedy=f"give it the keys username and password, or {DOCKER_CONFIG}",
        )
    return user, password


def _secret_ref(ref: Mapping[str, Any], kube_namespace: str) -> ObjectRef:
    return ObjectRef(kind=SECRET, name=str(ref["name"]), kube_namespace=str(ref.get("namespace") or kube_namespace))


def _notice(repository: Repository, access: RegistryAccess) -> str:
    said = []
    if repository.is_public:
        said.append(f"releases come from the public repository {repository.hosts[0]}, by {repository.field}")
    if not access.verify_tls:
        said.append(f"the certificate of {repository.hosts[0]} is not verified (insecureSkipTLSVerify)")
    return "; ".join(said)


def _as_refusal(error: InvalidInput, subject: str) -> InvalidRelease:
    return InvalidRelease(
        error.message, subject=error.subject or subject, field=error.field, value=error.value, remedy=error.remedy
    )


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
