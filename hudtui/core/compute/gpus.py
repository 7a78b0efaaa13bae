"""GPUs as people write them, and the machines on offer that they mean. Pure.

People write `4xH100`, `A100_80GB:2` or `H100-SXM`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.text import clean_line, did_you_mean

MAX_GPUS = 1024
"""GPUs in one spec, at most: more is a slip."""
_FIRST = re.compile(r"(\d+\s*[x×*]|\d{1,3}(?=\s+[^\W\d_]))\s*(.*\S)", re.IGNORECASE)
_LAST = re.compile(
    r"(.*?\S)\s*[:×*]\s*x?(\d+)|(.*\d\w*?)\s*x\s*(\d{1,4})|(.*\S)\s+x\s*(\d+)", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _./+-]*")
_MEMORY = re.compile(r"(.+?)[\s_:-]+(\d+(?:\.\d+)?)\s*(?:G|GB|GiB)", re.IGNORECASE)
_SOCKET = re.compile(r"(.+?)[\s_-]*(SXM\d?|PCIe|NVL)", re.IGNORECASE)
_VENDORS = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|device|hbm\d?e?)\b", re.IGNORECASE)
SIMULATED = " (simulated)"
_PRODUCTS = (
    (re.compile(r"^RTX PRO 6000 Blackwell\b.*"), "RTX PRO 6000B"),
    (re.compile(r" Generation$"), ""),
    (re.compile(r" (?=(?:Ada|Ti|SUPER)\b)"), ""),
    (re.compile(r"^RTX (?=A\d)"), ""),
    (re.compile(r"^(RTX|GTX) (?=\d)"), r"\1"),
)
_CPU_WORDS = ("cpu", "cpunode", "nogpu")
_WITHOUT_DIGITS = re.compile(r"titan|gaudi|trainium|inferentia|tpu", re.IGNORECASE)
"""Models whose names may have no digit."""
_SIZES = (
    4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64,
    80, 94, 96, 128, 141, 180, 192, 262, 288, 480, 624,
)  # fmt: skip


@dataclass(frozen=True)
class GpuSpec:
    """Which GPUs are wanted."""

    count: int
    """How many in one machine; 1 where nothing was written."""
    name: str
    """As it was written, without count, memory and socket: `H100`, `rtx 4090`."""
    memory: float | None = None
    """GB of one GPU, where they were written."""
    socket: str = ""
    """`SXM`, `SXM5`, `PCIe`, where that was written."""
    counted: bool = True
    """The count was written. Without it a list shows machines with any number."""

    def __str__(self) -> str:
        parts = [
            self.name,
            *([self.socket] if self.socket else []),
            *([f"{self.memory:g}GB"] if self.memory is not None else []),
        ]
        return (f"{self.count}x" if self.counted else "") + "-".join(parts)


CPU = GpuSpec(1, "cpu", counted=False)
"""A machine without a GPU."""


def parse_spec(text: str) -> GpuSpec:
    """The GPUs that a person asks for.

    Understood are `4xH100`, `4 x H100`, `4 H100`, `H100`, `H100:4`, `H100x4`, each with memory
    behind the name (`A100_80GB`, `A100-80GB`, `A100 80 GB`) and with a socket (`H100-SXM`,
    `A100-SXM4-80GB`, `H100 PCIe`), in any case. `cpu` is a machine without GPU.

    Raises:
        InputError: The text is in no such form.
    """
    whole = " ".join(text.split())
    count, name = _counted(whole)
    name, memory, socket = _parts(name)
    name = name.rstrip(" -_")
    if re.fullmatch(r"\d+\s*(G|GB|GiB)", whole, re.IGNORECASE):
        raise InputError(
            f"{clean_line(text, 60)!r} is an amount of memory, not a GPU",
            fix="Ask for it with --min-vram.",
        )
    known = re.search(r"\d", name) or _WITHOUT_DIGITS.search(name) or fold(name) in _CPU_WORDS
    if (
        not _NAME.fullmatch(name)
        or not re.search(r"[A-WYZa-wyz]|\d{3}", name)
        or not known
        or memory == 0
    ):
        raise InputError(
            f"{clean_line(text, 60)!r} names no GPUs",
            fix=(
                "Write for instance H100, 4xH100, A100_80GB:2, or cpu for none; hudtui pods offers "
                "lists what there is."
            ),
        )
    if count is not None and not 0 < count <= MAX_GPUS:
        raise InputError(
            f"{count} GPUs cannot be asked for in one machine", fix="Write for instance 4xH100."
        )
    return GpuSpec(count or 1, name, memory, socket, count is not None)


def _counted(text: str) -> tuple[int | None, str]:
    # `4090x2` is two of the one and `2x4090` of the other: a bare number of one or two digits is no
    # name.
    if (match := _FIRST.fullmatch(text)) and not re.fullmatch(r"\d{1,2}", match[2]):
        return int(match[1].rstrip(" xX×*")[:9]), match[2]
    if match := _LAST.fullmatch(text):
        name, count = next((match[at], match[at + 1]) for at in (1, 3, 5) if match[at] is not None)
        return int(count[:9]), name
    return None, text


def _parts(name: str) -> tuple[str, float | None, str]:
    """Return the bare name of a GPU, and the memory and the socket at its end.

    The two come in either order.
    """
    memory: float | None = None
    socket = ""
    while True:
        if memory is None and (match := _MEMORY.fullmatch(name)):
            name, memory = match[1], float(match[2])
        elif match := _SOCKET.fullmatch(name):
            name, socket = (
                match[1],
                socket or ("PCIe" if match[2].lower() == "pcie" else match[2].upper()),
            )
        else:
            return name, memory, socket


def split_type(gpu_type: str) -> tuple[str, float | None]:
    """A provider's name of a GPU in two: its bare name, folded for comparison, and the GB in it.

    `A100_80GB` gives `("a100", 80.0)`; `NVIDIA GeForce RTX 4090` gives `("rtx4090", None)`.
    """
    name, memory, _ = _parts(gpu_type.removesuffix(SIMULATED))
    return fold(name), memory


def fold(name: str) -> str:
    """A GPU's name for comparison.

    Lower case, letters and digits alone, without makers and product lines.
    """
    return re.sub(r"[^a-z0-9]+", "", _VENDORS.sub(" ", name.replace("_", " ")).lower())


def _spellings(name: str) -> set[str]:
    """What else the same GPU is called.

    `4090` and `RTX4090`, `RTX A6000` and `A6000`, `RTX PRO 6000` and `RTX_PRO_6000B`.
    """
    folded = fold(name)
    bare = folded.removeprefix("rtx")
    names = {folded, bare, f"rtx{bare}"}
    if bare in ("pro6000", "pro6000blackwell", "pro6000b"):
        names |= {"pro6000b", "rtxpro6000b", "pro6000", "rtxpro6000"}
    return names


def matches(spec: GpuSpec, offer: Offer) -> bool:
    """Whether an offer's GPUs are of the kind that is meant, whatever their number and socket."""
    bare, memory = split_type(offer.gpu_type)
    if fold(spec.name) in _CPU_WORDS:
        return not has_gpu(offer)
    if bare not in _spellings(spec.name):
        return False
    if spec.memory is None:
        return True
    known = memory if memory is not None else offer.gpu_memory
    return known is not None and abs(known - spec.memory) < 1.5


