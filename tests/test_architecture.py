"""Which module may import which. The tables at the top are the architecture; below them is how they are held to.

Imports are read from the source, wherever they stand: at the top of a module, in a function, or for type checkers only.
"""

from __future__ import annotations

import ast
import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = "twisted.plugins.bussrv_plugins"

Table = Mapping[str, tuple[str, ...]]

BASE = ("bussrv.version", "bussrv.errors", "bussrv.values", "bussrv.service_patterns", "bussrv.events")

# From low to high. A module imports from its own layer and from those below. A package stands for everything in it.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        *BASE,
        *(f"bussrv.{name}" for name in ("addresses", "counts", "patterns", "turns")),
        *("bussrv._speedups", "bussrv.compiled"),
        *("bussrv.terminal", "bussrv.toml_lines", "bussrv.transparency"),
    ),
    ("bussrv.options", "bussrv.settings"),
    ("bussrv.wire", "bussrv.journal"),
    ("bussrv.incidents",),
    ("bussrv.spool",),
    ("bussrv.registry",),
    ("bussrv.policy",),
    ("bussrv.memory",),
    ("bussrv.bus",),
    ("bussrv.interfaces",),
    ("bussrv.net",),
    # What authors of plugins import: it has names of all layers below, and formats and services are plugins.
    ("bussrv.contract", "bussrv.plugin"),
    ("bussrv.formats", "bussrv.services"),
    # Decisions of the past are made again by a bus, in the forms of the wire formats.
    ("bussrv.why", "bussrv.witness"),
    ("bussrv.server", "bussrv.admin"),
    (PLUGIN,),
)

# In one layer, yet none of them imports another.
STRANGERS: tuple[tuple[str, ...], ...] = (("bussrv.wire", "bussrv.journal"), ("bussrv.formats", "bussrv.services"))

# Beside the layers: no layer imports these, and they import of bussrv only themselves and what is named here.
BESIDE: Table = {
    "bussrv.client": (
        *("bussrv.errors", "bussrv.values", "bussrv.service_patterns", "bussrv.wire"),
        *("bussrv.addresses", "bussrv.profiles"),
    ),
    "bussrv.profiles": ("bussrv.errors", "bussrv.addresses", "bussrv.toml_lines", "bussrv.journal.regular"),
    "bussrv.audit": (
        *BASE,
        *(f"bussrv.journal.{name}" for name in ("bounded", "bounds", "chain", "digests", "evidence", "header")),
        *(f"bussrv.journal.{name}" for name in ("checkpoints", "keys", "manifest", "others", "record_tree")),
        *(f"bussrv.journal.{name}" for name in ("manifest_file", "moments", "reading", "record", "regular", "scan")),
        *(f"bussrv.journal.{name}" for name in ("segment", "versions")),
        # The form of a checkpoint.
        "bussrv.transparency.checkpoints",
        # What a running server judges, too.
        "bussrv.incidents",
        # The form of a pseudonym.
        "bussrv.journal.pseudonyms",
        "bussrv.registry.state.fold",
        # What a person calls a session.
        "bussrv.registry.state.naming",
    ),
    "bussrv.archive": (*BASE, "bussrv.turns.clock", "bussrv.journal", "bussrv.registry.state.fold"),
    "bussrv.inspection": (
        *BASE,
        "bussrv.archive",
        *("bussrv.terminal", "bussrv.turns.clock", "bussrv.journal", "bussrv.spool", "bussrv.registry"),
        "bussrv.transparency",
        # The address of a peer.
        "bussrv.incidents.vocabulary",
    ),
    "bussrv.synth": (
        *BASE,
        *("bussrv.counts.throttle", "bussrv.turns.clock", "bussrv.journal", "bussrv.registry", "bussrv.settings"),
    ),
    "bussrv.starter": (
        *BASE,
        "bussrv.journal.keys",
        *("bussrv.policy.logins.tokens", "bussrv.policy.logins.users"),
        "bussrv.server.configuration.option_texts",
    ),
    "bussrv.uplink": (
        *BASE,
        *("bussrv.addresses", "bussrv.counts.throttle", "bussrv.terminal", "bussrv.client", "bussrv.wire"),
        *(f"bussrv.journal.{name}" for name in ("bounds", "evidence", "manifest", "reading", "record", "regular")),
        "bussrv.journal.segment",
        # To its server, an uplink is a linked server: it knows what these tell each other.
        *("bussrv.bus.interest.vocabulary", "bussrv.bus.links.advertisement_fields", "bussrv.bus.links.paths"),
        *("bussrv.bus.links.interest_fields", "bussrv.settings"),
        *("bussrv.bus.services.bridge", "bussrv.registry.state.session"),
    ),
    "bussrv.cli": ("bussrv",),
    "bussrv.embedding": ("bussrv", PLUGIN),
    "bussrv.testing": ("bussrv",),
}

