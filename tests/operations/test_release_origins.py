"""Where the releases of a cluster come from, read from objects of a simulated management cluster."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from hooked_clusters import Call, HookedClusters
from hopline.domain.errors import AlreadyExists, InvalidRelease, NotFound, Transient
from hopline.domain.release import BundleSource, Release
from hopline.domain.release_origin import RegistryDefaults, ReleaseOrigin
from hopline.domain.resources import CONFIG_MAP, RELEASE_IMAGE, SECRET, ObjectRef
from hopline.operations.hop_objects import ensure_release_image
from hopline.operations.release_origins import CatalogueOrigins, ClusterReleaseOrigins

HOST = "registry.example.test:40443"
PEM = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"


async def origin(east: Any, version: str = "v26.06", **defaults: Any) -> ReleaseOrigin:
    return await ClusterReleaseOrigins(east.management, RegistryDefaults(**defaults)).origin(east.key, version)


async def refusal(east: Any, **defaults: Any) -> InvalidRelease:
    with pytest.raises(InvalidRelease) as caught:
        await origin(east, **defaults)
    assert caught.value.subject
    assert caught.value.remedy
    return caught.value


async def repository(east: Any, **values: Any) -> None:
    await east.patch_cluster({"spec": {"clusterConfig": {"cluster": {"imageRepo": values}}}})


async def secret(east: Any, name: str, kube_namespace: str = "", **data: str) -> None:
    encoded = {key.replace("__", "."): b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": kube_namespace or east.key.kube_namespace}
    await east.management.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}, kind=SECRET
    )


async def release_image(east: Any, name: str, **spec: Any) -> None:
    document = {
        "apiVersion": RELEASE_IMAGE.api_version,
        "kind": "ReleaseImage",
        "metadata": {"name": name, "namespace": east.key.kube_namespace},
        "spec": {"version": "v26.06", **spec},
    }
    await east.management.create(document, kind=RELEASE_IMAGE)


async def platform_config(east: Any, **data: str) -> None:
    metadata = {"name": "bke-config", "namespace": "cluster-system"}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    await east.management.create(document, kind=CONFIG_MAP)


async def test_by_domain_then_by_address(east: Any) -> None:
    found = await origin(east)
    assert [str(one) for one in found.references] == [
        f"{HOST}/kubernetes/release-image:v26.06",
        "192.0.2.5:40443/kubernetes/release-image:v26.06",
    ]
    assert found.notice == ""
    assert (found.access.verify_tls, found.access.plain_http, found.access.username) == (True, False, "")
    assert (found.policy.digest, found.policy.verify_signature, found.policy.keys) == ("", False, ())


async def test_the_public_repository_is_said(east: Any) -> None:
    await repository(east, prefix="")
    assert str((await origin(east)).references[0]) == f"{HOST}/release-image:v26.06"
    await platform_config(east, onlineImage="cr.openfuyao.cn")
    found = await origin(east)
    assert [str(one) for one in found.references] == ["cr.openfuyao.cn/openfuyao/release-image:v26.06"]
    assert "public repository cr.openfuyao.cn" in found.notice
    assert "onlineImage" in found.notice


async def test_secrets_of_the_own_registry_never_go_to_the_public_one(east: Any) -> None:
    await secret(east, "login", username="me", password="secret")
    await repository(east, domain="", ip="", authSecretRef={"name": "login"}, insecureSkipTLSVerify=True)
    found = await origin(east)
    assert (found.access.username, found.access.verify_tls) == ("", True)


async def test_login_and_authority_from_secrets(east: Any) -> None:
    await secret(east, "login", username="me", password="secret")
    await secret(east, "tls", "kube-system", ca__crt="PEM")
    await repository(east, authSecretRef={"name": "login"}, tlsSecretRef={"name": "tls", "namespace": "kube-system"})
    found = (await origin(east, ca="OURS")).access
    assert (found.username, found.password.get_secret_value(), found.ca) == ("me", "secret", "OURS\nPEM")
    assert found.source == f"Secret {east.key.kube_namespace}/login"
    assert "secret" not in repr(found)


async def test_keys_of_the_secrets_may_have_other_names(east: Any) -> None:
    await secret(east, "login", user="me", word="secret", authority="PEM")
    await repository(
        east,
        authSecretRef={"name": "login", "usernameKey": "user", "passwordKey": "word"},
        tlsSecretRef={"name": "login", "caKey": "authority"},
    )
    found = (await origin(east)).access
    assert (found.username, found.password.get_secret_value(), found.ca) == ("me", "secret", "PEM")


async def test_a_login_as_container_tools_write_it(east: Any) -> None:
    auths = {"auths": {f"https://{HOST}/v2/": {"auth": b64encode(b"me:sec:ret").decode()}}}
    await secret(east, "login", __dockerconfigjson=json.dumps(auths))
    await repository(east, authSecretRef={"name": "login"})
    found = (await origin(east)).access
    assert (found.username, found.password.get_secret_value()) == ("me", "sec:ret")
    await repository(east, authSecretRef=None)
    found = (await origin(east, auth=json.dumps(auths))).access
    assert (found.username, found.source) == ("me", "HOPLINE_REGISTRY_AUTH")


async def test_secrets_that_cannot_be_used(east: Any) -> None:
    await repository(east, authSecretRef={"name": "login"})
    assert "does not exist" in (await refusal(east)).message
    await secret(east, "login", other="x")
    assert f"no login for {HOST}" in (await refusal(east)).message
    await repository(east, authSecretRef=None, tlsSecretRef={"name": "nothing"})
    assert (await refusal(east)).field.endswith("tlsSecretRef")
    await repository(east, tlsSecretRef=None, insecureSkipTLSVerify=True)
    found = await origin(east)
    assert not found.access.verify_tls
    assert "not verified" in found.notice


async def test_a_login_that_is_left_to_a_program(east: Any) -> None:
    error = await refusal(east, auth=json.dumps({"auths": {HOST: {}}, "credsStore": "pass"}))
    assert "not in the file itself" in error.message
    assert "no configuration" in (await refusal(east, auth="hello")).message


async def test_a_release_image_says_what_must_be_proven(east: Any) -> None:
    digest = "sha256:" + "0" * 64
    await release_image(east, "mine", digest=digest, verifySignature=True, signatureKey=PEM, allowCacheFallback=True)
    policy = (await origin(east)).policy
    assert (policy.digest, policy.verify_signature, policy.keys, policy.allow_cache_fallback) == (
        digest,
        True,
        (PEM,),
        True,
    )
    other = (await origin(east, "v26.09")).policy
    assert (other.digest, other.verify_signature) == ("", False)


@pytest.mark.parametrize("named", ["k8s://kube-system/publisher", "publisher"])
@pytest.mark.parametrize("key", ["cosign__pub", "anything"])
async def test_the_key_in_a_secret(east: Any, named: str, key: str) -> None:
    await secret(east, "publisher", "kube-system" if "kube-system" in named else "", **{key: PEM})
    await release_image(east, "mine", verifySignature=True, signatureKey=named)
    assert (await origin(east)).policy.keys == (PEM,)


async def test_a_key_that_is_not_there(east: Any) -> None:
    await release_image(east, "mine", verifySignature=True, signatureKey="k8s://kube-system/publisher")
    error = await refusal(east)
    assert (error.subject, error.value) == ("Secret kube-system/publisher", "no such Secret")
    await secret(east, "publisher", "kube-system", one="1", two="2")
    assert (await refusal(east)).value == "no such key"


async def test_keys_of_the_settings_are_required_of_every_release(east: Any) -> None:
    await release_image(east, "mine", verifySignature=False, signatureKey="OTHER")
    policy = (await origin(east, keys=(PEM,))).policy
    assert (policy.verify_signature, policy.keys) == (True, (PEM,))


async def test_two_release_images_of_one_version(east: Any) -> None:
    await release_image(east, "one")
    await release_image(east, "two")
    error = await refusal(east)
    assert error.value == "one, two"
    assert "kubectl delete releaseimage" in error.remedy


async def test_no_cluster(east: Any) -> None:
    with pytest.raises(InvalidRelease, match="nothing says from which registry"):
        await ClusterReleaseOrigins(east.management, RegistryDefaults()).origin(None, "v26.06")


async def test_where_the_catalogue_lies(east: Any) -> None:
    await platform_config(east, domain="deploy.bocloud.k8s", host="192.0.2.5", imageRepoPort="40443")
    found = await CatalogueOrigins(east.management, RegistryDefaults()).origin(None, "")
    assert [str(one) for one in found.references] == [
        "deploy.bocloud.k8s:40443/kubernetes/upgrade-path:latest",
        "192.0.2.5:40443/kubernetes/upgrade-path:latest",
    ]


def release(**more: Any) -> Release:
    document = {"metadata": {"name": "release-v26.06"}, "spec": {"version": "v26.06"}}
    given = {
        "version": "v26.06",
        "name": "release-v26.06",
        "digest": "sha256:" + "a" * 64,
        "content_digest": "sha256:" + "b" * 64,
        "source": BundleSource.OCI,
        "origin": "registry.test/release-image:v26.06",
        "document": document,
    }
    return Release(**{**given, **more})


async def status_of(east: Any, name: str) -> dict[str, Any]:
    ref = ObjectRef(kind=RELEASE_IMAGE, name=name, kube_namespace=east.key.kube_namespace)
    return dict((await east.management.get(ref))["status"])


async def test_the_object_tells_where_the_bundle_came_from(east: Any) -> None:
    facts = await east.facts()
    await ensure_release_image(east.management, facts, release(), "2026-11-30T12:00:00Z")
    status = await status_of(east, "release-v26.06")
    assert (status["phase"], status["source"], status["digest"]) == ("Valid", "OCI", "sha256:" + "b" * 64)
    assert "cacheFallback" not in status
    fallen = release(source=BundleSource.DISK, cache_fallback=True, notices=("the registry is out of reach",))
    await ensure_release_image(east.management, facts, fallen, "2026-11-30T13:00:00Z")
    status = await status_of(east, "release-v26.06")
    assert (status["source"], status["cacheFallback"]) == ("Disk", True)
    assert "out of reach" in status["message"]
    await ensure_release_image(east.management, facts, fallen, "2026-11-30T14:00:00Z")
    assert (await status_of(east, "release-v26.06"))["validatedAt"] == "2026-11-30T13:00:00Z"


async def test_an_object_that_somebody_made_for_the_version_is_used(east: Any) -> None:
    await release_image(east, "mine", verifySignature=True)
    await ensure_release_image(east.management, await east.facts(), release(), "2026-11-30T12:00:00Z")
    assert (await status_of(east, "mine"))["phase"] == "Valid"
    listing = await east.management.list(RELEASE_IMAGE, kube_namespace=east.key.kube_namespace)
    assert [image["metadata"]["name"] for image in listing.items] == ["mine"]


async def test_an_object_that_goes_away_while_it_is_made_is_for_the_next_attempt(east: Any) -> None:
    facts = await east.facts()

    async def taken_and_gone(call: Call) -> None:
        if call.subject == f"ReleaseImage {east.key.kube_namespace}/release-v26.06":
            raise NotFound("it is gone", subject=call.subject) if call.verb == "get" else AlreadyExists("it is taken")

    hooked = HookedClusters(east.clusters, before=taken_and_gone).management
    with pytest.raises(Transient, match="taken away"):
        await ensure_release_image(hooked, facts, release(), "2026-11-30T12:00:00Z")
