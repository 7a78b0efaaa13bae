from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.compute.gpus import (
    GpuSpec,
    fold,
    kind_of,
    parse_spec,
    resolve,
    split_type,
    type_from_driver,
)
from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.sim.catalogue import default_offers

_KNOWN = """
CPU_NODE A10_24GB A30_24GB A40_48GB A100_40GB A100_80GB A2000_6GB A4000_16GB A4500_20GB
A5000_24GB A6000_48GB B200_180GB B300_262GB GB200 GB300 GH200_96GB GH200_480GB GH200_624GB
H100_80GB H200_96GB H200_141GB L4_24GB
L40_48GB L40S_48GB P4_8GB P40_24GB P100_16GB RTX2000Ada_16GB RTX3070_8GB RTX3080_10GB RTX3080Ti_12GB
RTX3090_24GB RTX3090Ti_24GB RTX4000_8GB RTX4000Ada_20GB RTX4070Ti_12GB RTX4080_16GB RTX4080Ti_16GB
RTX4090_24GB RTX5000_16GB RTX5000Ada_32GB RTX5090_32GB RTX6000_24GB RTX6000Ada_48GB RTX8000_48GB
RTX_PRO_6000B_96GB T4_16GB V100_16GB V100_32GB
"""
TYPES = _KNOWN.split()


def offer(gpu_type: str, count: int = 1, memory: float | None = None) -> Offer:
    return Offer("prime", f"{gpu_type}-{count}", gpu_type, count, Price(1.0), gpu_memory=memory)


MARKET = tuple(offer(name) for name in TYPES)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("4xH100", GpuSpec(4, "H100")),
        ("2xA100", GpuSpec(2, "A100")),
        ("H100", GpuSpec(1, "H100", counted=False)),
        ("A100_80GB:2", GpuSpec(2, "A100", 80)),
        ("A100-80GB:2", GpuSpec(2, "A100", 80)),
        ("A100:80GB", GpuSpec(1, "A100", 80, counted=False)),
        ("  4  X  h100 ", GpuSpec(4, "h100")),
        ("8 H100", GpuSpec(8, "H100")),
        ("8×H100", GpuSpec(8, "H100")),
        ("H100x4", GpuSpec(4, "H100")),
        ("H100 x4", GpuSpec(4, "H100")),
        ("A100 80 GB x 2", GpuSpec(2, "A100", 80)),
        ("4090x2", GpuSpec(2, "4090")),
        ("2x4090", GpuSpec(2, "4090")),
        ("rtx 4090", GpuSpec(1, "rtx 4090", counted=False)),
        ("RTX5000", GpuSpec(1, "RTX5000", counted=False)),
        ("RTX5000Ada:2", GpuSpec(2, "RTX5000Ada")),
        ("H100-SXM", GpuSpec(1, "H100", None, "SXM", counted=False)),
        ("H100_SXM5", GpuSpec(1, "H100", None, "SXM5", counted=False)),
        ("2x A100-SXM4-80GB", GpuSpec(2, "A100", 80, "SXM4")),
        ("a100-80gb-pcie", GpuSpec(1, "a100", 80, "PCIe", counted=False)),
        ("GB200", GpuSpec(1, "GB200", counted=False)),
        ("cpu", GpuSpec(1, "cpu", counted=False)),
    ],
)
def test_what_people_write(text: str, spec: GpuSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "4",
        "x",
        "4x",
        ":",
        "H100:two",
        "-1xH100",
        "0xH100",
        "H100:0",
        "9999xH100",
        "80GB",
        "H100;rm",
        "H100\x1b[31m",
        "lots",
    ],
)
def test_what_is_no_spec(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_spec(text)
    assert caught.value.fix and "\x1b" not in str(caught.value)


def test_an_amount_of_memory_alone_names_the_option() -> None:
    with pytest.raises(InputError, match="--min-vram"):
        parse_spec("24GB")


@given(st.text(max_size=40))
def test_any_text_is_a_spec_or_an_input_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except InputError:
        return
    assert 1 <= spec.count <= 1024 and spec.name


@given(
    st.sampled_from(TYPES[1:]),
    st.integers(1, 64),
    st.sampled_from(
        ["{n}x{g}", "{n} x {g}", "{n}X {g}", "{g}:{n}", "{g} x{n}", "{n}×{g}", "{n} {g}"]
    ),
    st.sampled_from(
        [
            str,
            str.lower,
            str.upper,
            lambda text: text.replace("_", "-"),
            lambda text: text.replace("_", " "),
        ]
    ),
)
def test_every_known_type_is_found_in_every_spelling(
    gpu: str, count: int, form: str, spell: object
) -> None:
    spec = parse_spec(form.format(n=count, g=spell(gpu)))  # type: ignore[operator]
    assert spec.count == count and spec.counted
    assert resolve(spec, MARKET) == (gpu,)
    assert resolve(parse_spec(str(spec)), MARKET) == (gpu,)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("A100", ("A100_40GB", "A100_80GB")),
        ("A100_80GB", ("A100_80GB",)),
        ("h200", ("H200_141GB", "H200_96GB")),
        ("4090", ("RTX4090_24GB",)),
        ("RTX A6000", ("A6000_48GB",)),
        ("A6000", ("A6000_48GB",)),
        ("6000 Ada", ("RTX6000Ada_48GB",)),
        ("RTX PRO 6000", ("RTX_PRO_6000B_96GB",)),
        ("NVIDIA GeForce RTX 3090 Ti", ("RTX3090Ti_24GB",)),
        ("L40", ("L40_48GB",)),
        ("L40S", ("L40S_48GB",)),
        ("Tesla T4", ("T4_16GB",)),
        ("cpu", ("CPU_NODE",)),
    ],
)
def test_aliases(text: str, types: tuple[str, ...]) -> None:
    assert resolve(parse_spec(text), MARKET) == types


