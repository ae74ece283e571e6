"""Which requests go through a proxy."""

from __future__ import annotations

import pytest

from hopline.domain.errors import InvalidInput
from hopline.domain.proxies import Proxies, checked_proxy
from hopline.runtime.proxy_settings import proxies_of

SECURE, PLAIN = "http://secure.proxy:3128", "http://plain.proxy:3128"


def proxies(none: str = "") -> Proxies:
    return Proxies(http=PLAIN, https=SECURE, none=none)


def test_by_scheme() -> None:
    assert proxies().proxy_for("https://registry.test/v2/") == SECURE
    assert proxies().proxy_for("http://registry.test/v2/") == PLAIN
    assert Proxies().proxy_for("https://registry.test/v2/") is None
    assert Proxies(http=PLAIN).proxy_for("https://registry.test/v2/") is None


@pytest.mark.parametrize(
    "url", ["https://localhost/", "https://127.0.0.1:5000/", "http://[::1]:5000/", "https://127.9.9.9/"]
)
def test_this_machine_is_asked_directly(url: str) -> None:
    assert proxies().proxy_for(url) is None


@pytest.mark.parametrize(
    ("none", "host", "directly"),
    [
        ("*", "registry.test", True),
        ("registry.test", "registry.test", True),
        ("REGISTRY.test", "registry.TEST", True),
        ("test", "registry.test", True),
        ("test", "registrytest", False),
        (".test", "registry.test", True),
        (".registry.test", "registry.test", False),
        ("*.test", "registry.test", True),
        ("registry.test:443", "registry.test", True),
        ("registry.test:5000", "registry.test", False),
        ("registry.test:5000", "registry.test:5000", True),
        ("other.test, registry.test", "registry.test", True),
        ("other.test  registry.test", "registry.test", True),
        ("192.0.2.5", "192.0.2.5", True),
        ("192.0.2.5", "192.0.2.55", False),
        ("192.0.2.5:40443", "192.0.2.5:40443", True),
        ("192.0.2.0/24", "192.0.2.5:40443", True),
        ("192.0.3.0/24", "192.0.2.5", False),
        ("192.0.2.0/24", "registry.test", False),
        ("2001:db8::/32", "[2001:db8::5]:5000", True),
        ("2001:db8::5", "[2001:db8::5]:5000", True),
        ("[2001:db8::5]:5000", "[2001:db8::5]:5000", True),
        ("nonsense/99", "registry.test", False),
    ],
)
def test_who_is_asked_directly(none: str, host: str, directly: bool) -> None:
    assert (proxies(none).proxy_for(f"https://{host}/v2/") is None) is directly


def test_the_environment_in_either_case() -> None:
    found = proxies_of({"HTTPS_PROXY": "proxy.test:3128", "http_proxy": PLAIN, "no_proxy": "a.test"})
    assert found == Proxies(http=PLAIN, https="http://proxy.test:3128", none="a.test")
    assert proxies_of({}) == Proxies()


@pytest.mark.parametrize("value", ["socks5://me:secret@proxy.test", "http://", "http://a:b:c", "http://a:x"])
def test_a_proxy_that_cannot_be_used_is_named_and_its_login_is_not(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_proxy("HTTPS_PROXY", value)
    assert "HTTPS_PROXY" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(Proxies(https=value))
