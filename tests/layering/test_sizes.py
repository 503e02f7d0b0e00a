"""How long functions and files may be: short enough to be read in one go."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["src", "include", "bench", "baselines", "examples", "scripts", "tests", "python"]
CPP = {".h", ".hpp", ".cuh", ".cpp", ".cu"}
LINES_OF_A_FUNCTION = 60  # without comments and blank ones
LINES_OF_A_FILE = 500

# What is no code, and what nests: brackets, and where a declaration begins anew.
BLANKED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(
    r"\b(?:namespace|class|struct|union|enum)\b(?:alignas@|[^@=])*$|\bextern\s*$"
)  # of a head() that begins no function


def sources(*suffixes: str) -> list[Path]:
    return sorted(
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and path.is_file()
    )


def code(text: str) -> str:
    """The same text with comments, strings and directives blanked, line by line where it was."""
    return BLANKED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def head(declaration: str) -> str:
    """A declaration without what stands in its brackets: @ for round ones."""
    shorter = declaration
    while True:
        declaration, shorter = shorter, re.sub(r"<[^<>()]*>", " ", shorter)
        shorter = re.sub(r"\([^()]*\)", "@", shorter)
        if shorter == declaration:
            return declaration


def cpp_functions(text: str) -> Iterator[tuple[int, int, str]]:
    """(line, lines of code, declaration) of each function that stands in a namespace or a class."""
    text = code(text)
    begin = 0  # of a declaration
    body = 0  # where its first brace of its own is
    depth = 0  # of brackets inside of it
    for at, bracket in ((m.start(), m[0]) for m in re.finditer(r"[{}()\[\];]", text)):
        if bracket in "([" or (bracket == "{" and depth > 0):
            depth += 1
        elif bracket == "{":
            body = at
            if SCOPE.search(head(text[begin:at])):
                begin = at + 1
            else:
                depth = 1
        elif bracket == "}" and depth == 1:
            depth = 0
            if re.match(r"\s*[,{;(]", text[at + 1 :]):  # an initializer, of a member or a variable
                continue
            declaration = text[begin:body].strip()
            if "@" in head(declaration) and "=" not in re.sub(
                r"operator\W+", "", head(declaration)
            ):
                lines = text[begin : at + 1].splitlines()
                yield (
                    text.count("\n", 0, body) + 1,
                    sum(1 for line in lines if line.strip()),
                    declaration,
                )
            begin = at + 1
        elif bracket in ")]}" and depth > 0:
            depth -= 1
        elif depth == 0:  # a scope or a declaration ends
            begin = at + 1


def python_functions(text: str) -> Iterator[tuple[int, int, str]]:
    """The same of Python: without the comment that documents it."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0].lineno - 1
        if ast.get_docstring(node) is not None:
            first = node.body[0].end_lineno or first
        body = [*lines[node.lineno - 1 : node.body[0].lineno - 1], *lines[first : node.end_lineno]]
        count = sum(1 for line in body if line.strip() and not line.strip().startswith("#"))
        yield node.lineno, count, node.name


def too_long(path: Path) -> list[str]:
    functions = python_functions if path.suffix == ".py" else cpp_functions
    return [
        f"{path.relative_to(ROOT)}:{line}: {count} lines of {' '.join(head.split())[-60:]}"
        for line, count, head in functions(path.read_text(encoding="utf-8"))
        if count > LINES_OF_A_FUNCTION
    ]


def test_functions_are_read_in_one_go() -> None:
    faults = [fault for path in sources(*CPP, ".py") for fault in too_long(path)]
    assert not faults, "\n".join(["", *faults])


def test_so_are_files() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in sources(*CPP, ".py")}
    faults = [
        f"{path.relative_to(ROOT)}: {n} lines" for path, n in lines.items() if n > LINES_OF_A_FILE
    ]
    assert not faults, "\n".join(["", *faults])


LONG = "  f();\n" * 59  # and two lines around it


@pytest.mark.parametrize(
    "text",
    [
        "int f(int x = 1) {\n" + LONG + "}\n",
        "namespace a {\nint x = f({1, 2});\nclass C {\n void f() {\n" + LONG + "}\n};\n}\n",
        "struct alignas(64) S {\n S() : a{1}, b(2) {\n" + LONG + "}\n int a, b;\n};\n",
        "template <class T, int n = (2 > 1)>\nT C<T>::operator==(T) const {\n" + LONG + "}\n",
        'extern "C" {\nvoid f() {  // {\n  g("{", \'{\');\n' + LONG + "}\n}\n",
    ],
)
def test_a_long_function_is_found(text: str) -> None:
    (found,) = [count for _, count, _ in cpp_functions(text)]
    assert found > LINES_OF_A_FUNCTION


def test_comments_and_tables_are_no_function() -> None:
    comments = "// {\n\n" * 60
    text = "void f() {\n" + comments + "}\nint const t[] = {\n" + "  g({1}),\n" * 99 + "};\n"
    assert [count for _, count, _ in cpp_functions(text)] == [2]
