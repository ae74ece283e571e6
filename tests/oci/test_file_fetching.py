"""Listings of web servers as they are in the wild, and names of files that cannot stand side by side."""

from __future__ import annotations

import json

import pytest

from hopline.documents.version_configs import load_version_config
from hopline.domain.errors import InvalidInput
from hopline.oci.file_fetching import linked_names, wanted_files

URL = "https://files.example.org/CentOS/7/amd64/docker-ce/"
APACHE = """<html><body><h1>Index</h1><table>
<tr><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th></tr>
<tr><td><a href="/CentOS/7/amd64/">Parent Directory</a></td></tr>
<tr><td><a href="docker-ce-26.1%2B1.rpm">docker-ce</a></td></tr>
<tr><td><a href="repodata/">repodata/</a></td></tr>
<tr><td><a href="/CentOS/7/amd64/docker-ce/containerd.rpm">containerd.rpm</a></td></tr>
<tr><td><a href="https://files.example.org/CentOS/7/amd64/docker-ce/whole.rpm">whole</a></td></tr>
<tr><td><a href="https://elsewhere.example.org/CentOS/7/amd64/docker-ce/x.rpm">mirror</a></td></tr>
<tr><td><a href="../other/y.rpm">other</a></td></tr>
<tr><td><a href="..%2F..%2Fetc%2Fpasswd">hostile</a></td></tr>
<tr><td><a href="deep/er/z.rpm">deeper</a></td></tr>
<tr><td><a>nothing</a></td></tr>
</table></body></html>"""


def test_a_listing_names_what_is_in_the_folder_and_nothing_else() -> None:
    assert linked_names(APACHE, URL) == ["docker-ce-26.1+1.rpm", "repodata/", "containerd.rpm", "whole.rpm"]


def test_a_page_that_is_no_listing() -> None:
    assert linked_names("", URL) == []
    assert linked_names("<html>sign in <a href='/login'>here</a>", URL) == []


def config(*addresses: str, alias: str = "") -> str:
    files = [{"address": one, "files": [{"fileName": "a b.tgz", "fileAlias": alias}]} for one in addresses]
    return json.dumps({"openFuyaoVersion": "v26.06", "files": files, "patches": files[:1]})


def test_what_is_listed_and_where_it_goes() -> None:
    found = wanted_files({"x": load_version_config(config("https://a.example.org/f", alias="c.tgz"), "x")})
    assert [(one.path, one.url) for one in found] == [
        ("volumes/c.tgz", "https://a.example.org/f/a%20b.tgz"),
        ("volumes/patches/c.tgz", "https://a.example.org/f/a%20b.tgz"),
    ]


def test_the_same_file_in_two_version_configs_is_one() -> None:
    read = load_version_config(config("https://a.example.org/f"), "x")
    assert len(wanted_files({"x": read, "y": read})) == 2


def test_two_files_of_one_name() -> None:
    read = load_version_config(config("https://a.example.org/", "https://b.example.org/"), "x")
    with pytest.raises(InvalidInput, match="two files have one name") as caught:
        wanted_files({"x": read})
    assert caught.value.field == "files[1].files[0]"
