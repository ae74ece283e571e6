"""Names of thousands of nodes in little room."""

from __future__ import annotations

import hashlib

from hopline.domain.name_lists import PACKED_BYTES, NameList, fitting, some_of
from hopline.domain.node_status import NodeStatus


def test_few_names_stand_as_they_are() -> None:
    few = NameList.of(["w1", "w2"])
    assert (few.count, few.names, few.packed) == (2, ("w1", "w2"), "")
    assert few.kept() == ("w1", "w2")
    assert NameList.of([]).kept() == ()


def test_five_thousand_names_that_follow_a_pattern_are_all_kept() -> None:
    names = [f"pool-a-worker-{number:04}" for number in range(5000)]
    many = NameList.of(names)
    assert (many.count, many.kept()) == (5000, tuple(names))
    assert len(many.model_dump_json()) < PACKED_BYTES + 100


def test_of_names_that_follow_no_pattern_the_newest_are_kept_and_all_are_counted() -> None:
    names = [hashlib.sha256(str(number).encode()).hexdigest()[:63] for number in range(5000)]
    many = NameList.of(names)
    assert many.count == 5000
    assert len(many.model_dump_json()) < PACKED_BYTES + 100
    assert 200 < len(many.kept()) < 5000
    assert many.kept() == tuple(names[-len(many.kept()) :])


def test_text_that_is_no_list_is_no_name() -> None:
    assert NameList(count=3, packed="!").kept() == ()
    assert NameList(count=3, packed="AAAA").kept() == ()


def test_as_many_models_as_fit_whatever_their_letters() -> None:
    models = [NodeStatus(name=f"w{number}", message="磁盘已满" * 20) for number in range(50)]
    some = fitting(models, 4000)
    assert 1 < len(some) < 50
    assert sum(len(one.model_dump_json().encode()) for one in some) <= 4000
    assert fitting(models, 10**6) == tuple(models)


def test_texts_that_do_not_fit_are_counted() -> None:
    assert some_of(["a", "b"], 2) == ("a", "b")
    assert some_of(["a", "b", "c", "d"], 2) == ("a", "and 3 more")