# Of other packages, beside the standard library, these import only what is named here, save for type checkers.
THIRD_PARTIES: Table = {
    "bussrv.version": (),
    "bussrv.errors": (),
    "bussrv.turns.clock": (),
    "bussrv.transparency": ("cryptography", "msgspec"),
    "bussrv.interfaces": ("zope",),
    "bussrv.client": ("msgspec", "wsproto"),
    "bussrv.uplink.kafka": ("aiokafka", "msgspec", "prometheus_client"),
    "bussrv.uplink.nats": ("msgspec", "nats"),
    "bussrv.uplink.crossing": ("msgspec",),
    "bussrv.uplink": ("prometheus_client",),
    "bussrv.testing.server": (),
    "bussrv.audit.fold": ("msgspec", "numpy", "pyarrow"),
    "bussrv.audit": (
        *("click", "duckdb", "pyspark", "grpc", "jinja2", "markupsafe", "msgspec", "numpy", "pyarrow", "tqdm"),
    ),
    PLUGIN: ("twisted", "zope"),
}

# Outside functions these import, beside the standard library, only what is named here: the command must answer without
# Spark, and every `twistd` run loads the plugin file.
LIGHT: Table = {
    # Imported when there is a terminal.
    "bussrv.cli.show.screen": ("bussrv.cli", "bussrv.registry.state.naming", "rich"),
    # Imported when a command asks the admin interface.
    "bussrv.cli.admin_client": ("bussrv.client.tls", "bussrv.errors"),
    # Imported when it measures.
    "bussrv.cli.traffic.measuring": ("bussrv.client",),
    "bussrv.cli": (
        *("bussrv.version", "bussrv.errors", "bussrv.terminal", "bussrv.audit.arguments", "click"),
        # What a person calls a session.
        "bussrv.registry.state.naming",
    ),
    # Its other names are imported with the first that is asked for.
    "bussrv.plugin": (
        "bussrv.interfaces",
        *("twisted.cred.strcred", "twisted.plugin", "twisted.python.reflect", "zope.interface"),
    ),
    PLUGIN: ("bussrv.plugin", "bussrv.interfaces", "twisted.application.service", "twisted.plugin", "zope.interface"),
}

# Spark's executors, scripts and integrators' programs use these: not even what they import imports Twisted.
NO_TWISTED: tuple[str, ...] = (
    "bussrv.errors",
    "bussrv.values",
    "bussrv.events",
    "bussrv.interfaces",
    "bussrv.transparency",
    "bussrv.wire",
    "bussrv.registry.state.state",
    "bussrv.registry.state.snapshot",
    "bussrv.journal.record",
    "bussrv.journal.evidence",
    "bussrv.journal.segment",
    "bussrv.journal.reading",
    "bussrv.journal.recovery",
    "bussrv.journal.salvage",
    "bussrv.journal.keys",
    "bussrv.journal.manifest",
    "bussrv.journal.verify",
    "bussrv.journal.pseudonyms",
    "bussrv.journal.pseudonym_keys",
    "bussrv.spool.forgetting",
    "bussrv.archive",
    "bussrv.incidents",
    "bussrv.inspection",
    "bussrv.client",
    "bussrv.audit",
    "bussrv.uplink",
)