def test_another_gpu_is_never_taken_for_the_one_that_is_missing() -> None:
    with pytest.raises(InputError, match="L40S_48GB"):
        resolve(parse_spec("L40"), [offer("L40S_48GB"), offer("L4_24GB")])
    with pytest.raises(InputError, match="Near it: A100_40GB") as caught:
        resolve(parse_spec("A100_80GB"), [offer("A100_40GB"), offer("H100_80GB")])
    assert "H100" not in str(caught.value)


def test_nothing_near_lists_what_there_is() -> None:
    with pytest.raises(InputError, match="There are: A100_40GB"):
        resolve(parse_spec("MI300X"), [offer("A100_40GB")])
    with pytest.raises(InputError, match="no offers at all"):
        resolve(parse_spec("H100"), [])


def test_the_memory_counts_where_the_name_has_none() -> None:
    market = [offer("H100", memory=80), offer("H100 ", memory=94)]
    assert resolve(parse_spec("H100_80GB"), market) == ("H100",)


@pytest.mark.parametrize(
    ("name", "mib", "found"),
    [
        ("NVIDIA A100-SXM4-80GB", 81920, ("A100_80GB", 80, "SXM4")),
        ("NVIDIA A100-PCIE-40GB", 40960, ("A100_40GB", 40, "PCIe")),
        ("NVIDIA H100 80GB HBM3", 81559, ("H100_80GB", 80, "")),
        ("NVIDIA H100 NVL", 95830, ("H100_94GB", 94, "NVL")),
        ("NVIDIA H200", 143771, ("H200_141GB", 141, "")),
        ("NVIDIA GeForce RTX 4090", 24564, ("RTX4090_24GB", 24, "")),
        ("NVIDIA RTX A6000", 49140, ("A6000_48GB", 48, "")),
        ("NVIDIA RTX 6000 Ada Generation", 49140, ("RTX6000Ada_48GB", 48, "")),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, ("RTX_PRO_6000B_96GB", 96, "")),
        ("NVIDIA GH200 480GB", 97871, ("GH200_480GB", 96, "")),
        ("Tesla T4", 15360, ("T4_16GB", 16, "")),
        ("Tesla V100-SXM2-32GB", 32768, ("V100_32GB", 32, "SXM2")),
        ("NVIDIA L40S", None, ("L40S", None, "")),
        ("H100_80GB (simulated)", 81920, ("H100_80GB (simulated)", 80, "")),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4.8, "")),
    ],
)
def test_names_of_drivers(name: str, mib: int | None, found: tuple[str, float | None, str]) -> None:
    assert type_from_driver(name, mib) == found


