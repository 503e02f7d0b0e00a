"""`perdure dirtbuster` on programs whose right advice is known: one function for each rule of the
thesis's 3.6.2.3 and each pitfall of its 3.5 (dirtbuster/planted.c), by all three steps; and on
programs that it cannot look at."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

_SOURCE = Path(__file__).parent / "dirtbuster" / "planted.c"
_WATCHED = (
    "fill_then_read,fill_only,write_before_fence,rewrite_line,rewrite_buffer,scatter,fill_message,"
    "craft_value,interleave,downwards,add_to_all,fill_page,make_objects,memcpy"
)
# What writes most in each function, and the advice that is right for it.
_RIGHT = {
    ("fill_then_read", ""): "clean",  # listing 2
    ("fill_only", ""): "skip",  # listing 2, not read again
    ("write_before_fence", ""): "demote",  # listing 3
    ("rewrite_line", ""): "leave",  # listing 4
    ("rewrite_buffer", ""): "leave",  # fftz2: sequential, small, rewritten
    ("scatter", ""): "leave",  # rank: random words
    ("fill_message", ""): "demote",  # a ring of messages
    ("craft_value", ""): "skip",  # a store's values, and a lock
    ("interleave", ""): "skip",  # two arrays by turns
    ("downwards", ""): "skip",
    ("add_to_all", ""): "skip",  # what it reads is older than what it writes
    ("fill_page", ""): "clean",  # write(2) reads it
    ("make_objects", ""): "clean",  # sequential by page
    ("memcpy", "copy_to_buffer"): "leave",
    ("memcpy", "copy_to_log"): "skip",
}

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("perf") is None or not shutil.which("cc"),
    reason="no valgrind, perf or C compiler, which perdure dirtbuster needs",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the planted program, and the same stripped, and static."""
    made = tmp_path_factory.mktemp("planted")
    for name, options in (("planted", ["-g"]), ("stripped", ["-s"]), ("static", ["-static"])):
        command = ["cc", "-O2", *options, "-o", str(made / name), str(_SOURCE)]
        subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="module")
def planted(folder: Path) -> dict[str, Any]:
    """What steps 2 and 3 say of all functions, in one run."""
    return _advice(folder / "planted", _WATCHED, folder / "planted.json")


