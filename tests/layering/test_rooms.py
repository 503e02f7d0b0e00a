"""Who may include whom: arrows between the rooms point downwards only (docs/design.md)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".h", ".hpp", ".cuh", ".cpp", ".cu"}

ROOMS_BELOW = {
    "fault": {"base"},  # part of test builds alone, which base/hooks.hpp brings in
    "base": {"fault"},
    "exec": {"fault", "base"},
    "measure": {"exec", "fault", "base"},
    "pm": {"exec", "fault", "base"},
    "wal": {"pm", "exec", "fault", "base"},
    "gpm": {"wal", "pm", "exec", "fault", "base"},
    "index": {"batch", "pm", "exec", "fault", "base"},
    "batch": {"pm", "exec", "fault", "base"},
    "store": {"batch", "index", "wal", "pm", "exec", "fault", "base"},
    "lsm": {"batch", "index", "wal", "pm", "exec", "fault", "base"},
    "capi": set(),  # the C interface, over the public headers
    "serve": {"fault", "base"},
    "explore": {"store", "lsm", "batch", "gpm", "index", "wal", "pm", "exec", "fault", "base"},
}
USERS = [
    "python",
    "bench",
    "examples",
]  # they see include/, their own headers and, for comparison, baselines/
# the public headers that name files, processes and users
ABOVE_MOST = {"perdure/store.h", "perdure/options.h", "perdure/reports.h"}
KERNEL_HEADERS = {
    "device.cuh",
    "gpm.h",
    "gpm.hpp",
    "gpm_common.h",
    "libgpm.cuh",
    "bandwidth_analysis.cuh",
}  # public ones that bring the engine's own, for users' kernels
BASELINE_FACES = {
    "baseline.hpp",
    "cpu_baseline.hpp",
    "kv_baseline.hpp",
    "ordered_baseline.hpp",
    "prestore_listings.hpp",
    "hetero.hpp",
    "adapter.h",
}  # all that the benchmark sees of a baseline
# The designs of key-value stores, which are the store's own engines over other Hosts.
STORES_AMONG_BASELINES = {
    "kv_design.hpp",
    "kv_heap_full.cpp",
    "kv_heap_index.cpp",
    "kv_leaves.hpp",
    "kv_log.cpp",
    "kv_store.cpp",
}
# Dash and the B+-tree, behind the faces of what they are measured beside, one operation at a time.
SYSTEMS_AMONG_BASELINES = {
    "dash_table.hpp",
    "dash_eh.cpp",
    "dash_lh.cpp",
    "dash_parts.cpp",
    "segment_fill.cpp",
    "btree_map.cpp",
}
MAY_NAME_STORE = {"store", "capi", "serve", "explore"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
CUDA_HEADERS = ("cuda", "cooperative_groups", "cub/", "thrust/", "nv/", "curand", "nvtx3/")
CUDA_CODE = re.compile(
    r"<<<|\bcu(?:da)?[A-Z]\w*\s*\(|\bcooperative_groups\b|\bcub::|\bthrust::"
    r"|\b__(?:ballot|shfl\w*|any|all|match\w*|reduce\w*)_sync\b|\b__sync(?:threads|warp)\w*\b"
    r"|\b__threadfence\w*\b|\batomic(?:Add|Sub|CAS|Exch|Min|Max|And|Or|Xor)\w*\s*\("
    r"|\b(?:threadIdx|blockIdx|blockDim|gridDim)\b"
)


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES)


def includes(path: Path) -> list[tuple[int, bool, str]]:
    """(line, quoted, name) of each #include."""
    text = path.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, m.start(2)) + 1, m[1] == '"', m[2]) for m in INCLUDE.finditer(text)
    ]


