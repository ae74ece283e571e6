"""Asks the members of an etcd cluster through etcd's own JSON gateway, one by one, with a client certificate.

Paths and fields are those of etcd 3.4 and newer; numbers of 64 bits come as texts. The health of a member is asked
without its alarms, which would call every member ill, and the list of members without the quorum, which may be lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from hopline.domain.cluster import ClusterFacts
from hopline.domain.errors import ClusterNotReady, Transient
from hopline.domain.etcd import EtcdAlarm, EtcdAlarmType, EtcdEndpoint, EtcdMember, EtcdSighting, endpoints
from hopline.kube.errors import clean
from hopline.kube.etcd_credentials import EtcdCredentials, read_credentials, tls_context
from hopline.ports import ClusterClient

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 4.0
"""Above the 2 s that a member gives a question for which it needs the quorum, below what the port promises."""

MOVE_SECONDS = 8.0
"""Above the 7 s after which a member gives up to hand over its lead."""

HEALTH = "/health?exclude=NOSPACE&exclude=CORRUPT"
MOVE_LEADER = "/v3/maintenance/transfer-leadership"
STATUS, MEMBERS, ALARMS = "/v3/maintenance/status", "/v3/cluster/member/list", "/v3/maintenance/alarm"

_TLS = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError)


@dataclass(frozen=True)
class _Trouble:
    """Why there is no answer; `is_tls`: it is about certificates."""

    text: str
    is_tls: bool = False


_Said = Mapping[str, Any] | _Trouble


@dataclass(frozen=True)
class _Answer:
    """What one member said of itself."""

    endpoint: EtcdEndpoint
    status: _Said
    health: _Said

    @property
    def fields(self) -> Mapping[str, Any]:
        """Of its status; empty when it did not answer."""
        return {} if isinstance(self.status, _Trouble) else self.status

    @property
    def id(self) -> str:
        """Number of the member that answered."""
        return str((self.fields.get("header") or {}).get("member_id") or "")

    @property
    def problem(self) -> str:
        """Why it does not serve; empty: it does."""
        for said in (self.status, self.health):
            if isinstance(said, _Trouble):
                return said.text
        health = dict(self.health) if isinstance(self.health, Mapping) else {}
        if str(health.get("health", "")).lower() == "true":
            return ""
        errors = [str(one) for one in self.fields.get("errors") or () if "alarm" not in str(one)]
        return clean(str(health.get("reason") or "") or "; ".join(errors)) or "it says that it is not healthy"


class GatewayEtcdProbe:
    """Implements `hopline.ports.EtcdProbe`. Credentials come from Secrets of the management cluster, each time."""

    def __init__(self, management: ClusterClient) -> None:
        self._management = management

    async def look(self, facts: ClusterFacts) -> EtcdSighting:
        """Members, leader, alarms and space."""
        asked = endpoints(facts)
        if not asked:
            raise ClusterNotReady(
                "etcd cannot be asked: no node of the cluster has the role etcd",
                subject=facts.subject,
                field="BKENode spec.role",
                value="no etcd",
                remedy="give the nodes of etcd that role, or ask etcd yourself",
            )
        credentials = await read_credentials(self._management, facts.key)
        async with _session(credentials, ANSWER_SECONDS) as session:
            answers = await asyncio.gather(*(_ask(session, endpoint) for endpoint in asked))
            # One that reaches the quorum knows the list and the alarms; another one knows the list at least.
            best = sorted((one for one in answers if one.fields), key=lambda one: bool(one.problem))
            if not best:
                raise _nobody(facts, credentials, answers)
            url = best[0].endpoint.url
            listed, alarms = await asyncio.gather(
                _call(session, "POST", url + MEMBERS, {"linearizable": False}),
                _call(session, "POST", url + ALARMS, {"action": "GET"}),
            )
        return _sighting(answers, listed, alarms)

    async def move_leader(self, facts: ClusterFacts, leader: str, successor: str) -> None:
        """Asks the leader itself: no other member can hand over."""
        by_name = {one.name: one for one in endpoints(facts)}
        credentials = await read_credentials(self._management, facts.key)
        async with _session(credentials, MOVE_SECONDS) as session:
            old, new = await asyncio.gather(*(_ask(session, by_name[name]) for name in (leader, successor)))
            trouble = next((f"{one.endpoint.name}: {one.problem}" for one in (old, new) if one.problem), "")
            if not trouble:
                if str(old.fields.get("leader")) != old.id:
                    return
                said = await _call(session, "POST", old.endpoint.url + MOVE_LEADER, {"targetID": new.id})
                trouble = said.text if isinstance(said, _Trouble) else ""
        if trouble:
            raise Transient(
                f"etcd member {leader} does not hand over its lead to {successor}: {trouble}",
                subject=facts.subject,
                remedy=f"etcdctl move-leader {new.id or successor}",
            )


@asynccontextmanager
async def _session(credentials: EtcdCredentials, seconds: float) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=await tls_context(credentials), limit=0)
    limits = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(
        connector=connector, timeout=limits, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:
        yield session


async def _ask(session: aiohttp.ClientSession, endpoint: EtcdEndpoint) -> _Answer:
    """Status, which a member knows by itself, and health, for which it needs the quorum."""
    status, health = await asyncio.gather(
        _call(session, "POST", endpoint.url + STATUS, {}), _call(session, "GET", endpoint.url + HEALTH)
    )
    return _Answer(endpoint, status, health)


async def _call(session: aiohttp.ClientSession, method: str, url: str, body: Mapping[str, Any] | None = None) -> _Said:
    place = urlsplit(url).netloc
    try:
        async with session.request(method, url, json=body, allow_redirects=False) as response:
            found = json.loads(await response.read())
    except _TLS as problem:
        return _Trouble(f"no TLS with {place}: {_reason(problem)}", is_tls=True)
    except (TimeoutError, aiohttp.ClientError, OSError) as problem:
        return _Trouble(f"no answer from {place}: {_reason(problem)}", is_tls=_is_refused_certificate(problem))
    except ValueError:
        return _Trouble(f"{place} does not speak etcd's JSON (HTTP {response.status})")
    if not isinstance(found, Mapping):
        return _Trouble(f"{place} does not speak etcd's JSON (HTTP {response.status})")
    if response.status >= 400 and "health" not in found:
        told = clean(str(found.get("message") or found.get("error") or ""))
        return _Trouble(told or f"{place} answers HTTP {response.status}")
    return found


def _is_refused_certificate(problem: BaseException) -> bool:
    """With TLS 1.3 a member refuses our certificate only after the handshake, by an alert that ends the connection."""
    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _reason(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError):
        return "it takes too long"
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {clean(str(problem.certificate_error))}"
    code = problem.errno if isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError) else None
    return os.strerror(code) if code and code > 0 else clean(str(problem)) or type(problem).__name__


def _nobody(facts: ClusterFacts, credentials: EtcdCredentials, answers: Sequence[_Answer]) -> Exception:
    told = "; ".join(f"{one.endpoint.name}: {one.problem}" for one in answers)
    if all(isinstance(one.status, _Trouble) and one.status.is_tls for one in answers):
        return credentials.refusal(f"etcd cannot be asked, its members and these certificates do not fit: {told}")
    return Transient(
        f"no member of etcd answers: {told}",
        subject=facts.subject,
        value=", ".join(one.endpoint.url for one in answers),
        remedy="see that etcd runs, and that its client port is reachable from here",
    )


def _sighting(answers: Sequence[_Answer], listed: _Said, alarms: _Said) -> EtcdSighting:
    entries = [] if isinstance(listed, _Trouble) else [one for one in listed.get("members") or () if one]
    by_id = {str(one.get("ID")): one for one in entries}
    members = [_member(answer, by_id.pop(_number_of(answer, by_id), None)) for answer in answers]
    members.extend(_stranger(entry) for entry in by_id.values())
    members.sort(key=lambda one: one.name)
    names = {answer.id: answer.endpoint.name for answer in answers if answer.id}
    names |= {number: str(entry.get("name") or number) for number, entry in by_id.items()}
    unread = alarms.text if isinstance(alarms, _Trouble) else ""
    found = () if isinstance(alarms, _Trouble) else alarms.get("alarms") or ()
    return EtcdSighting(
        members=tuple(members),
        leader=_leader(answers, names),
        alarms=tuple(_alarm(one, names) for one in found),
        alarms_unread=unread,
    )


def _number_of(answer: _Answer, by_id: Mapping[str, Mapping[str, Any]]) -> str:
    """Of the member on a node: as it says, else by the addresses in the list."""
    if answer.id:
        return answer.id
    for number, entry in by_id.items():
        urls = [*(entry.get("clientURLs") or ()), *(entry.get("peerURLs") or ())]
        if entry.get("name") == answer.endpoint.name or any(_host(url) == answer.endpoint.ip for url in urls):
            return number
    return ""


def _host(url: object) -> str:
    try:
        return urlsplit(str(url)).hostname or ""
    except ValueError:
        return ""


def _member(answer: _Answer, entry: Mapping[str, Any] | None) -> EtcdMember:
    status = answer.fields
    return EtcdMember(
        name=answer.endpoint.name,
        address=answer.endpoint.ip,
        # A member that was added and has not started has no name yet.
        listed=bool(entry and entry.get("name")),
        problem=answer.problem,
        learner=bool((entry or {}).get("isLearner") or status.get("isLearner")),
        version=str(status.get("version") or ""),
        applied=_count(status.get("raftAppliedIndex")),
        db_size=_count(status.get("dbSize")),
        db_in_use=_count(status.get("dbSizeInUse")),
        quota=_count(status.get("dbSizeQuota")),
    )


def _stranger(entry: Mapping[str, Any]) -> EtcdMember:
    name = str(entry.get("name") or entry.get("ID"))
    return EtcdMember(
        name=name,
        listed=True,
        learner=bool(entry.get("isLearner")),
        problem="it is in the list of members, and no BKENode with the role etcd is its node",
    )


def _leader(answers: Sequence[_Answer], names: Mapping[str, str]) -> str:
    """The one that every member names that serves."""
    told = {str(one.fields.get("leader") or "0") for one in answers if one.fields and not one.problem}
    return names.get(told.pop(), "") if len(told) == 1 else ""


def _alarm(found: Mapping[str, Any], names: Mapping[str, str]) -> EtcdAlarm:
    number = str(found.get("memberID"))
    return EtcdAlarm(member=names.get(number, number), type=EtcdAlarmType(str(found.get("alarm"))))


def _count(value: object) -> int:
    try:
        return int(str(value or 0))
    except ValueError:
        return 0
