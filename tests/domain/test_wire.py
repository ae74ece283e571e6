"""What every message has in common: both spellings, unknown keys, unknown words."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hopline.domain.wire import ClusterKey, WireEnum, WireModel


class Colour(WireEnum):
    """A sample."""

    RED = "red"
    UNKNOWN = "unknown"


class Paint(WireModel):
    """A sample."""

    main_colour: Colour = Colour.RED
    coats: int = 1


def test_both_spellings_are_read_and_camel_case_is_written() -> None:
    assert Paint.model_validate({"mainColour": "red"}) == Paint.model_validate({"main_colour": "red"})
    assert Paint(coats=2).model_dump(mode="json") == {"mainColour": "red", "coats": 2}


def test_an_unknown_key_is_left_out_and_an_unknown_word_is_read_as_unknown() -> None:
    newer = Paint.model_validate_json('{"mainColour": "ultraviolet", "gloss": true}')
    assert newer == Paint(main_colour=Colour.UNKNOWN)


def test_a_known_word_stays_what_it_is() -> None:
    assert Colour("red") is Colour.RED
    with pytest.raises(ValidationError):
        Paint.model_validate({"coats": "many"})


def test_a_cluster_is_named_as_kubernetes_names_it() -> None:
    key = ClusterKey.model_validate({"namespace": "east", "name": "one"})
    assert (key, str(key)) == (ClusterKey(kube_namespace="east", name="one"), "east/one")
