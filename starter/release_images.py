"""What `hopline release show` asks and answers, without a cluster."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from hopline.documents.bundles import parse_bundle
from hopline.domain.errors import InvalidInput, InvalidVersion, PortError, Refusal, ReleasePhase, Transient
from hopline.domain.image_references import is_digest, parse_reference
from hopline.domain.plan import Finding
from hopline.domain.registry_credentials import docker_login
from hopline.domain.release import RawBundle, Release
from hopline.domain.release_origin import RegistryAccess, ReleaseOrigin, ReleasePolicy
from hopline.domain.release_verdict import ReleaseVerdict, verdict_of, verdict_on
from hopline.domain.versions import parse_version
from hopline.domain.wire import WireModel
from hopline.oci.keys import read_keys
from hopline.oci.releases import OneOrigin, RegistryReleaseSource
from hopline.runtime.proxy_settings import proxies_of

PENDING = "Pending"
"""Nothing can be said: no usable answer from the registry."""
ATTEMPTS = 3
LONGEST_WAIT_SECONDS = 10.0


class ComponentView(WireModel):
    """One component of the bundle."""

    name: str
    version: str
    type: str
    dependencies: tuple[str, ...] = ()


class SignatureView(WireModel):
    """Whether a signature had to be there, and whose counted."""

    required: bool = False
    verified: bool = False
    keys: tuple[str, ...] = ()


class ReleaseView(WireModel):
    """The stable JSON of `hopline release show`."""

    reference: str
    digest: str = ""
    version: str = ""
    phase: str
    components: tuple[ComponentView, ...] = ()
    signature: SignatureView = SignatureView()
    findings: tuple[Finding, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Can it be used?"""
        return self.phase == ReleasePhase.VALID


def origin_of(
    reference: str,
    *,
    digest: str = "",
    keys: Sequence[Path] = (),
    ca: Path | None = None,
    plain_http: bool = False,
    auth_file: Path | None = None,
) -> ReleaseOrigin:
    """What the options mean. InvalidInput when one of them cannot be used."""
    found = parse_reference(reference, field="REF")
    if digest and not is_digest(digest):
        raise InvalidInput(
            "this is no digest", subject="option", field="--digest", value=digest, remedy="write sha256: and 64 digits"
        )
    user = password = ""
    if auth_file is not None:
        user, password = docker_login(_text(auth_file), found.host, subject=str(auth_file))
    texts = tuple(_text(key) for key in keys)
    read_keys(texts, field="--key")
    access = RegistryAccess(
        plain_http=plain_http,
        ca=_text(ca) if ca else "",
        username=user,
        password=SecretStr(password),
        proxies=proxies_of(),
        source=str(auth_file) if user else "",
    )
    policy = ReleasePolicy(digest=digest or found.digest, verify_signature=bool(texts), keys=texts)
    return ReleaseOrigin((found,), access, policy)


async def look(origin: ReleaseOrigin, *, patience: float = 1.0) -> ReleaseView:
    """Fetch and check. A registry that gives no usable answer is asked three times.

    Args:
        patience: seconds before the second attempt, when the registry does not say.
    """
    (reference,) = origin.references
    with tempfile.TemporaryDirectory(prefix="hopline-release-") as folder:
        source = RegistryReleaseSource(OneOrigin(origin), Path(folder))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                raw = await source.fetch(_version_asked(reference.tag))
                return await asyncio.to_thread(_view, str(reference), origin, raw)
            except Transient as fault:
                if attempt == ATTEMPTS:
                    return _refused(str(reference), origin, PENDING, verdict_of(fault))
                await asyncio.sleep(min(fault.retry_after or patience * attempt, LONGEST_WAIT_SECONDS))
            except (Refusal, PortError) as fault:
                verdict = verdict_of(fault)
                return _refused(str(reference), origin, verdict.phase.value, verdict)
    raise AssertionError("the last attempt returns")


def _view(reference: str, origin: ReleaseOrigin, raw: RawBundle) -> ReleaseView:
    signature = SignatureView(
        required=origin.policy.verify_signature or bool(raw.signed_by),
        verified=bool(raw.signed_by),
        keys=raw.signed_by,
    )
    try:
        release: Release = parse_bundle(raw)
    except Refusal as fault:
        found = verdict_of(fault)
        view = _refused(reference, origin, found.phase.value, found)
        return view.model_copy(update={"digest": raw.digest, "signature": signature})
    verdict = verdict_on(release, raw.version)
    components = sorted(release.components, key=lambda component: (component.name, component.version))
    return ReleaseView(
        reference=reference,
        digest=raw.digest,
        version=release.version,
        phase=verdict.phase.value,
        components=tuple(
            ComponentView(
                name=one.name,
                version=one.version,
                type=one.type,
                dependencies=tuple(dependency.name for dependency in one.dependencies),
            )
            for one in components
        ),
        signature=signature,
        findings=verdict.findings,
    )


def _refused(reference: str, origin: ReleaseOrigin, phase: str, verdict: ReleaseVerdict) -> ReleaseView:
    required = SignatureView(required=origin.policy.verify_signature)
    return ReleaseView(reference=reference, phase=phase, signature=required, findings=verdict.findings)


def _version_asked(tag: str) -> str:
    """A tag that can be read as a version is the version that was asked for; another one asks for none."""
    try:
        parse_version(tag)
    except InvalidVersion:
        return ""
    return tag


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        raise InvalidInput(
            "a file cannot be read as text", subject="option", field="file", value=str(file), remedy="name another one"
        ) from None