def has_gpu(offer: Offer) -> bool:
    """Whether a machine has a GPU at all."""
    return offer.gpu_count > 0 and split_type(offer.gpu_type)[0] not in ("", *_CPU_WORDS)


def fits_socket(spec: GpuSpec, offer: Offer) -> bool:
    """Whether the socket is the wanted one.

    An offer whose provider does not state the socket does not fit.
    """
    return offer.socket.lower().startswith(spec.socket.lower())


def is_meant(spec: GpuSpec, offer: Offer) -> bool:
    """Whether the GPUs that a driver tells of are of the kind that is meant.

    A name or socket that says nothing may fit.
    """
    if not kind_of(offer.gpu_type).models:
        return has_gpu(offer)
    return matches(spec, offer) and (
        not offer.socket or not spec.socket or fits_socket(spec, offer)
    )


def resolve(spec: GpuSpec, offers: Iterable[Offer]) -> tuple[str, ...]:
    """The GPU types, as their providers spell them, that a spec means.

    Names are learned from all offers on the market.

    Raises:
        InputError: No provider offers such a GPU; the error says what is near.
    """
    market = tuple(offers)
    found = tuple(sorted({offer.gpu_type for offer in market if matches(spec, offer)}))
    if found:
        return found
    known = sorted({offer.gpu_type for offer in market if offer.gpu_type})
    wanted = spec.name + (f" with {spec.memory:g} GB" if spec.memory is not None else "")
    raise InputError(
        f"no provider offers a GPU called {clean_line(wanted, 60)}", fix=_near(spec, known)
    )


