"""The rules of the repository that no other tool checks: imports, sizes, names and sentences.

A number named `MOST_...` is a ceiling: lower it when the source gets better, never raise it.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

MOST_LINES = 400
# Of a line in a document.
MOST_COLUMNS = 100
MOST_MODULES = 15
MOST_SIBLINGS = 20
# Folders whose modules are all of one kind: commands, tables, systems.
SIBLINGS = {"mqlab/cli/broker", "mqlab/pipeline/tables", "mqlab/systems"}
# The beginning of a sentence that does not name the component that acts.
HEADLESS = re.compile(r"(?:^|[.:;]\s+)(?:Who|What|Whoever|Whatever|Nobody|Somebody|None of|Such)\s+[a-z].*", re.M)
# Private words that were replaced by those of docs/glossary.md.
BANNED = {
    "house", "desk", "spy", "wish", "wishes", "crew", "fleet", "lone", "handing", "nulls", "keeper", "fates", "glance",
    "telling", "saying", "hearing", "attendance", "remembering", "producing", "consuming", "awake", "arriving",
}  # fmt: skip
# Class names that are defined more than once, all in the client library. The list only gets shorter.
# The asyncio and the blocking client are two forms of one public API, as in `concurrent.futures` and `asyncio`.
SAME_NAME = {"Connection", "Consumer", "Producer", "Requester", "Session"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> list[Path]:
    """Return the files of the repository, or all files if it is not a clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / file for file in listed.stdout.split("\0") if file and (ROOT / file).is_file()]
    return [path for folder in ("src", "tests", "docs", "bench", "examples") for path in (ROOT / folder).rglob("*.*")]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    return ((path, node) for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef))


def imports(path: Path) -> set[str]:
    """Return the names that a module imports, for type checking or in functions too."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def test_imports_follow_the_layers() -> None:
    """pyproject.toml defines the contracts."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"[1-9]\d* kept, 0 broken", ended.stdout)


def test_no_module_imports_itself_through_others() -> None:
    modules = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in MODULES if path.name != "__init__.py"
    }
    graph = {module: imports(path) & modules.keys() - {module} for module, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these modules import each other: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_says_what_it_contains(package: Path) -> None:
    docstring = ast.get_docstring(tree(package / "__init__.py")) or ""
    assert len(docstring) > 60, f"the docstring of {name(package)}/__init__.py says too little"


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_has_few_modules(package: Path) -> None:
    modules = [path for path in package.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    assert len(modules) <= (MOST_SIBLINGS if str(package.relative_to(SOURCE)) in SIBLINGS else MOST_MODULES)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_has_a_docstring(path: Path) -> None:
    if path.name != "__main__.py":
        assert ast.get_docstring(tree(path)), f"{name(path)} has no docstring"


def test_exceptions_have_one_root() -> None:
    bases = defaultdict[str, set[str]](set)
    for _, node in classes():
        bases[node.name] |= {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
    rooted = {"MqlabError"}
    while more := {cls for cls, parents in bases.items() if parents & rooted} - rooted:
        rooted |= more
    exceptions = {
        cls
        for cls, parents in bases.items()
        if cls.endswith("Error") or any(parent.endswith(("Error", "Exception")) for parent in parents)
    }
    assert exceptions - rooted == set()


def test_a_class_name_means_one_thing() -> None:
    files = defaultdict[str, list[str]](list)
    for path, node in classes():
        files[node.name].append(name(path))
    repeated = {cls: paths for cls, paths in files.items() if len(paths) > 1}
    assert repeated.keys() == SAME_NAME
    assert {path for paths in repeated.values() for path in paths if not path.startswith("src/mqlab/client/")} == set()


def test_identifiers_use_the_words_of_the_glossary() -> None:
    found = {
        f"{name(path)}: {identifier}"
        for path in MODULES
        for node in ast.walk(tree(path))
        for field in ("id", "attr", "arg", "name")
        if isinstance(identifier := getattr(node, field, None), str)
        if BANNED & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", identifier)}
    }
    assert found == set()


def sentences(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a module, or a document."""
    if path.suffix == ".md":
        yield path.read_text()
        return
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    yield from re.findall(r"(?m)^\s*# (.*)$", path.read_text())


def test_sentences_name_the_component_that_acts() -> None:
    headless = [
        f"{name(path)}: {match.group().strip()}"
        for path in [*MODULES, *DOCUMENTS]
        for text in sentences(path)
        for match in HEADLESS.finditer(text)
    ]
    assert headless == []


def documented_tests() -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each test in the document about conformance; "" is all of a file."""
    for section in (ROOT / "docs" / "conformance.md").read_text().split("\n## ")[1:]:
        folder, path = re.findall("Paths are below `([^`]+)`", section)[0], ""
        for file, test in re.findall(r"`((?:[\w/]+\.py)?)((?:::\w+)*)`", section):
            if file:
                path = file if "/" in file else f"{folder}/{file}"
            if file or test:
                yield path, test.rpartition("::")[2]


def test_the_tests_of_the_document_about_conformance_exist() -> None:
    named = {*documented_tests()}
    assert len(named) > 100
    missing = [
        f"{path}::{test}"
        for path, test in sorted(named)
        if not (ROOT / path).is_file()
        or (test and not re.search(rf"(?:def|class) {test}\b", (ROOT / path).read_text()))
    ]
    assert missing == []


def test_lines_of_documents_are_short() -> None:
    """A row of a table is one line, and a URL cannot be wrapped."""
    wide = [
        f"{name(path)}:{number}"
        for path in DOCUMENTS
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > MOST_COLUMNS and not line.lstrip().startswith("|") and "://" not in line
    ]
    assert wide == []


def test_nothing_names_a_home_folder() -> None:
    """Such a path would work on one machine only, and tell whose it was."""
    home = re.compile(rb"(?<![\w.])/(?:home|Users|root|work)/[\w.-]+")
    found = [
        f"{name(path)}: {match.group().decode()}"
        for path in tracked()
        for match in home.finditer(path.read_bytes())
        if path != Path(__file__)
    ]
    assert found == []