MOST_LINES = 600

MOST_POSITIONAL = 7

MOST_DEEP = 3
"""Classes of a connection, from the base of all stream formats down."""

MOST_FILES = 16
WAREHOUSES = ("bussrv.journal",)
"""One room holds everything that writes, reads and judges a journal."""

MOST_LETTERS = 60
"""How long the name of a test may be: it is a sentence, not a story."""


# Reading the source.
@dataclass(frozen=True)
class Import:
    """``place`` is ``module`` (runs when the module is imported), ``function`` or ``typing`` (never runs)."""

    target: str
    line: int
    place: str


@dataclass(frozen=True)
class Module:
    name: str
    is_package: bool
    source: str
    syntax: ast.Module
    imports: tuple[Import, ...]


Tree = Mapping[str, Module]
Rule = Callable[[Tree], Iterator[str]]


@dataclass
class ImportReader(ast.NodeVisitor):
    """Collects what a module imports. ``names`` are the modules there are, to tell a module from what stands in one."""

    module: str
    is_package: bool
    names: frozenset[str]
    place: str = "module"
    found: list[Import] = field(default_factory=list)

    def add(self, target: str, node: ast.stmt | ast.expr) -> None:
        self.found.append(Import(target, node.lineno, self.place))

    def visit_at(self, place: str, nodes: list[ast.stmt]) -> None:
        outer, self.place = self.place, place if self.place == "module" else self.place
        for node in nodes:
            self.visit(node)
        self.place = outer

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self.module.split(".")
            package = parts[: len(parts) - node.level + self.is_package]
            base = ".".join([*package, base] if base else package)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            self.add(inner if inner in self.names else base, node)

    def visit_Call(self, node: ast.Call) -> None:
        """``import_module("…")`` and Twisted's ``namedAny("…")`` are imports as well."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__", "namedAny", "namedModule"} and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.add(name.value, node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_at("function", node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast calls it by that name

    def visit_If(self, node: ast.If) -> None:
        for_typing = "TYPE_CHECKING" in ast.unparse(node.test)
        self.visit_at("typing" if for_typing else self.place, node.body)
        self.visit_at(self.place, node.orelse)


def read(sources: Mapping[str, str]) -> dict[str, Module]:
    """``sources`` maps file names, relative to the root, to what is in the files."""
    tree = {}
    names = {file: file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in sources}
    for file, source in sources.items():
        is_package = file.endswith("__init__.py")
        reader = ImportReader(names[file], is_package, frozenset(names.values()))
        syntax = ast.parse(source, file)
        reader.visit(syntax)
        tree[names[file]] = Module(names[file], is_package, source, syntax, tuple(reader.found))
    return tree


@cache
def read_project() -> dict[str, Module]:
    """All modules. There are millions of parts of syntax, which stay: to look for garbage among them takes longer than
    to read them."""
    files = [*(ROOT / "bussrv").rglob("*.py"), *(ROOT / "twisted").rglob("*.py")]
    gc.disable()
    try:
        return read({file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in sorted(files)})
    finally:
        gc.freeze()
        gc.enable()


def within(name: str, packages: str | tuple[str, ...]) -> bool:
    each = (packages,) if isinstance(packages, str) else packages
    return any(name == package or name.startswith(f"{package}.") for package in each)


def layer_of(name: str) -> int | None:
    return next((height for height, layer in enumerate(LAYERS) if within(name, layer)), None)


def ours(name: str) -> bool:
    return within(name, ("bussrv", PLUGIN))


def standard(name: str) -> bool:
    return name.split(".")[0] in sys.stdlib_module_names


# The rules: each takes the tree and yields what breaks it.
def every_module_has_a_place(tree: Tree) -> Iterator[str]:
    for name in tree:
        if name != "bussrv" and layer_of(name) is None and not within(name, tuple(BESIDE)):
            yield f"{name} stands neither in LAYERS nor in BESIDE"


def imports_never_go_up(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        height = layer_of(module.name)
        if height is None:
            continue
        for each in module.imports:
            if not ours(each.target) or each.target == "bussrv":
                continue
            target = layer_of(each.target)
            if target is None or target > height:
                yield f"{module.name}:{each.line} imports {each.target}, which is not below it"


def imports_under(tree: Tree, table: Table) -> Iterator[tuple[Module, Import, str]]:
    """Every import of the modules that ``table`` has an entry for, with that entry."""
    for module in tree.values():
        entry = next((package for package in table if within(module.name, package)), None)
        if entry is not None:
            yield from ((module, each, entry) for each in module.imports)


def strangers_stay_strangers(tree: Tree) -> Iterator[str]:
    strangers = {package: tuple({*group} - {package}) for group in STRANGERS for package in group}
    for module, each, entry in imports_under(tree, strangers):
        if within(each.target, strangers[entry]):
            yield f"{module.name}:{each.line} imports {each.target}"


def those_beside_import_little(tree: Tree) -> Iterator[str]:
    for module, each, entry in imports_under(tree, BESIDE):
        if ours(each.target) and not within(each.target, (entry, *BESIDE[entry])):
            yield f"{module.name}:{each.line} imports {each.target}"


def third_parties_are_few(tree: Tree) -> Iterator[str]:
    for module, each, entry in imports_under(tree, THIRD_PARTIES):
        foreign = each.place != "typing" and not ours(each.target) and not standard(each.target)
        if foreign and not within(each.target, THIRD_PARTIES[entry]):
            yield f"{module.name}:{each.line} imports {each.target}"


def light_modules_import_lazily(tree: Tree) -> Iterator[str]:
    for module, each, entry in imports_under(tree, LIGHT):
        if each.place == "module" and not standard(each.target) and not within(each.target, (entry, *LIGHT[entry])):
            yield f"{module.name}:{each.line} imports {each.target} outside a function"


def some_never_reach_twisted(tree: Tree) -> Iterator[str]:
    for name in tree:
        if not within(name, NO_TWISTED):
            continue
        paths: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        while paths:
            path = paths.pop()
            for each in tree[path[-1]].imports:
                if each.place == "typing" or each.target in seen:
                    continue
                seen.add(each.target)
                if within(each.target, "twisted"):
                    yield " -> ".join((*path, each.target))
                elif each.target in tree:
                    paths.append((*path, each.target))


def imports_make_no_circle(tree: Tree) -> Iterator[str]:
    try:
        graph = {name: {each.target for each in module.imports} & tree.keys() for name, module in tree.items()}
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " <- ".join(error.args[1])


def modules_are_short(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        lines = len(module.source.splitlines())
        if lines > MOST_LINES:
            yield f"{module.name} has {lines} lines"


_DOLLAR = re.compile(r"(?<!\\)\$(?=[)|]|\Z)")


def patterns_end_with_their_text(tree: Tree) -> Iterator[str]:
    """``$`` matches before a last line end, too."""
    for module in tree.values():
        for node in ast.walk(module.syntax) if "$" in module.source else ():
            if not isinstance(node, ast.Call) or "MULTILINE" in ast.unparse(node):
                continue
            given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "pattern")]
            is_pattern = ast.unparse(node.func).startswith("re.") or len(given) > len(node.args[:1])
            parts = [each for value in given if is_pattern for each in ast.walk(value)]
            texts = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if any(map(_DOLLAR.search, texts)):
                yield f"{module.name}:{node.lineno} has a pattern with $ in it: write \\Z"


def packages_hold_no_code(tree: Tree) -> Iterator[str]:
    for module in tree.values():
        if not module.is_package:
            continue
        body = module.syntax.body
        if not ast.get_docstring(ast.Module(body, [])):
            yield f"{module.name} has no docstring"
        for node in body[1:]:
            if not (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"):
                yield f"{module.name}:{node.lineno} is more than a docstring and __all__"


def inside(tree: Tree, package: str) -> list[str]:
    """The names of the modules and packages that are directly in a package."""
    return [name for name in tree if name.rpartition(".")[0] == package]


def rooms_say_what_is_in_them(tree: Tree) -> Iterator[str]:
    """The docstring of a package is its map: a line for each of its modules and packages."""
    for name, module in tree.items():
        if module.is_package:
            there = sorted(each.rpartition(".")[2] for each in inside(tree, name))
            listed = re.findall(r"^- ``(\w+)``: ", module.source, re.MULTILINE)
            if len(there) > 1 and sorted(listed) != there:
                wrong = ", ".join(sorted({*there} ^ {*listed})) or "one twice"
                yield f"{name} does not list what is in it: {wrong}"


def rooms_are_no_warehouses(tree: Tree) -> Iterator[str]:
    for name, module in tree.items():
        files = [each for each in inside(tree, name) if not tree[each].is_package]
        if module.is_package and name not in WAREHOUSES and len(files) >= MOST_FILES:
            yield f"{name} has {len(files) + 1} files side by side"


def calls_can_be_read(tree: Tree) -> Iterator[str]:
    """Nobody knows what the eighth argument of a call is."""
    for module in tree.values():
        for node in ast.walk(module.syntax):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                positional = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
                if len(positional) - (positional[:1] in (["self"], ["cls"])) > MOST_POSITIONAL:
                    yield f"{module.name}:{node.lineno} has {len(positional)} positional parameters"


Class = tuple[str, str]
"""A module, and the name of a class in it."""


def classes(tree: Tree) -> dict[Class, tuple[ast.ClassDef, list[Class]]]:
    """The classes of connections and wire formats, and the bases of each that are among them."""
    found = {}
    for module in tree.values():
        if within(module.name, ("bussrv.net", "bussrv.formats")):
            imported = {
                alias.asname or alias.name: (node.module or "", alias.name)
                for node in ast.walk(module.syntax)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for node in module.syntax.body:
                if isinstance(node, ast.ClassDef):
                    names = [each.id for each in node.bases if isinstance(each, ast.Name)]
                    found[module.name, node.name] = node, [imported.get(name, (module.name, name)) for name in names]
    return {key: (node, [base for base in bases if base in found]) for key, (node, bases) in found.items()}


def private_names(node: ast.ClassDef, *, made_here: bool) -> Iterator[str]:
    """The private names that a class gives to something.

    :param made_here: otherwise those of what it uses of itself, too.
    """
    for each in ast.walk(node):
        name = ""
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = each.name
        elif isinstance(each, ast.Attribute) and not (made_here and isinstance(each.ctx, ast.Load)):
            name = each.attr if ast.unparse(each.value) in ("self", "super()") else ""
        elif isinstance(each, (ast.Assign, ast.AnnAssign)) and each in node.body:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            name = next((target.id for target in targets if isinstance(target, ast.Name)), "")
        if name.startswith("_") and not name.endswith("__"):
            yield name


def subclasses_leave_private_names_alone(tree: Tree) -> Iterator[str]:
    """What subclasses need of a base is public, or passed."""
    known = classes(tree)
    for (module, name), (node, bases) in known.items():
        ancestors = list(bases)
        for each in ancestors:
            ancestors += known[each][1]
        taken = {private for each in ancestors for private in private_names(known[each][0], made_here=True)}
        for private in sorted(taken.intersection(private_names(node, made_here=False))):
            yield f"{module}: {name} touches {private} of a base"


def the_plugin_directory_is_no_package(tree: Tree) -> Iterator[str]:
    for name, module in tree.items():
        if within(name, "twisted") and (module.is_package or name != PLUGIN):
            yield f"{name} would overwrite a part of Twisted"


RULES: tuple[Rule, ...] = (
    every_module_has_a_place,
    imports_never_go_up,
    strangers_stay_strangers,
    those_beside_import_little,
    third_parties_are_few,
    light_modules_import_lazily,
    some_never_reach_twisted,
    imports_make_no_circle,
    modules_are_short,
    patterns_end_with_their_text,
    packages_hold_no_code,
    rooms_say_what_is_in_them,
    rooms_are_no_warehouses,
    calls_can_be_read,
    subclasses_leave_private_names_alone,
    the_plugin_directory_is_no_package,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps(rule: Rule) -> None:
    assert list(rule(read_project())) == []


def test_connections_are_at_most_three_classes_deep() -> None:
    names = [name for name in read_project() if within(name, ("bussrv.net", "bussrv.formats"))]
    found = [each for name in names for each in vars(import_module(name)).values() if isinstance(each, type)]
    deep = [[base.__name__ for base in each.__mro__ if base.__module__.startswith("bussrv.")] for each in found]
    assert [bases for bases in deep if len(bases) > MOST_DEEP] == []
    assert max(map(len, deep)) == MOST_DEEP


@pytest.mark.processes
def test_what_must_not_load_twisted_does_not() -> None:
    names = [name for name in read_project() if within(name, NO_TWISTED)]
    assert loaded_twisted(names) == []


@pytest.mark.processes
def test_the_check_of_what_is_loaded_can_fail() -> None:
    assert "twisted.internet.defer" in loaded_twisted(["bussrv.registry.changes.registry"])


def loaded_twisted(names: list[str]) -> list[str]:
    """What of Twisted a fresh interpreter has loaded after it imported ``names``."""
    program = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(json.dumps([each for each in sys.modules if each.split('.')[0] == 'twisted']))"
    )
    command = [sys.executable, "-c", program, *names]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    loaded: list[str] = json.loads(answer)
    return loaded


def test_what_must_not_import_twisted_is_there() -> None:
    assert set(NO_TWISTED) <= read_project().keys()


def test_names_of_tests_are_short() -> None:
    found = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
    paths = [path for place in ("tests", "bench/tests") for path in (ROOT / place).rglob("*.py")]
    names = [(str(path), name) for path in paths for name in found.findall(path.read_text())]
    assert len(names) > 1000
    assert [each for each in names if len(each[1]) > MOST_LETTERS] == []


# Every rule finds what breaks it.
SOUND = {
    "bussrv/__init__.py": '"""D.\n\n- ``values``: V.\n- ``wire``: W.\n"""',
    "bussrv/values.py": "import msgspec\nre.compile(r'a\\$', re.VERBOSE)\nre.compile('a$', re.MULTILINE)",
    "bussrv/wire/__init__.py": '"""D.\n\n- ``objects``: O.\n- ``spp``: S.\n"""\n__all__ = ["objects"]',
    "bussrv/wire/objects.py": "from bussrv.values import x\nfrom . import spp",
    "bussrv/wire/spp.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from twisted.internet import defer",
    "bussrv/journal/writer.py": "from twisted.internet import defer",
    "bussrv/net/base.py": "class Base:\n def __init__(self): self._x = 1",
    "bussrv/formats/b.py": "from bussrv.net.base import Base\nclass Leaf(Base):\n def f(self): self._y = self.x",
    "bussrv/cli/main.py": "import sys\ndef main():\n    from bussrv.audit import job",
    "bussrv/audit/job.py": "import pyspark",
    "twisted/plugins/bussrv_plugins.py": "from bussrv.plugin import WireFormat",
    **{f"bussrv/bus/full/file_{number}.py": "" for number in range(MOST_FILES)},
}

BROKEN = [
    (every_module_has_a_place, "bussrv/utils.py", "", "bussrv.utils stands neither"),
    (imports_never_go_up, "bussrv/values.py", "from bussrv.wire import spp", "values:1 imports bussrv.wire.spp"),
    (
        imports_never_go_up,
        "bussrv/bus/a.py",
        "def f():\n import bussrv.formats.spp.protocol",
        "a:2 imports bussrv.formats.spp.protocol",
    ),
    (imports_never_go_up, "bussrv/bus/a.py", "from ..server import b", "a:1 imports bussrv.server"),
    (
        imports_never_go_up,
        "bussrv/bus/a.py",
        "import_module('bussrv.formats.spp.protocol')",
        "a:1 imports bussrv.formats.spp.protocol",
    ),
    (imports_never_go_up, "bussrv/server/a.py", "from bussrv.cli import main", "a:1 imports bussrv.cli.main"),
    (strangers_stay_strangers, "bussrv/journal/a.py", "from bussrv import wire", "a:1 imports bussrv.wire"),
    (those_beside_import_little, "bussrv/audit/a.py", "import bussrv.journal.writer", "a:1 imports bussrv.journal.wr"),
    (those_beside_import_little, "bussrv/client/a.py", "from bussrv.bus import bus", "a:1 imports bussrv.bus"),
    (third_parties_are_few, "bussrv/audit/a.py", "def f():\n    import pandas", "a:2 imports pandas"),
    (light_modules_import_lazily, "bussrv/cli/a.py", "try:\n import bussrv.audit\nfinally:\n f()", "bussrv.audit outs"),
    (light_modules_import_lazily, "twisted/plugins/bussrv_plugins.py", "import bussrv.bus", "bussrv.bus outside"),
    (some_never_reach_twisted, "bussrv/wire/spp.py", "def f():\n    import twisted", "bussrv.wire.spp -> twisted"),
    (some_never_reach_twisted, "bussrv/values.py", "import bussrv.journal.writer", "writer -> twisted.internet"),
    (imports_make_no_circle, "bussrv/wire/spp.py", "def f():\n    from . import objects", "bussrv.wire.objects <- "),
    (modules_are_short, "bussrv/a.py", "\n" * (MOST_LINES + 1), "bussrv.a has 601 lines"),
    (patterns_end_with_their_text, "bussrv/a.py", "import re\nre.compile('x$')", "bussrv.a:2 has a pattern"),
    (patterns_end_with_their_text, "bussrv/a.py", "Meta(pattern=f'^{x}$')", "bussrv.a:1 has a pattern"),
    (packages_hold_no_code, "bussrv/bus/__init__.py", '"""D."""\nfrom bussrv import values', "bussrv.bus:2 is more"),
    (packages_hold_no_code, "bussrv/bus/__init__.py", "", "bussrv.bus has no docstring"),
    (rooms_say_what_is_in_them, "bussrv/wire/inbus.py", "", "bussrv.wire does not list what is in it: inbus"),
    (rooms_are_no_warehouses, "bussrv/bus/full/__init__.py", '"""D."""', "bussrv.bus.full has 17 files side by side"),
    (calls_can_be_read, "bussrv/bus/a.py", "def f(a, b, c, d, e, f, g, h):\n    pass", "a:1 has 8 positional"),
    (
        subclasses_leave_private_names_alone,
        "bussrv/formats/a.py",
        "from bussrv.net.base import Base\nclass Middle(Base): pass\nclass Leaf(Middle):\n def f(self): self._x()",
        "bussrv.formats.a: Leaf touches _x of a base",
    ),
    (
        subclasses_leave_private_names_alone,
        "bussrv/formats/a.py",
        "from bussrv.net.base import Base as B\nclass Leaf(B):\n def _x(self): pass",
        "bussrv.formats.a: Leaf touches _x of a base",
    ),
    (the_plugin_directory_is_no_package, "twisted/plugins/__init__.py", "", "twisted.plugins would overwrite"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_tree_keeps(rule: Rule) -> None:
    assert list(rule(read(SOUND))) == []


@pytest.mark.parametrize(("rule", "file", "source", "said"), BROKEN)
def test_a_broken_tree_does_not_keep(rule: Rule, file: str, source: str, said: str) -> None:
    assert any(said in problem for problem in rule(read({**SOUND, file: source})))


def test_every_rule_is_tried_on_a_broken_tree() -> None:
    assert {rule for rule, *_ in BROKEN} == set(RULES)