def test_what_a_driver_says_is_found_by_what_people_write() -> None:
    gpu, memory, _ = type_from_driver("H100_80GB (simulated)", 81920)
    assert resolve(parse_spec("H100_80GB"), [offer(gpu, memory=memory)]) == (gpu,)
    assert split_type("NVIDIA GeForce RTX 4090")[0] == fold("rtx-4090") == "rtx4090"


ALL = sorted({*TYPES, *(row["gpuType"] for row in default_offers())})
_SPELLINGS: dict[str, Callable[[str], str]] = {
    "lower case, dashes": lambda gpu: gpu.lower().replace("_", "-"),
    "with the maker": lambda gpu: f"NVIDIA {gpu.replace('_', ' ')}",
    "a label of Kubernetes": lambda gpu: f"NVIDIA-{gpu.replace('_', '-')}",
    "nothing between": lambda gpu: gpu.replace("_", ""),
    "number before": lambda gpu: f"8x {gpu}",
    "number close before": lambda gpu: f"8x{gpu}",
    "number behind": lambda gpu: f"{gpu} x8",
    "number behind a colon": lambda gpu: f"{gpu}:4",
    "spaces in the memory": lambda gpu: re.sub(r"_(\d+)GB$", r" \1 GB", gpu),
    "GiB": lambda gpu: re.sub(r"(\d)GB$", r"\1GiB", gpu),
    "in brackets": lambda gpu: re.sub(r"_(\d+)GB$", r" (\1 GB)", gpu),
    "the kind of memory": lambda gpu: re.sub(r"_(\d+)GB$", r" \1GB HBM3", gpu),
    "spaces in the name": lambda gpu: re.sub(
        r"(?<=\d)(Ti|Ada)", r" \1", gpu.replace("RTX", "GeForce RTX ")
    ),
    "with the generation": lambda gpu: re.sub(r"(?<=\d)Ada", r" Ada Generation", gpu),
    "without the memory": lambda gpu: re.sub(r"_\d+GB$", "", gpu),
    "simulated": lambda gpu: f"{gpu} (simulated)",
}


KINDS = {gpu: kind_of(gpu) for gpu in ALL}
SPELLED = {
    gpu: [kind_of(spell(gpu)) for way, spell in _SPELLINGS.items() if way != "without the memory"]
    for gpu in ALL
}


@pytest.mark.parametrize("chosen", ALL)
def test_no_gpu_passes_for_another(chosen: str) -> None:
    for gpu in ALL:
        assert KINDS[gpu].differs(KINDS[chosen]) == (gpu != chosen), gpu
        for kind in SPELLED[gpu] if gpu != chosen else ():
            assert kind.differs(KINDS[chosen]) and KINDS[chosen].differs(kind), kind


@pytest.mark.parametrize("way", _SPELLINGS)
def test_the_same_gpu_in_other_words_is_the_same(way: str) -> None:
    for gpu in ALL:
        spelled = kind_of(_SPELLINGS[way](gpu))
        assert spelled.models, gpu
        assert not spelled.differs(kind_of(gpu)) and not kind_of(gpu).differs(spelled), (
            gpu,
            spelled,
        )