def _near(spec: GpuSpec, known: list[str]) -> str:
    if not known:
        return "There are no offers at all at the moment."
    bare = {gpu: split_type(gpu)[0] for gpu in known}
    same = [gpu for gpu in known if bare[gpu] in _spellings(spec.name)]  # another size of memory
    folded = fold(spec.name)
    slip = did_you_mean(folded, bare.values())
    near = same or [
        gpu for gpu in known if bare[gpu] == slip or (len(folded) > 1 and folded in bare[gpu])
    ]
    if near:
        return f"Near it: {', '.join(clean_line(gpu, 40) for gpu in near[:6])}."
    more = ", ..." if len(known) > 20 else ""
    return f"There are: {', '.join(clean_line(gpu, 40) for gpu in known[:20])}{more}."


@dataclass(frozen=True)
class GpuKind:
    """What a text of any source says of a GPU: a provider's name of it, or its driver's."""

    models: frozenset[str]
    """The models that it names, folded; empty where it names none that can be recognised."""
    sizes: frozenset[float]
    """Sizes of its memory in GB. A GH200 is named by the memory of its processor, and has
    another."""
    socket: str = ""
    """`SXM`, `PCIe` or `NVL`."""

    def differs(self, other: GpuKind) -> bool:
        """Whether this is certainly another GPU.

        What one of the two does not tell is no difference.
        """
        if self.models and other.models and not self.models & other.models:
            return True
        sizes = [(a, b) for a in self.sizes for b in other.sizes]
        if sizes and all(max(pair) > min(pair) * _SAME_SIZE for pair in sizes):
            return True
        return (
            "SXM" in (self.socket, other.socket)
            and "" not in (self.socket, other.socket)
            and self.socket != other.socket
        )


_SAME_SIZE = 1.125
"""The same memory is sold as 180 and 192 GB, and a driver tells of 22.5 of 24: no model is sold in
sizes so near each other."""
_NOISE = re.compile(
    r"\b(nvidia|corporation|geforce|tesla|quadro|graphics|device|hbm\d?e?|gddr\d\w?|amd|instinct"
    r"|intel|hgx|dgx|gpus?|tensor core"
    r"|ada lovelace|generation|server|workstation|max q|edition|simulated|sff|nvl\d+)\b"
)
_SIZE = re.compile(
    r"(?<![a-z0-9.])(\d+(?:\.\d+)?) ?(gi?b?|mi?b)\b|(?<=[a-z]\d{3}) "
    r"(16|24|32|40|48|80|94|96|141|180|192)$"
)
_GLUED = re.compile(rf"\b([a-z]+\d+?[a-z]*?)(?=(?:{'|'.join(map(str, _SIZES))})gb?\b)")
_SOCKET_WORD = re.compile(r"\b(?:sxm\d?|pcie?(?: ?x16)?|nvl)\b")
_COUNT_WORD = re.compile(
    r"^\d{1,3} ?[x*] ?(?=[a-z])|\b\d{1,3}x\b| x?\d{1,2}$|[x* ] ?\d{1,3}$|(?<=\d)[x*]\d{1,2}$"
)
_JOINED = (
    (re.compile(r"\brtx ?pro ?(\d+) ?b?(?:lackwell)?\b"), r"rtxpro\1b"),
    (re.compile(r"\b(?:rtx|gtx) ?(?=a?\d)"), ""),
    (re.compile(r"\b(titan|mi|gaudi) ?(?=\w)"), r"\1"),
    (re.compile(r"(?<=\d) ?(ada|ti|super|d)\b"), r"\1"),
    (re.compile(r"(?<=ti) (super)\b"), r"\1"),
    (re.compile(r"(?<=\bl40) s\b"), "s"),
)
_SLICE = re.compile(r"\b\d+g[. ](\d+)gb\b|\bmig\b| (\d{1,3})[abcq]$")
"""A part of a GPU: its profile (MIG `1g.10gb`, vGPU `20C`), or the word."""
_MODEL = re.compile(
    r"(?:[a-z]{1,3}|rtxpro|titan|gaudi)\d{1,4}[a-z]{0,8}|\d{3,4}[a-z]{0,8}|titan\w+"
)