def without_comments(text: str) -> str:
    """The same text with comments and strings blanked, line by line where it was."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return token.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def report(faults: list[str]) -> None:
    assert not faults, "\n".join(["", *faults])


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_room_is_known() -> None:
    rooms = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    assert rooms <= ROOMS_BELOW.keys(), (
        f"src/ has rooms without a place: {sorted(rooms - ROOMS_BELOW.keys())}"
    )


@pytest.mark.parametrize("room", sorted(ROOMS_BELOW))
def test_room_includes_downwards_only(room: str) -> None:
    allowed = ROOMS_BELOW[room] | {room}
    faults = []
    for path in sources(ROOT / "src" / room):
        for line, quoted, name in includes(path):
            target = name.split("/")[0]
            if target == "perdure":
                if name in ABOVE_MOST and room not in MAY_NAME_STORE:
                    faults.append(f"{where(path, line)}: {room} includes {name}, which is above it")
            elif quoted and "/" not in name:
                faults.append(
                    f'{where(path, line)}: write "{room}/...{name}", so that the arrow shows'
                )
            elif (quoted or target in ROOMS_BELOW) and target not in allowed:
                faults.append(
                    f"{where(path, line)}: {room} includes {name}; it may know {sorted(allowed)}"
                )
    report(faults)


def test_public_headers_stand_alone() -> None:
    faults = [
        f"{where(path, line)}: a public header includes {name}"
        for path in sources(ROOT / "include")
        for line, quoted, name in includes(path)
        if quoted and not name.startswith("perdure/") and path.name not in KERNEL_HEADERS
    ]
    report(faults)


def test_the_kernel_headers_are_installed_with_all_they_include() -> None:
    """What they include, in turn, is what cmake/install.cmake lays down beside them."""
    installed = set(
        re.findall(r"\b[a-z]+/[a-z_/]+\.(?:hpp|cuh)\b", (ROOT / "cmake/install.cmake").read_text())
    )
    expected: set[str] = set()
    left = [path for path in sources(ROOT / "include") if path.name in KERNEL_HEADERS]
    while left:
        for _, quoted, name in includes(left.pop()):
            if quoted and not name.startswith("perdure/") and name not in expected:
                expected.add(name)
                left.append(ROOT / "src" / name)
    expected = {name for name in expected if not name.startswith("fault/")}  # test builds alone
    assert expected == {name for name in installed if Path(name).name not in KERNEL_HEADERS}


@pytest.mark.parametrize("user", USERS)
def test_users_see_include_only(user: str) -> None:
    folder = ROOT / user
    own = [folder, *(path for path in (ROOT / "baselines").glob("*") if path.is_dir())]
    faults = [
        f"{where(path, line)}: {user} includes {name}, which is not public"
        for path in sources(folder)
        for line, quoted, name in includes(path)
        if quoted
        and not name.startswith("perdure/")
        and not any((base / name).exists() for base in (path.parent, *own))
    ]
    faults += [
        f"{where(path, line)}: {user} reaches into src/ with {name}"
        for path in sources(folder)
        for line, _, name in includes(path)
        if name.split("/")[0] in ROOMS_BELOW or "src" in name.split("/")
    ]
    report(faults)


def test_bench_sees_the_baselines_faces_only() -> None:
    inside = {path.name for path in sources(ROOT / "baselines")} - BASELINE_FACES
    report(
        [
            f"{where(path, line)}: bench includes {name}, which is a baseline's own affair"
            for path in sources(ROOT / "bench")
            for line, quoted, name in includes(path)
            if quoted and name in inside and not (path.parent / name).exists()
        ]
    )


def test_the_engine_knows_no_baseline() -> None:
    of_baselines = {path.name for path in sources(ROOT / "baselines")}
    report(
        [
            f"{where(path, line)}: includes {name}; baselines stand beside the engine"
            for folder in ("src", "include", "python")
            for path in sources(ROOT / folder)
            for line, quoted, name in includes(path)
            if quoted and name in of_baselines and not (path.parent / name).exists()
        ]
    )


def test_baselines_stop_at_pm() -> None:
    allowed = {"pm", *ROOMS_BELOW["pm"]}
    faults = [
        f"{where(path, line)}: a baseline includes {name}; it may know pm and below"
        for path in sources(ROOT / "baselines")
        for line, _, name in includes(path)
        if name.split("/")[0] in ROOMS_BELOW.keys() - allowed
        and not (
            path.name in SYSTEMS_AMONG_BASELINES
            and name.startswith(("index/dash/", "index/btree/"))
        )
        and not (
            path.name in STORES_AMONG_BASELINES
            and name.startswith(("store/btree/", "index/btree/"))
        )
    ]
    report(faults)


def test_only_exec_knows_cuda() -> None:
    faults = []
    for path in [*sources(ROOT / "src"), *sources(ROOT / "include"), *sources(ROOT / "baselines")]:
        if path.is_relative_to(ROOT / "src" / "exec") or path == ROOT / "src/fault/traps.hpp":
            continue
        faults += [
            f"{where(path, line)}: includes {name}; only exec/ knows CUDA"
            for line, quoted, name in includes(path)
            if not quoted and name.startswith(CUDA_HEADERS)
        ]
        lines = without_comments(path.read_text(encoding="utf-8")).splitlines()
        faults += [
            f"{where(path, number)}: '{found[0]}'; only exec/ knows CUDA intrinsics"
            for number, line in enumerate(lines, start=1)
            if (found := CUDA_CODE.search(line))
        ]
    report(faults)