def _advice(program: Path, functions: str, out: Path) -> dict[str, Any]:
    from perdure.cli import app
    from typer.testing import CliRunner

    arguments = ["dirtbuster", "--functions", functions, "--json", str(out), "--", str(program)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.stderr
    return json.loads(out.read_text())


def _most_written(data: dict[str, Any], function: str, caller: str) -> dict[str, Any]:
    fitting = [
        one for one in data["advice"] if (one["function"], one["caller"]) == (function, caller)
    ]
    assert fitting, f"no advice on {function} {caller}"
    return max(fitting, key=lambda one: one["counts"]["bytes"])


@pytest.mark.parametrize(("function", "caller"), _RIGHT)
def test_planted_writes_get_the_right_advice(
    planted: dict[str, Any], function: str, caller: str
) -> None:
    found = _most_written(planted, function, caller)
    assert found["advice"] == _RIGHT[function, caller], found
    assert Path(found["file"]).name == _SOURCE.name
    text = _SOURCE.read_text().splitlines()
    assert any(part in text[found["lines"][-1] - 1] for part in ("=", "memset", "memcpy"))


def test_numbers_are_those_of_the_source(planted: dict[str, Any]) -> None:
    read = _most_written(planted, "fill_then_read", "")
    assert read["counts"]["passes"] == 4000 * 1024 // 64
    assert read["counts"]["bytes"] == 4000 * 1024
    assert read["sequential"] == 1.0 and read["context_bytes"] == 1024
    assert read["amplification"] == pytest.approx(1.0, abs=0.01)
    # Line 0 of each element is read: word 5, after 122 more words of three instructions or so.
    assert read["counts"]["reread"] == 4000  # though two words of it are read
    assert 122 < read["reread_instructions"] < 122 * 5

    message = _most_written(planted, "fill_message", "")
    assert message["fence_instructions"] < 20
    assert message["rewritten"] == pytest.approx(1 - 64 / 8000, abs=0.001)  # of 64 slots

    scattered = _most_written(planted, "scatter", "")
    assert scattered["amplification"] > 3.9


def test_inlined_headers_give_the_line_of_the_program(tmp_path: Path) -> None:
    source = tmp_path / "inlined.cpp"
    source.write_text(
        "#include <algorithm>\n#include <cstdint>\n#include <vector>\n"
        "namespace store { struct Table { std::vector<std::uint64_t> words;\n"
        "  __attribute__((noinline)) void put(std::uint64_t word) {\n"
        "    std::fill(words.begin(), words.end(), word); } }; }\n"
        "int main() { store::Table table; table.words.resize(1 << 19); table.put(7); }\n"
    )
    program = tmp_path / "inlined"
    subprocess.run(["c++", "-O2", "-g", "-o", program, source], check=True)
    data = _advice(program, "Table::put", tmp_path / "inlined.json")
    found = data["advice"][0]
    assert found["function"] == "store::Table::put"
    assert (Path(found["file"]).name, found["lines"]) == ("inlined.cpp", [6])


def test_a_smaller_cache_forgets_more(folder: Path, cli: Any) -> None:
    """A ring of 16 KiB, and a cache of half that size: rewritten too late to matter."""
    out = folder / "small.json"
    done = cli(
        "dirtbuster", "--functions", "fill_message", "--cache", "8KiB", "--json", out, "--",
        folder / "planted",
    )  # fmt: skip
    assert done.status == 0, done.err
    found = _most_written(json.loads(out.read_text()), "fill_message", "")
    assert found["rewritten"] == 0.0 and found["advice"] == "skip"


def test_sampling_finds_what_writes_and_its_caller(folder: Path, cli: Any) -> None:
    out = folder / "sampled.json"
    done = cli(
        "dirtbuster", "--steps", 1, "--json", out, "--", folder / "planted", "write", 6_000_000
    )
    assert done.status == 0, done.err
    sampling = json.loads(out.read_text())["sampling"]
    assert sampling["write_intensive"] and sampling["store_share"] > 0.3
    assert sampling["functions"][0]["function"] == "write_element"
    assert any("write_much" in one for one in sampling["functions"][0]["callers"])


def test_a_program_that_does_not_write_is_told_so(folder: Path, cli: Any) -> None:
    done = cli("dirtbuster", "--", folder / "planted", "compute", 200_000_000)
    assert done.status == 0, done.err
    assert "Not write-intensive" in done.out
    assert "Steps 2 and 3" not in done.out


def test_all_steps_on_a_stripped_program(folder: Path, cli: Any) -> None:
    out = folder / "stripped.json"
    done = cli("dirtbuster", "--json", out, "--", folder / "stripped", "write", 400_000)
    assert done.status == 0, done.err
    data = json.loads(out.read_text())
    assert any("stripped" in note for note in data["notes"])
    first = data["advice"][0]
    assert first["advice"] == "skip" and first["file"] == "" and first["counts"]["address"] > 0


def test_a_static_program_has_its_own_memcpy(folder: Path, cli: Any) -> None:
    out = folder / "static.json"
    done = cli("dirtbuster", "--functions", "memcpy", "--json", out, "--", folder / "static")
    assert done.status == 0, done.err
    data = json.loads(out.read_text())
    assert _most_written(data, "memcpy", "copy_to_log")["advice"] == "skip"


def test_the_programs_exit_status_is_passed_on(folder: Path, cli: Any) -> None:
    done = cli("dirtbuster", "--steps", 1, "--", folder / "planted", "fail")
    assert done.status == 7
    assert "failed in step 1: exit status 7" in done.err


def test_a_program_that_never_ends_is_ended(folder: Path, cli: Any) -> None:
    done = cli("dirtbuster", "--seconds", 0.3, "--", folder / "planted", "forever")
    assert done.status == 0, done.err
    assert "ended after --seconds" in done.err
    assert "SKIP  write_element" in done.out


def _compiled(folder: Path, name: str, text: str) -> Path:
    source, program = folder / "source.c", folder / name
    source.write_text(text)
    subprocess.run(["cc", "-O1", "-g", "-fno-builtin", "-o", program, source], check=True)
    return program


def test_a_function_that_is_entered_in_its_midst(tmp_path: Path) -> None:
    """The C library's wmemset jumps into memset, and what it sets lies on the stack."""
    text = (
        "#include <wchar.h>\nint main(int n, char** v) { wchar_t some[2048]; (void)v;\n"
        'wcsncpy(some, L"abc", 2048); wcsncpy(some, L"b", 2048); return (int)some[n]; }\n'
    )
    data = _advice(_compiled(tmp_path, "midst", text), "memset", tmp_path / "midst.json")
    assert sum(one["counts"]["bytes"] for one in data["advice"]) > 4 * 2 * 2000


def test_what_a_program_prints_passes_through(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Bytes of no text, in the order in which they were written; and a space in a path."""
    from perdure.dirtbuster import programs, sampling

    text = (
        "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { for (int i = 0; i < 2; ++i) {\n"
        'if (write(1, "o\\xff", 2) + write(2, "e\\xfe", 2) != 4) return 1; } abort(); }\n'
    )
    program = _compiled(tmp_path, "a b", text)
    samples = sampling.record(programs.find([str(program)]), tmp_path, None, None)
    assert samples.status == 128 + 6 and sampling.ended_by(samples.status) == "ended by SIGABRT"
    assert capfdbinary.readouterr().err.startswith(2 * b"o\xffe\xfe")


def test_counting_starts_where_it_is_told(folder: Path, tmp_path: Path, cli: Any) -> None:
    """main calls fill_only before craft_value: so its writes are not counted."""
    functions, results = ("--functions", "fill_only,craft_value"), []
    for at in ([], ["--start-at", "craft_value"]):
        out = tmp_path / f"{len(at)}.json"
        done = cli("dirtbuster", *functions, *at, "--json", out, "--", folder / "planted")
        assert done.status == 0, done.err
        results.append(json.loads(out.read_text()))
    names = [{one["function"] for one in result["advice"]} for result in results]
    assert names == [{"fill_only", "craft_value"}, {"craft_value"}]
    assert 0 < results[1]["instructions"] < results[0]["instructions"]
    values = [_most_written(result, "craft_value", "")["counts"]["bytes"] for result in results]
    assert values[0] == values[1] > 0


def test_a_start_that_never_comes_is_told(folder: Path, cli: Any) -> None:
    asked = ("--functions", "fill_only", "--start-at", "nobody")
    done = cli("dirtbuster", *asked, "--", folder / "planted")
    assert "nobody did not run under Valgrind" in done.out and "--start-at" in done.out
    assert "fill_only did not run" not in done.out
    assert "0 instructions" in done.out


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that nobody can write to")
def test_a_current_folder_that_nobody_can_write_to(
    folder: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    done = cli("dirtbuster", "--", folder / "planted", "write", 400_000)
    assert done.status == 0, done.err
    assert "Steps 2 and 3" in done.out
    done = cli("dirtbuster", "--keep", "kept", "--", folder / "planted")
    assert done.status == 2 and "--keep kept" in done.err and "write to" in done.err


def _shim(folder: Path, manager: str) -> Path:
    """As pyenv makes them."""
    (folder / "manager").write_text(manager)
    shim = folder / "planted"
    shim.write_text(
        f'#!/bin/sh\nset -e\nprogram="${{0##*/}}"\nexec "{folder}/manager" exec "$program" "$@"\n'
    )
    for one in (shim, folder / "manager"):
        one.chmod(0o755)
    return shim


def test_a_shim_is_passed_over(folder: Path, tmp_path: Path, cli: Any) -> None:
    """The manager is asked which program it is, and does not start it: `exec` would fail."""
    manager = f'#!/bin/sh\n[ "$1 $2" = "which planted" ] || exit 9\necho {folder}/planted\n'
    shim = _shim(tmp_path, manager)
    done = cli("dirtbuster", "--functions", "fill_only", "--", shim)
    assert done.status == 0, done.err
    assert f"is a shim ({shim}): {folder}/planted is looked at" in done.out
    assert "SKIP  fill_only" in done.out


def test_a_shim_of_nothing_is_refused(tmp_path: Path, cli: Any) -> None:
    shim = _shim(tmp_path, "#!/bin/sh\necho planted: command not found >&2\nexit 127\n")
    done = cli("dirtbuster", "--functions", "fill_only", "--", shim)
    assert done.status == 2 and "planted: command not found" in done.err
    assert "name the program itself" in done.err


@pytest.mark.framework("torch")
def test_a_training_step_of_pytorch_is_sampled(tmp_path: Path, cli: Any) -> None:
    step = Path(__file__).parents[2] / "dirtbuster" / "examples" / "training_step.py"
    out = tmp_path / "step.json"
    done = cli("dirtbuster", "--steps", 1, "--json", out, "--", sys.executable, step, 30)
    assert done.status == 0, done.err
    found = json.loads(out.read_text())["sampling"]["functions"]
    assert any("libtorch_cpu" in one["object"] for one in found), found


def test_the_distances_are_drawn(folder: Path, cli: Any) -> None:
    pytest.importorskip("matplotlib")
    picture = folder / "distances.png"
    done = cli(
        "dirtbuster", "--functions", "fill_message", "--plot", picture, "--", folder / "planted"
    )
    assert done.status == 0, done.err
    assert picture.read_bytes().startswith(b"\x89PNG")


class TestRefusals:
    def test_no_program(self, cli: Any) -> None:
        done = cli("dirtbuster")
        assert done.status == 2 and "write it after --" in done.err

    def test_a_function_that_is_not_there(self, cli: Any, folder: Path) -> None:
        done = cli("dirtbuster", "--functions", "nobody", "--", folder / "planted", "fail")
        assert done.status == 7 and "nobody did not run under Valgrind" in done.out
        assert "no function that was watched wrote anything" in done.out

    def test_a_program_that_is_not_there(self, cli: Any) -> None:
        done = cli("dirtbuster", "--", "./nowhere")
        assert done.status == 2 and "./nowhere: no such program" in done.err

    def test_a_file_that_is_no_program(self, cli: Any, tmp_path: Path) -> None:
        text = tmp_path / "text"
        text.write_text("no program")
        text.chmod(0o755)
        done = cli("dirtbuster", "--", text)
        assert done.status == 2 and "neither an ELF program nor a script" in done.err

    def test_another_machine(self, cli: Any, folder: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        code = bytearray((folder / "planted").read_bytes())
        code[18] = 183  # e_machine: AArch64
        other.write_bytes(code)
        other.chmod(0o755)
        done = cli("dirtbuster", "--", other)
        assert done.status == 2 and "made for AARCH64" in done.err

    def test_setuid(self, cli: Any, folder: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        shutil.copy(folder / "planted", copy)
        copy.chmod(0o4755)
        done = cli("dirtbuster", "--", copy)
        assert done.status == 2 and "run a copy without the bit" in done.err

    @pytest.mark.parametrize(
        ("tool", "way_out"), [("perf", "linux-perf"), ("valgrind", "valgrind")]
    )
    def test_a_tool_that_is_not_installed(
        self,
        cli: Any,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        tool: str,
        way_out: str,
    ) -> None:
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else which(name))
        done = cli("dirtbuster", "--", folder / "planted")
        assert done.status == 2 and f"no {tool}" in done.err and way_out in done.err

    def test_a_kernel_that_lets_nobody_sample(
        self, cli: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from perdure.dirtbuster import sampling

        level = tmp_path / "paranoid"
        level.write_text("4\n")
        monkeypatch.setattr(sampling, "_PARANOID", level)
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        done = cli("dirtbuster", "--steps", 1, "--", folder / "planted", "fail")
        assert done.status == 2 and "perf_event_paranoid=2" in done.err


@pytest.mark.parametrize(
    ("name", "linked", "fits"),
    [
        ("put", "put", True),
        ("put", "_Z3puti", True),
        ("put", "_ZN5store5Table3putEii", True),
        ("put", "_ZN5store5Table3putIiEEvT_", True),
        ("put", "_ZN5store5Table6outputEii", False),
        ("Table::put", "_ZNK5store5Table3putEii", True),
        ("Table::put", "_ZN5store4Tree3putEii", False),
        ("memcpy", "__memmove_avx512_unaligned_erms", True),
        ("memset", "__memset_evex_unaligned", True),
        ("memcpy", "__memset_evex_unaligned", False),
    ],
)
def test_functions_are_named_by_hand_as_in_the_source(name: str, linked: str, fits: bool) -> None:
    from perdure.dirtbuster import objects

    patterns = objects.pattern_by_hand(name).split("|")
    assert any(fnmatchcase(linked, one) for one in patterns) is fits


def test_counters_weigh_stores_by_their_periods() -> None:
    """As perf prints samples of two events, each at a rate of its own."""
    from perdure.dirtbuster import sampling

    instructions = (
        " 900000 instructions:u: \n\t 1129 compute+0x9 (./p)\n\t 1050 main+0x10 (./p)\n\n"
    )
    stores = (
        " 50000 mem_inst_retired.all_stores:u: \n\t 1168 fill+0x8 (./p)\n\t 1060 main (./p)\n\n"
    )
    lines = (2 * instructions + 6 * stores).splitlines(keepends=True)
    samples = sampling.read_lines(lines, sampling.COUNTERS)
    assert samples.total == 8 and samples.store_share == pytest.approx(300_000 / 1_800_000)
    (hot,) = samples.hottest(8, 0.02)
    assert hot.first.symbol == "fill" and hot.callers == {"main": 6}


def test_stores_are_told_from_other_instructions(tmp_path: Path) -> None:
    """By Capstone, of code as the assembler made it."""
    from perdure.dirtbuster import decoding

    cases = (
        ("mov %rax, (%rdi)", True), ("mov (%rdi), %rax", False), ("addl $1, (%rdi)", True),
        ("cmpl $1, (%rdi)", False), ("vmovdqu %ymm0, (%rdi)", True), ("push %rax", True),
        ("vmovdqu64 %zmm0, (%rdi)", True), ("vaddpd (%rdi), %ymm1, %ymm2", False),
        ("movntdq %xmm0, (%rdi)", True), ("prefetchw (%rdi)", False), ("lea 8(%rdi), %rax", False),
    )  # fmt: skip
    text = ".globl f\nf: .cfi_startproc\nnop\n"
    text += "".join(f"l{at}: {line}\n" for at, (line, _) in enumerate(cases))
    text += f"l{len(cases)}: ret\n.cfi_endproc\n"
    addresses, library = _assembled(tmp_path, text)
    for at, (line, stores) in enumerate(cases):
        after = addresses[f"l{at + 1}"]  # where the clock finds the program when `line` has ended
        assert decoding.is_store(library, after) is stores, line


def test_only_what_is_near_is_decoded_of_megabytes_without_functions(tmp_path: Path) -> None:
    """Assembly without tables for unwinding, as MKL in PyTorch's libraries, with data within."""
    from perdure.dirtbuster import decoding

    lines = ".rept 100000\nmov (%rdi), %rax\nmovabs $0x1122334455667788, %rbx\n.byte 0x06\n.endr\n"
    text = f"f: .cfi_startproc\nnop\n.cfi_endproc\n{lines}mov %rax, (%rdi)\nl0: nop\n{lines}ret\n"
    addresses, library = _assembled(tmp_path, text)
    decoding._ends.cache_clear()
    assert decoding.is_store(library, addresses["l0"])
    (start, end) = decoding._near(0, 4_000_000, addresses["l0"])
    assert start <= addresses["l0"] - decoding._NEAR and end - start == 2 * decoding._NEAR


def _assembled(folder: Path, text: str) -> tuple[dict[str, int], str]:
    """A library's labels, by name, and its path. Its segments lie at their addresses."""
    source, library = folder / "code.s", folder / "code.so"
    source, library = folder / "code.s", folder / "code.so"
    source.write_text(text)
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", library, source], check=True)
    listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines()}
    return addresses, str(library)