def kind_of(name: str, memory: float | None = None, socket: str = "") -> GpuKind:
    """What a name of a GPU says, in any spelling.

    `A100_80GB`, `NVIDIA A100-SXM4-80GB`, `GA100 [A100 PCIe 80GB]`.

    `memory` in GB and `socket` are what is told beside the name; empty values are unknown.
    """
    text = " ".join(re.sub(r"[^a-z0-9.*]+", " ", name.lower()).split())
    if _SLICE.search(text):
        memory = next(
            (float(match[match.lastindex]) for match in _SLICE.finditer(text) if match.lastindex),
            memory,
        )
        whole = kind_of(_SLICE.sub(" ", text), memory, socket)
        # The name has the memory of the whole GPU, too.
        of_part = whole.sizes if memory is None else frozenset({memory})
        return GpuKind(
            frozenset(f"{model} mig" for model in whole.models) or frozenset({"mig"}),
            of_part,
            whole.socket,
        )
    text = _GLUED.sub(r"\1 ", " ".join(_NOISE.sub(" ", text).split()))
    sizes: set[float] = set() if memory is None else {memory}
    sockets = [socket.lower()]

    def size(match: re.Match[str]) -> str:
        amount = float(match[1] or match[3])
        sizes.add(amount / 1024 if (match[2] or "").startswith("m") else amount)
        return " "

    def seat(match: re.Match[str]) -> str:
        sockets.append(match[0])
        return " "

    for pattern, part in ((_SIZE, size), (_SOCKET_WORD, seat), (_COUNT_WORD, lambda _: " ")):
        text = " ".join(pattern.sub(part, text).split())
    for pattern, plain in _JOINED:
        text = pattern.sub(plain, text)
    if fold(text) in _CPU_WORDS or fold(name) in _CPU_WORDS:
        return GpuKind(frozenset({"cpu"}), frozenset())
    told = next(filter(None, sockets), "")
    kinds = {"sxm": "SXM", "pci": "PCIe", "nvl": "NVL"}
    models = frozenset(word for word in text.split() if _MODEL.fullmatch(word))
    return GpuKind(models, frozenset(sizes), kinds.get(told[:3], ""))


def type_from_driver(name: str, memory_mib: int | None) -> tuple[str, float | None, str]:
    """A GPU as its driver calls it, in the spelling of the offers: type, GB, socket.

    `NVIDIA A100-SXM4-80GB` with 81920 MiB gives `("A100_80GB", 80.0, "SXM4")`. A part of a GPU
    (MIG) keeps its own name, and what is simulated keeps that word.
    """
    if " MIG " in name:
        return clean_line(name, 60), None if memory_mib is None else round(memory_mib / 1024, 1), ""
    rest, mark, _ = name.partition(SIMULATED)
    rest, written, socket = _parts(" ".join(_VENDORS.sub(" ", rest).split()))
    memory = written if memory_mib is None else _sold_as(memory_mib / 1024)
    for pattern, plain in _PRODUCTS:
        rest = pattern.sub(plain, rest)
    plain = re.sub(r"[^A-Za-z0-9]+", "_", rest).strip("_")
    label = written if written is not None else memory
    whole = plain + (f"_{label:g}GB" if label is not None else "")
    return (whole if plain else clean_line(name, 60)) + mark, memory, socket


def _sold_as(gib: float) -> float:
    """The size on the box: drivers tell of a little less, or keep some for error correction."""
    return next(
        (float(size) for size in _SIZES if 0.9 * size <= gib <= size + 0.5), float(round(gib))
    )