@pytest.mark.parametrize(
    ("given", "chosen", "another"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100_80GB", False),
        ("NVIDIA Corporation GA100 [A100 SXM4 80GB]", "A100_80GB", False),
        ("gpu_1x_h100_sxm5", "H100_80GB", False),
        ("A100-80", "A100_80GB", False),
        ("A100 81920MiB", "A100_80GB", False),
        ("B200_192GB", "B200_180GB", False),
        ("NVIDIA GB200 NVL72", "GB200", False),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada_48GB", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX_PRO_6000B_96GB", False),
        ("RTX A6000", "A6000_48GB", False),
        ("Quadro RTX 6000", "RTX6000_24GB", False),
        ("L40 S", "L40S_48GB", False),
        ("", "H100_80GB", False),
        ("a machine", "H100_80GB", False),
        ("p4d.24xlarge", "A100_40GB", False),
        ("A10G", "A10_24GB", True),
        ("A100-80", "A100_40GB", True),
        ("A100 40960MiB", "A100_80GB", True),
        ("H100 NVL 94GB", "H100_80GB", True),
        ("H800", "H100_80GB", True),
        ("H20", "H200_141GB", True),
        ("L40", "L40S_48GB", True),
        ("L4", "L40S_48GB", True),
        ("RTX 4070 Ti SUPER", "RTX4070Ti_12GB", True),
        ("RTX 4090 D", "RTX4090_24GB", True),
        ("RTX PRO 4000 Blackwell", "RTX4000_8GB", True),
        ("RTX A4000", "RTX4000_8GB", True),
        ("MI300X", "H100_80GB", True),
        ("Standard_NC24ads_A100_v4", "H100_80GB", True),
        ("no GPU", "H100_80GB", True),
        ("H100_80GB", "CPU_NODE", True),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100_80GB", True),
        ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", "H100_80GB", True),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "A100_40GB", True),
        ("H100-1g.10gb", "H100_80GB", True),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100_MIG_10GB", False),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100 MIG 1g.5gb", False),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100 MIG 3g.20gb", True),
        ("GRID A100-20C", "A100_40GB", True),
        ("NVIDIA L40S-24Q", "L40S_48GB", True),
    ],
)
def test_what_providers_and_drivers_write(given: str, chosen: str, another: bool) -> None:
    assert kind_of(given).differs(kind_of(chosen)) == another
    assert kind_of(chosen).differs(kind_of(given)) == another


@pytest.mark.parametrize(
    ("given", "chosen", "another"),
    [
        ("PCIe", "SXM5", True),
        ("SXM4", "pcie", True),
        ("NVL", "SXM5", True),
        ("SXM", "SXM5", False),
        ("", "SXM5", False),
        ("PCIe", "", False),
        ("something", "PCIe", False),
    ],
)
def test_sockets_are_compared_where_both_are_told(given: str, chosen: str, another: bool) -> None:
    assert (
        kind_of("H100_80GB", socket=given).differs(kind_of("H100_80GB", socket=chosen)) == another
    )
    assert kind_of(f"H100 {given}").differs(kind_of("H100_80GB", 80, chosen)) == another


def test_memory_that_is_told_beside_the_name_is_compared() -> None:
    assert kind_of("A100", 80).differs(kind_of("A100", 40))
    assert kind_of("A100-80GB").differs(kind_of("A100", 40))
    assert not kind_of("A100").differs(kind_of("A100", 40))
    assert not kind_of("NVIDIA GH200 480GB", 95.6).differs(kind_of("GH200_96GB", 96))
    assert kind_of("NVIDIA GH200 480GB", 95.6).differs(kind_of("GH200_624GB", 144))


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_names_can_be_compared(one: str, other: str) -> None:
    assert kind_of(one).differs(kind_of(other)) == kind_of(other).differs(kind_of(one))
    assert not kind_of(one).differs(kind_of(one))
