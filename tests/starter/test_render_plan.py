from hopline.domain.image_overrides import ImageRewrite
from hopline.domain.plan import Finding, ImageList, ImageSupply, Pool, Severity, SupplyMode, UpgradePlan
from starter.render_plan import picture_lines, plan_lines
from starter_pictures import EAST, plan_of, planned, skipped


def texts(plan: UpgradePlan, mode: str = "batches") -> list[str]:
    return [line.plain for line in plan_lines(plan, mode)]


FULL = plan_of(
    (planned("provider"),),
    (skipped("etcd", "up to date (v3.6.7): every member was asked"),),
    (planned("kubernetes-master", pools=(Pool.CONTROL_PLANE,)), planned("kubernetes-worker", pools=(Pool.WORKERS,))),
)


def test_the_first_line_says_what_from_where_to_where_and_that_nothing_changed() -> None:
    first = texts(FULL)[0]
    assert first.startswith("east/east  v26.06-rc.2 -> v26.06-rc.3   1 hop, 31m expected   plan 7c1f3a9e")
    assert first.endswith("nothing changed yet")


def test_the_mode_decides_the_predicted_time() -> None:
    assert "20m expected" in texts(FULL, "eager")[0]


def test_batches_stand_side_by_side_and_skipped_ones_in_brackets() -> None:
    picture = [line.plain for line in picture_lines(FULL.hops[0])]
    assert picture == [
        "  1          2        3",
        "  provider   (etcd)   kubernetes-master",
        "                      kubernetes-worker",
    ]


def test_a_row_says_change_time_and_pools_or_why_it_is_skipped() -> None:
    lines = texts(FULL)
    assert any(line.split() == ["1", "provider", "v1", "->", "v2", "2m"] for line in lines)
    assert any("kubernetes-worker  v1 -> v2" in line and line.endswith("workers") for line in lines)
    assert any("up to date (v3.6.7): every member was asked" in line for line in lines)


def test_checks_are_named_before_and_after() -> None:
    assert any(line.startswith("  before  cluster-health, disk-space (optional)") for line in texts(FULL))


def test_findings_stand_last_what_blocks_first_and_are_counted() -> None:
    findings = (
        Finding(severity=Severity.WARNS, object="Deployment kube-system/coredns", message="runs one replica"),
        Finding(
            severity=Severity.BLOCKS,
            object="PodDisruptionBudget shop/cart",
            field="spec.minAvailable",
            message="allows 0 disruptions",
            remedy="run a second replica",
        ),
    )
    lines = texts(FULL.model_copy(update={"findings": findings}))
    blocks = next(index for index, line in enumerate(lines) if line.startswith("  blocks"))
    warns = next(index for index, line in enumerate(lines) if line.startswith("  warns"))
    assert blocks < warns
    assert lines[blocks] == "  blocks  PodDisruptionBudget shop/cart spec.minAvailable: allows 0 disruptions"
    assert lines[blocks + 1] == "          remedy: run a second replica"
    assert lines[-1] == "2 findings. Not startable: 1 blocks."


def test_nothing_to_do_is_said() -> None:
    plan = UpgradePlan(cluster=EAST, from_version="v26.06", to_version="v26.06")
    assert texts(plan) == ["east/east  v26.06 -> v26.06   nothing to do"]


def test_no_line_is_wider_than_100_columns() -> None:
    many = tuple((planned(f"component-with-a-long-name-{number}"),) for number in range(12))
    long = planned("x", action="skip", reason="because " * 40)
    finding = Finding(severity=Severity.WARNS, object="Kind ns/name", message="word " * 60, remedy="do " * 60)
    plan = plan_of(*many, (long,), findings=(finding,))
    lines = texts(plan)
    assert [line for line in lines if len(line) > 100] == []
    assert all(any(f"component-with-a-long-name-{number}" in line for line in lines) for number in range(12))


def test_where_images_come_from_stands_below_the_headline() -> None:
    supply = ImageSupply(
        mode=SupplyMode.OFFLINE,
        field="BKECluster east/east spec.clusterConfig.cluster.imageRepo.domain",
        hosts=("registry.example:40443", "192.0.2.5:40443"),
        lists=(ImageList(version="v26.06", object="ConfigMap openfuyao-patch/cm.v26.06", images=70),),
        rewrites=tuple(ImageRewrite(named=f"quay.io/a:{n}", applied=f"registry.example/a:{n}") for n in range(10)),
        rewritten=60,
    )
    lines = texts(FULL.model_copy(update={"supply": supply}))[1:]
    assert lines[0] == "  offline by BKECluster east/east spec.clusterConfig.cluster.imageRepo.domain:"
    assert lines[1] == "          registry.example:40443, 192.0.2.5:40443"
    assert lines[2] == "  list    v26.06: 70 images, by ConfigMap openfuyao-patch/cm.v26.06"
    assert lines[3] == "  images  quay.io/a:0 -> registry.example/a:0"
    assert lines[11] == "          and 52 more"
    assert "online" not in "".join(texts(FULL))
