from hopline.domain.errors import Aborted, ClusterNotReady, InvalidInput, NoUpgradePath, PathReason
from starter.exit_codes import ExitCode, exit_code_of
from starter.render_refusal import refusal_document, refusal_lines

BLOCKED = NoUpgradePath(
    "UpgradePath openfuyao-upgrade-paths blocks v26.06-rc.2 -> v26.06",
    reason=PathReason.BLOCKED,
    subject="UpgradePath openfuyao-upgrade-paths",
    field="spec.paths[2].blocked",
    value="true, notes: go through rc.3",
    remedy="hopline upgrade east -n east --to v26.06-rc.3",
)


def test_a_refusal_names_object_field_value_and_remedy() -> None:
    assert [line.plain for line in refusal_lines(BLOCKED)] == [
        "refused: UpgradePath openfuyao-upgrade-paths blocks v26.06-rc.2 -> v26.06",
        "  UpgradePath openfuyao-upgrade-paths, spec.paths[2].blocked is true, notes: go through rc.3",
        "  remedy: hopline upgrade east -n east --to v26.06-rc.3",
    ]


def test_the_document_has_the_same_facts() -> None:
    document = refusal_document(BLOCKED)["error"]
    assert document["kind"] == "NoUpgradePath"
    assert document["reason"] == "Blocked"
    assert document["field"] == "spec.paths[2].blocked"
    assert document["remedy"].startswith("hopline upgrade east")


def test_exit_codes_follow_the_error_tree() -> None:
    assert exit_code_of(BLOCKED) is ExitCode.REFUSED
    assert exit_code_of(ClusterNotReady("paused")) is ExitCode.REFUSED
    assert exit_code_of(InvalidInput("what?")) is ExitCode.USAGE
    assert exit_code_of(Aborted("ended")) is ExitCode.FAILED
