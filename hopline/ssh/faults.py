"""The one place that reads what asyncssh raises: as errors of the port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncssh

from hopline.domain.errors import Forbidden, Rejected, Transient

UNREACHABLE = "see whether the node is up and its sshd listens there (BKENode spec.ip, spec.port)"


@contextmanager
def mapped(place: str, source: str = "", username: str = "") -> Iterator[None]:
    """Raise PortErrors in place of what the library and the system raise.

    Args:
        place: address of the node.
        source: who vouches for its host key.
    """
    subject = f"node {place}"
    try:
        yield
    except asyncssh.HostKeyNotVerifiable:
        raise Rejected(
            "the node answers with another host key than the one that is known: it may not be the node at all",
            subject=subject,
            field="host key",
            value="changed",
            remedy=f"find out why; only when the new key is right, put it into {source or 'the known hosts'}"
            + (" (delete that record)" if source.startswith("ConfigMap") else ""),
        ) from None
    except asyncssh.PermissionDenied:
        raise Forbidden(
            f"the node does not let {username or 'us'} in",
            subject=subject,
            field="SSH",
            value="permission denied",
            remedy="correct user, key or password in the Secret, or ~/.ssh/authorized_keys on the node",
        ) from None
    except (asyncssh.KeyExchangeFailed, asyncssh.ProtocolNotSupported) as error:
        raise Rejected(
            f"the node speaks no SSH that we do: {error.reason}", subject=subject, remedy="update its sshd"
        ) from None
    except TimeoutError:
        raise Transient("the node does not answer over SSH in time", subject=subject, remedy=UNREACHABLE) from None
    except (asyncssh.Error, OSError) as error:
        reason = error.reason if isinstance(error, asyncssh.Error) else (error.strerror or str(error))
        raise Transient(
            f"the way to the node over SSH is cut off: {reason or type(error).__name__}",
            subject=subject,
            remedy=UNREACHABLE,
        ) from None
