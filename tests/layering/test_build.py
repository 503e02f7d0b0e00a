"""What a user's choices come to in a build: flags, kind of library, presets."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAST = ["PERDURE_CUDA=OFF", "PERDURE_TESTS=OFF", "PERDURE_BENCH=OFF", "PERDURE_EXAMPLES=OFF"]


def configure(source: Path, build: Path, *options: str) -> subprocess.CompletedProcess:
    if not shutil.which("cmake") or not shutil.which("ninja"):
        pytest.skip("cmake or ninja is not installed")
    command = [
        "cmake",
        "-G",
        "Ninja",
        "-S",
        source,
        "-B",
        build,
        *(f"-D{option}" for option in options),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compile_commands(build: Path) -> dict[str, list[str]]:
    """Source -> the words of its command."""
    listed = json.loads((build / "compile_commands.json").read_text())
    return {Path(one["file"]).name: one["command"].split() for one in listed}


def all_targets(build: Path) -> str:
    command = ["ninja", "-C", build, "-t", "targets", "all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def optimisation(words: list[str]) -> list[str]:
    return [word for word in words if re.fullmatch(r"-O\w+", word)]


def test_a_users_flags_and_kind_of_library_are_respected(tmp_path: Path) -> None:
    done = configure(
        ROOT,
        tmp_path,
        *LEAST,
        "CMAKE_BUILD_TYPE=Release",
        "CMAKE_CXX_FLAGS_RELEASE=-O2 -DMINE",
        "CMAKE_CXX_FLAGS=-fno-plt",
        "CMAKE_CXX_COMPILER_LAUNCHER=",
        "BUILD_SHARED_LIBS=ON",
    )
    assert done.returncode == 0, done.stderr
    for source, words in compile_commands(tmp_path).items():
        assert optimisation(words) == ["-O2"], f"{source}: {words}"
        assert "-DMINE" in words and "-fno-plt" in words and "-g1" not in words, (
            f"{source}: {words}"
        )
        assert "ccache" not in " ".join(words), (
            f"{source}: an empty launcher is a launcher that was named"
        )
    assert "src/libperdure.so" in all_targets(tmp_path)
    exported = (tmp_path / "CMakeFiles" / "Export").rglob("perdureTargets.cmake")
    assert any(
        "add_library(perdure::perdure SHARED IMPORTED)" in file.read_text() for file in exported
    )


def test_a_parent_projects_flags_are_left_alone(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES CXX)\n"
        f'add_subdirectory("{ROOT}" perdure)\nadd_executable(own own.cpp)\n'
        "target_link_libraries(own PRIVATE perdure::perdure)\nset(CMAKE_EXPORT_COMPILE_COMMANDS "
        "ON)\n"
    )
    (parent / "own.cpp").write_text("int main() {}\n")
    done = configure(parent, tmp_path / "build", "PERDURE_CUDA=OFF", "CMAKE_BUILD_TYPE=Release")
    assert done.returncode == 0, done.stderr
    commands = compile_commands(tmp_path / "build")
    assert optimisation(commands["store.cpp"]) == ["-O3"]
    assert "-g1" not in commands["store.cpp"], "the parent says what its objects hold"


def test_a_build_that_names_no_type_is_a_release_with_both_libraries(tmp_path: Path) -> None:
    done = configure(ROOT, tmp_path, *LEAST)
    assert done.returncode == 0, done.stderr
    words = compile_commands(tmp_path)["store.cpp"]
    assert optimisation(words) == ["-O2"] and "-DNDEBUG" in words
    assert not [word for word in words if word.startswith("-g")], (
        "packages hold no debug information"
    )
    assert "-fvisibility=hidden" in words and "-ffunction-sections" in words
    targets = all_targets(tmp_path)
    assert "src/libperdure.a" in targets and "src/libperdure.so" in targets


def test_small_sources_compile_together_where_that_is_chosen(tmp_path: Path) -> None:
    done = configure(ROOT, tmp_path, *LEAST, "PERDURE_TOGETHER=ON")
    assert done.returncode == 0, done.stderr
    commands = compile_commands(tmp_path)
    assert "store.cpp" not in commands
    assert optimisation(commands["dash_eh_engine.cpp"]) == ["-O2", "-O3"], "large ones stay alone"
    units = (tmp_path / "src" / "CMakeFiles" / "perdure.dir" / "Unity").glob("*.cxx")
    text = "".join(unit.read_text() for unit in units)
    assert text.count("/src/store/store.cpp") == 1 and "dash_eh_engine.cpp" not in text


@pytest.mark.parametrize("build_type", ["", "Debug"])
def test_a_project_that_fetches_us_keeps_its_own_build_type(
    tmp_path: Path, build_type: str
) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(parent LANGUAGES CXX)\n"
        "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\ninclude(FetchContent)\n"
        f'FetchContent_Declare(perdure SOURCE_DIR "{ROOT}")\n'
        "FetchContent_MakeAvailable(perdure)\nadd_executable(own own.cpp)\n"
        "target_link_libraries(own PRIVATE perdure::perdure)\n"
    )
    (parent / "own.cpp").write_text("#include <perdure/store.h>\nint main() {}\n")
    options = ["PERDURE_CUDA=OFF", *([f"CMAKE_BUILD_TYPE={build_type}"] if build_type else [])]
    done = configure(parent, tmp_path / "build", *options)
    assert done.returncode == 0, done.stderr
    commands = compile_commands(tmp_path / "build")
    assert optimisation(commands["own.cpp"]) == []
    assert optimisation(commands["store.cpp"]) == ([] if build_type else ["-O3"])
    targets = all_targets(tmp_path / "build")
    assert (
        "perdure_unit_tests" not in targets
        and "perdure-bench" not in targets
        and "libperdure.so" not in targets
    )


def test_an_unknown_instruction_set_is_refused_by_name(tmp_path: Path) -> None:
    done = configure(ROOT, tmp_path, *LEAST, "PERDURE_CPU_ENGINES=avx2;sse9")
    assert done.returncode != 0 and "'sse9'" in done.stderr and "avx2;avx512" in done.stderr


def test_the_server_is_built_where_its_libraries_are_and_named_where_it_was_asked_for(
    tmp_path: Path,
) -> None:
    lacking = [*LEAST, "CMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON"]
    done = configure(ROOT, tmp_path / "on", *lacking, "PERDURE_SERVE=ON")
    assert done.returncode != 0
    assert "OpenSSL for PERDURE_SERVE=ON" in done.stderr and "libssl-dev" in done.stderr
    done = configure(ROOT, tmp_path / "auto", *lacking)
    assert done.returncode == 0, done.stderr
    assert "perdure/serve.h and what stands on it are not built" in done.stdout
    assert "perdure_serve" not in all_targets(tmp_path / "auto")
    done = configure(ROOT, tmp_path / "off", *LEAST, "PERDURE_SERVE=OFF")
    assert done.returncode == 0, done.stderr
    assert "perdure_serve" not in all_targets(tmp_path / "off")


def test_every_preset_builds_and_tests() -> None:
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    names = {
        kind: {preset["name"] for preset in presets[kind] if not preset.get("hidden")}
        for kind in ("configurePresets", "buildPresets", "testPresets")
    }
    assert names["configurePresets"] == {"dev", "release", "cuda", "asan", "tsan"}
    assert names["buildPresets"] == names["testPresets"] == names["configurePresets"]


def test_no_cmake_file_holds_a_mangled_name() -> None:
    files = [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")]
    for folder in ("src", "tests", "bench", "baselines", "python", "examples"):
        files += (ROOT / folder).rglob("CMakeLists.txt")
    mangled = [
        str(path.relative_to(ROOT)) for path in files if re.search(r"\b_ZN?\w*\d", path.read_text())
    ]
    assert not mangled


def test_a_pytorch_that_is_not_there_is_refused_where_it_was_named(tmp_path: Path) -> None:
    python = (f"Python_EXECUTABLE={sys.executable}", "PERDURE_PYTHON=ON")
    done = configure(ROOT, tmp_path, *LEAST, *python, "PERDURE_TORCH=/nowhere")
    says = " ".join(done.stderr.split())  # CMake breaks lines
    assert done.returncode != 0 and "PERDURE_TORCH is '/nowhere'" in says
    assert "-DPERDURE_TORCH=OFF" in says, "it names the way out"
    for choice in ("OFF", "AUTO"):
        done = configure(ROOT, tmp_path, *LEAST, *python, f"PERDURE_TORCH={choice}")
        assert done.returncode == 0, done.stderr
