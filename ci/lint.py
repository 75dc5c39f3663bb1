#!/usr/bin/env python3
"""The lints that no tool has: ordering labels, sizes, words, prose, references, excerpts, layers.

ci/lint.py [ROOT]      lints the tracked files of the repository (or the folder ROOT)
ci/lint.py --planted   shows that each lint finds a planted fault, and only where there is one
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import imports

MAX_FILE = 800
MAX_FUNCTION = 60
MAX_WIDTH = 100
# How far above an atomic operation its comment may begin.
REACH = 6

# Which crates of the workspace each one may use: down only, and never a sibling.
LAYERS = {
    "umcg-context": set(),
    "umcg-core": {"umcg-context"},
    "umcg-memory": set(),
    # Its tests hook with it.
    "umcg-intercept": {"umcg-memory"},
    "umcg": {"umcg-core", "umcg-intercept"},
    "umcg-capi": {"umcg-core", "umcg"},
    "umcg-preload": {"umcg-core", "umcg-memory", "umcg"},
    "umcg-sim": {"umcg"},
    "umcg-benches": {"umcg", "umcg-sim"},
    "umcg-cli": {"umcg", "umcg-benches", "umcg-preload"},
}
# The crates that the lowest may use besides. Model checkers come in under their own cfg only.
LOW_MAY_USE = {
    "umcg-context": {"libc", "rustix", "cfg-if"},
    "umcg-core": {"libc", "rustix", "cfg-if"},
    "umcg-intercept": {"libc", "iced-x86"},
    "umcg-memory": set(),
}
LOW_MAY_BUILD_WITH = {"cc"}
MODEL_CFGS = {"cfg(loom)", "cfg(shuttle)"}

# Classes of one letter, so that this file does not contain what it looks for.
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])(/wor[k]/|/roo[t]/|/tm[p]/target|/hom[e]/\w)")
HOSTS = (
    r"(static|index)\.crate[s]\.io|de[b]\.debian\.org|py[p]i\.org|files\.python[h]osted\.org"
    r"|registry\.np[m]js\.org"
    r"|prox[y]\.golang\.org|repo1?\.mave[n]\.|static\.rus[t]-lang\.org"
)
HOST = re.compile(HOSTS)
STRONG = re.compile(r"\b(Acquire|Release|AcqRel|SeqCst)\b")
LABEL = re.compile(r"ORDERING\(([\w.-]+)\)")
PARTNER = re.compile(r"[\w-]+\.\d+")
FUNCTION = re.compile(
    r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:default |const |async |unsafe |extern \"[^\"]*\" )*fn (\w+)"
)
ASSEMBLY = re.compile(r'\s*".*",( //.*)?$')
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
# The beginning of a comment line; the first line of a block of code; the part of a line that cannot
# be broken.
PREFIX = re.compile(r"^\s*(?:///|//!|//|\*(?= )) ?")
FENCE = re.compile(r"\s*(?:```|~~~)")
TARGET = re.compile(r"\]\([^)]*\)|https?://\S+")
# A row of the table of rooms: crate, storey, modules.
ROOMS = "docs/ARCHITECTURE.md"
ROOM = re.compile(r"^\| ([\w-]+) \| (\d+) \| ((?:`[\w:]+`,? ?)+) \|", re.MULTILINE)
EXCERPT = re.compile(r"<!-- from (\S+) -->$")
COMMENT = re.compile(r"^//[/!] ?")
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"#+ +(.*)")
# Words in place of a subject. People may be who they are.
PROSE = re.compile(
    r"(?<!those )(?<!users )(?<!readers )\b"
    r"([Ww]ho|[Ww]hom|[Ww]hoever|(?:of|for|by|with|than) what|what is (?:there|left out))\b"
)
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"")
# The crates whose names the glossary keeps apart, its table of shared names, and a row of that.
NAMED = re.compile(r"(?:umcg-context|umcg-core|umcg|capi)/src/.*\.rs$")
GLOSSARY = "docs/GLOSSARY.md"
SHARED_NAMES = "## Names that several modules declare"
SHARED_NAME = re.compile(r"\| `(\w+)` \| *[^|\s][^|]*\|$")
# A type's declaration; the beginning of a block in which types are associated, or of tests.
TYPE = re.compile(
    r"(\s*)(?:pub(?:\([^)]*\))? )?(?:unsafe |auto )*(struct|enum|union|trait|type) (\w+)"
)
BLOCK = re.compile(r"(\s*)(?:pub(?:\([^)]*\))? )?(?:unsafe )?(impl|trait|mod tests)\b")
DOCUMENT = re.compile(r"\bdocs/[\w/.-]+\.md\b")


class Tree:
    """The files to lint, by their paths relative to the root."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.texts = {}
        for name in self.names():
            try:
                self.texts[name] = (self.root / name).read_text(encoding="utf-8")
            except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
                pass  # not text, or deleted and not yet committed

    def names(self):
        if not (self.root / ".git").exists():
            return sorted(
                str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
            )
        # New files too, though git does not know them yet.
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(
            command, cwd=self.root, check=True, capture_output=True, text=True
        )
        return [name for name in listed.stdout.split("\0") if name]

    def of(self, *endings):
        return (
            (name, text.splitlines()) for name, text in self.texts.items() if name.endswith(endings)
        )


def code(line):
    return line.split("//")[0]


def comments(lines):
    """Each comment as a whole: the number of its first line, that of its last, its text."""
    at = 0
    while at < len(lines):
        start = at
        parts = []
        while at < len(lines) and "//" in lines[at]:
            own_line = not code(lines[at]).strip()
            if parts and (not own_line or LABEL.search(lines[at])):
                break
            parts.append(lines[at].split("//", 1)[1].strip("/! "))
            at += 1
            if not own_line:
                break
        if parts:
            yield start, at - 1, " ".join(parts)
        else:
            at += 1


def orderings(tree):
    """Labels come in pairs that name each other; each operation stronger than Relaxed has one."""
    places, partners = {}, {}
    for name, lines in tree.of(".rs"):
        covered = set()
        for first, last, text in comments(lines):
            for label in LABEL.findall(text):
                places.setdefault(label, f"{name}:{first + 1}")
                after = text.partition(f"({label})")[2]
                named = PARTNER.findall(after.partition("with ")[2])
                partners.setdefault(label, set()).update(
                    [label] if re.search(r"with itself", after) else named
                )
                covered.update(range(first, last + REACH + 1))
        if "/tests/" in name or "/examples/" in name:
            continue
        for number, line in enumerate(lines):
            if line.strip() == "mod tests {":
                break
            if (
                re.match(r"\s*(pub(\([^)]*\))? )?use ", line)
                or re.match(r"\s*Ordering::\{", line)
                or "compiler_fence" in line
            ):
                continue
            if STRONG.search(code(line)) and number not in covered:
                where = f"{name}:{number + 1}"
                yield f"{where}: an ordering stronger than Relaxed without an ORDERING(label)"
    for label, place in places.items():
        if not partners[label]:
            yield f"{place}: ORDERING({label}) says nowhere what it pairs with"
        for partner in partners[label]:
            if partner not in places:
                yield f"{place}: ORDERING({label}) pairs with {partner}, which does not exist"
            elif label not in partners[partner]:
                yield f"{place}: ORDERING({label}) pairs with {partner}, which does not say so"


def sizes(tree):
    """No file over 800 lines, no function over 60."""
    for name, lines in tree.of(".rs", ".c", ".cc", ".h", ".py", ".sh", ".md"):
        if len(lines) > MAX_FILE:
            yield f"{name}: {len(lines)} lines, more than {MAX_FILE}"
    for name, lines in tree.of(".rs"):
        spans = [
            span
            for number, line in enumerate(lines)
            if (span := rust_function(lines, number, line))
        ]
        for first, last, function in spans:
            inner = {
                line for a, b, _ in spans if first < a and b <= last for line in range(a, b + 1)
            }
            # A line of inline assembly is a row of a table, and a function inside counts by itself.
            own = [
                at
                for at in range(first, last + 1)
                if at not in inner and not ASSEMBLY.match(lines[at])
            ]
            yield from too_long(name, first, len(own), function)
    for name, lines in tree.of(".c", ".cc"):
        for number, line in enumerate(lines):
            if line == "{" and "}" in lines[number:]:
                yield from too_long(
                    name, number, lines.index("}", number) - number + 1, lines[number - 1]
                )


def rust_function(lines, number, line):
    """The first and the last line of the function that begins here, and its name."""
    match = FUNCTION.match(line)
    if not match or line.rstrip().endswith((";", "}")):
        return None
    # rustfmt puts the last brace of a function below its first word.
    last = re.compile(re.escape(match[1]) + r"(\}|\).*;)$")
    end = next((at for at in range(number + 1, len(lines)) if last.match(lines[at])), number)
    return number, end, match[2]


def widths(tree):
    """No line over 100 columns, except in tables, blocks of code and for the target of a link."""
    kinds = (".rs", ".c", ".cc", ".h", ".py", ".sh", ".go", ".md", ".toml", ".1", ".3", ".7")
    for name, lines in tree.of(*kinds):
        is_prose, in_block = name.endswith(".md"), False
        for number, line in enumerate(lines):
            text = line if is_prose else PREFIX.sub("", line)
            if FENCE.match(text) and (is_prose or text != line):
                in_block = not in_block
            is_text = text != line or is_prose
            is_exempt = in_block or is_text and text.lstrip().startswith("|")
            is_exempt |= is_prose and line.startswith("    ")
            if len(line) > MAX_WIDTH and not is_exempt and len(TARGET.sub("", line)) > MAX_WIDTH:
                yield f"{name}:{number + 1}: {len(line)} columns, more than {MAX_WIDTH}"
            if not is_prose and text == line:
                in_block = False


def too_long(name, first, length, function):
    if length > MAX_FUNCTION:
        yield f"{name}:{first + 1}: {function} has {length} lines, more than {MAX_FUNCTION}"


def words(tree):
    """Nothing unfinished, no path of some machine, no package registry's host."""
    for name, text in tree.texts.items():
        for number, line in enumerate(text.splitlines()):
            for pattern, what in (
                (UNFINISHED, "unfinished"),
                (MACHINE_PATH, "a machine's path"),
                (HOST, "a registry's host"),
            ):
                match = pattern.search(line)
                if match:
                    yield f"{name}:{number + 1}: {what}: {match[0]}"


def references(tree):
    """The targets that documents and comments point to exist."""
    for name, lines in tree.of(".md"):
        for number, line in enumerate(lines):
            for target in LINK.findall(line):
                if "://" not in target and not (tree.root / name).parent.joinpath(target).exists():
                    yield f"{name}:{number + 1}: no such file: {target}"
    for name, lines in tree.of(".rs", ".c", ".h", ".sh", ".md"):
        for number, line in enumerate(lines):
            for target in DOCUMENT.findall(line):
                if (
                    not (tree.root / target).exists()
                    and not (tree.root / name).parent.joinpath(target).exists()
                ):
                    yield f"{name}:{number + 1}: no such document: {target}"


def anchors(tree):
    """The headings that documents point to exist."""

    def slugs(text):
        return {
            re.sub(r"[^\w\- ]", "", heading[1].lower()).strip().replace(" ", "-")
            for heading in map(HEADING.match, text.splitlines())
            if heading
        }

    for name, lines in tree.of(".md"):
        for number, line in enumerate(lines):
            for target, anchor in ANCHOR.findall(line):
                path = str(pathlib.PurePath(name).parent / target) if target else name
                path = os.path.normpath(path)
                if path in tree.texts and anchor not in slugs(tree.texts[path]):
                    yield f"{name}:{number + 1}: no such heading: {target}#{anchor}"


def prose(tree):
    """Comments and documents name their subjects."""
    for name, lines in tree.of(".rs", ".c", ".cc", ".h", ".md", ".3", ".toml"):
        in_block = False
        for number, line in enumerate(lines):
            if FENCE.match(line):
                in_block = not in_block
            if name.endswith((".md", ".3")):
                text = "" if in_block else line
            elif name.endswith(".toml"):
                text = line.removeprefix("what = ") if line.startswith("what = ") else ""
                text = text.strip('"')
            else:
                is_block = line.lstrip().startswith(("/*", "* "))
                text = line if is_block else "".join(line.split("//", 1)[1:])
            match = PROSE.search(QUOTED.sub("", text))
            if match:
                yield f"{name}:{number + 1}: name the subject in place of `{match[0]}`"


def declared(lines):
    """The types that a file declares, but the associated ones, and those of its tests."""
    names, outer, kind = set(), None, None
    for line in lines:
        if outer is not None and line.startswith(outer + "}"):
            outer = None
        elif match := TYPE.match(line):
            within = "" if outer is None else outer + "    "
            is_associated = match[2] == "type" and outer is not None and match[1] == within
            if not is_associated and (outer is None or kind != "mod tests"):
                names.add(match[3])
        match = BLOCK.match(line)
        if match and outer is None and not line.endswith(("}", ";")):
            outer, kind = match[1], match[2]
    return names


def glossary(tree):
    """A name of a type that several modules declare has one meaning, and the glossary says it."""
    files = {}
    for name, lines in tree.of(".rs"):
        for declares in declared(lines) if NAMED.match(name) else ():
            files.setdefault(declares, []).append(name)
    _, _, table = tree.texts.get(GLOSSARY, "").partition(f"{SHARED_NAMES}\n")
    rows = table.partition("\n## ")[0].splitlines()
    shared = [row[1] for row in map(SHARED_NAME.match, rows) if row]
    for name, where in sorted(files.items()):
        if len(where) > 1 and name not in shared:
            yield (
                f"{where[0]}: `{name}` is also declared in {', '.join(where[1:])}: give one of them"
                f" another name, or {GLOSSARY} the meaning that they share"
            )
    for name in shared:
        if len(files.get(name, ())) < 2:
            yield f"{GLOSSARY}: not several modules declare `{name}`"
        elif shared.count(name) > 1:
            yield f"{GLOSSARY}: `{name}` has several rows"


def excerpts(tree):
    """A program in a document that says where it comes from is there, word for word."""
    for name, lines in tree.of(".md"):
        for number, line in enumerate(lines):
            match = EXCERPT.match(line)
            if not match:
                continue
            first = number + 2
            last = next(
                (at for at in range(first, len(lines)) if lines[at].startswith("```")), first
            )
            source = [COMMENT.sub("", text) for text in tree.texts.get(match[1], "").splitlines()]
            wanted = lines[first:last]
            if not wanted or not any(
                source[at : at + len(wanted)] == wanted for at in range(len(source))
            ):
                yield f"{name}:{number + 1}: not word for word in {match[1]}"


def layers(tree):
    """Dependencies point down only, and the lowest crates use few others."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    found = subprocess.run(command, cwd=tree.root, check=True, capture_output=True, text=True)
    packages = json.loads(found.stdout)["packages"]
    own = {package["name"] for package in packages}
    for package in packages:
        name = package["name"]
        if name not in LAYERS:
            yield f"{name}: a new crate: say in ci/lint.py which others it may use"
            continue
        for dependency in package["dependencies"]:
            other, kind = dependency["name"], dependency["kind"]
            if other in own and other not in LAYERS[name]:
                yield f"{name} depends on {other}, which is not below it"
            elif (
                other not in own
                and name in LOW_MAY_USE
                and not low_may_use(name, other, kind, dependency["target"])
            ):
                allowed = ", ".join(sorted(LOW_MAY_USE[name]))
                yield f"{name} depends on {other}, and may use only {allowed}"


def storeys(tree):
    """Of each crate in the table of rooms: the storeys of its rooms, by their modules' paths."""
    crates = {}
    for crate, storey, names in ROOM.findall(tree.texts.get(ROOMS, "")):
        for name in re.findall(r"`([\w:]+)`", names):
            crates.setdefault(crate, {})[tuple(name.split("::"))] = int(storey)
    return crates


def rooms(tree):
    """Within a crate, too, imports point down only: by the table of rooms in ARCHITECTURE.md."""
    for crate, storey in storeys(tree).items():

        def room_of(module):
            starts = (module[:n] for n in range(len(module), 0, -1))
            return next((start for start in starts if start in storey), None)

        modules = imports.Crate(tree.texts, f"{crate}/src")
        for module, file in modules.files.items():
            room = room_of(module)
            if module and not room:
                yield f"{file}: `{'::'.join(module)}` has no place in the table of rooms of {ROOMS}"
            for other, path in modules.imports(module).items() if module else ():
                above = room_of(other)
                is_within = not room or (above or other)[: len(room)] == room
                if other and not is_within and storey.get(above, 0) >= storey[room]:
                    names = "::".join(above or other), "::".join(room)
                    yield f"{file}: {path} is of `{names[0]}`, which is not below `{names[1]}`"


def circles(tree):
    """Of the modules of a room two may know each other; no more import each other in a circle."""
    for crate in storeys(tree):
        for circle in imports.Crate(tree.texts, f"{crate}/src").circles():
            if len(circle) > 2:
                names = ", ".join("::".join(module) for module in circle)
                yield f"{crate}/src: a circle of imports: {names}"


def low_may_use(name, other, kind, target):
    if kind == "dev" or target in MODEL_CFGS:
        return True
    return other in (LOW_MAY_BUILD_WITH if kind == "build" else LOW_MAY_USE[name])


LINTS = (
    orderings,
    sizes,
    widths,
    words,
    references,
    anchors,
    prose,
    glossary,
    excerpts,
    layers,
    rooms,
    circles,
)


def lint(root, lints=LINTS):
    tree = Tree(root)
    return [complaint for check in lints for complaint in check(tree)]


def crate(name, *dependencies):
    lines = [f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]']
    return "\n".join(lines + list(dependencies))


def workspace(**crates):
    members = ", ".join(f'"{folder}"' for folder in crates)
    files = {"Cargo.toml": f'[workspace]\nresolver = "3"\nmembers = [{members}]\n'}
    for folder, manifest in crates.items():
        files |= {f"{folder}/Cargo.toml": manifest, f"{folder}/src/lib.rs": ""}
    return files


LONG = "    work();\n" * (MAX_FUNCTION + 1)
FIRST = "// ORDERING(a.1): Release, pairs with a.2.\nx.store(1, Release);\n"
PAIR = FIRST + "// ORDERING(a.2): Acquire, pairs with a.1.\nx.load(Acquire);\n"
EXAMPLE = "<!-- from a.rs -->\n```rust\nlet x = 1;\n\nf(x);\n```\n"
UPWARDS = workspace(low=crate("umcg-core", 'umcg = { path = "../high" }'), high=crate("umcg"))
DOWNWARDS = workspace(low=crate("umcg-core"), high=crate("umcg", 'umcg-core = { path = "../low" }'))
FAT = workspace(low=crate("umcg-context", 'serde = "1"'))
DECODER = 'iced-x86 = "1"'
BESIDE = workspace(a=crate("umcg-core"), b=crate("umcg-intercept", 'umcg-core = { path = "../a" }'))

TABLE = "| low | 1 | `b`, `c` | |\n| low | 0 | `a` | |\n"
HOUSE = {
    ROOMS: TABLE,
    "low/src/lib.rs": "mod a;\nmod b;\nmod c;\npub use b::f;\n",
    "low/src/a.rs": "pub fn g() {}\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n",
    "low/src/b.rs": "use crate::a::{self, g};\npub fn f() { a::g() }\n",
    "low/src/c.rs": "",
}
NESTED = {
    ROOMS: "| low | 1 | `a`, `a::y` | |\n| low | 0 | `a::x` | |\n",
    "low/src/lib.rs": "mod a;\n",
    "low/src/a/mod.rs": "mod x;\nmod y;\npub use y::g;\n",
    "low/src/a/x.rs": "pub fn f() {}\n",
    "low/src/a/y.rs": "use super::x::f;\npub fn g() {\n    f()\n}\n",
}


def circle(*modules):
    """A room whose modules import each other, one the next."""
    pairs = zip(modules, modules[1:] + modules[:1])
    files = {f"low/src/{here}.rs": f"use crate::{there}::go;\n" for here, there in pairs}
    rows = {ROOMS: "".join(f"| low | 0 | `{module}` | |\n" for module in modules)}
    return rows | files | {"low/src/lib.rs": "".join(f"mod {module};\n" for module in modules)}


# A module and those within it count as one.
CHILDREN = circle("f", "g") | {
    "low/src/f.rs": "mod h;\nuse crate::g::go;\n",
    "low/src/f/h.rs": "use super::go;\n",
}

ONE = "pub struct Pool {\n    len: usize,\n}\n"
TWO = {"umcg-core/src/a.rs": ONE, "umcg/src/b/mod.rs": "enum Pool {}\n"}
MEANING = {GLOSSARY: f"{SHARED_NAMES}\n\n| name | meaning |\n|---|---|\n| `Pool` | Things. |\n"}
# Twins in one file, an associated type, a type of tests: none of them is a second declaration.
NOT_SHARED = {
    "umcg-core/src/a.rs": f"#[cfg(a)]\n{ONE}#[cfg(not(a))]\n{ONE}",
    "umcg-core/src/b.rs": "impl A for B\nwhere\n    B: C,\n{\n    type Pool = B;\n}\n",
    "umcg-core/src/c.rs": f"#[cfg(test)]\nmod tests {{\n    {ONE}\n}}\nstruct D;\n",
    "umcg-core/tests/d.rs": ONE,
}

# The lint, the contents of the tree, and the lint's complaint about it: None where there is no
# fault.
PLANTED = [
    (orderings, {"src/a.rs": PAIR}, None),
    (
        orderings,
        {"src/a.rs": "// ORDERING(a.1): Release, pairs with a.2.\nx.store(1, Release);\n"},
        "does not exist",
    ),
    (orderings, {"src/a.rs": PAIR.replace("with a.1", "with a.2")}, "does not say so"),
    (orderings, {"src/a.rs": "// ORDERING(a.1): Release.\nx.store(1, Release);\n"}, "says nowhere"),
    (orderings, {"src/a.rs": "x.store(1, Release);\n"}, "without an ORDERING"),
    (sizes, {"a.rs": "fn short() {\n    work();\n}\n" * 200}, None),
    (sizes, {"a.rs": "// line\n" * (MAX_FILE + 1)}, f"more than {MAX_FILE}"),
    (
        sizes,
        {
            "a.rs": "impl A {\n    pub(crate) const unsafe fn long(\n        x: u8,\n    ) {\n"
            + LONG
            + "    }\n}\n"
        },
        "long has",
    ),
    (sizes, {"a.c": "static int long_one(void)\n{\n" + LONG + "}\n"}, "long_one"),
    (widths, {"a.rs": "    let x = f(" + 90 * "x" + ");\n"}, "more than 100"),
    (widths, {"a.rs": "    // " + 33 * "word " + "\n"}, "more than 100"),
    (widths, {"a.md": 33 * "word " + "\n"}, "more than 100"),
    (widths, {"a.rs": "//! ```text\n//! " + 100 * "-" + "\n//! ```\nfn f() {}\n"}, None),
    (widths, {"a.md": "| " + 33 * "word " + "|\n\n[" + 90 * "x" + "](a/long/target.md)\n"}, None),
    (words, {"a.md": "see /usr/lib, https://example.org/work/, mktemp -t XXXXXX\n"}, None),
    (words, {"a.rs": "// TO" + "DO: later\n"}, "unfinished"),
    (words, {"a.sh": "cd /wor" + "k/main\n"}, "path"),
    (words, {"a.toml": "index = 'https://index.crates" + ".io'\n"}, "host"),
    (references, {"a.md": "[b](b.md#part), [c](https://example.org)\n", "b.md": ""}, None),
    (references, {"a.md": "[b](b.md)\n"}, "no such file"),
    (references, {"src/a.rs": "//! See `docs/" + "b.md`.\n"}, "no such document"),
    (anchors, {"a.md": "# One part\n\n[a](#one-part), [b](b.md#two)\n", "b.md": "## Two\n"}, None),
    (anchors, {"a.md": "# One\n\n[a](#two)\n"}, "no such heading"),
    (anchors, {"a.md": "[b](b.md#one)\n", "b.md": "# Two\n"}, "no such heading"),
    (prose, {"a.rs": "let who = 1; // a worker whose name is `who`\n"}, None),
    (prose, {"a.rs": "// For who waits.\n"}, "name the subject"),
    (prose, {"a.md": "Whoever waits.\n"}, "name the subject"),
    (prose, {"a.h": "/* A list\n * of what was sent. */\n"}, "name the subject"),
    (prose, {"a.toml": 'what = "a wakeup for who waits"\n'}, "name the subject"),
    (glossary, TWO | MEANING, None),
    (glossary, NOT_SHARED, None),
    (glossary, TWO, "is also declared in umcg/src/b/mod.rs"),
    (glossary, TWO | {GLOSSARY: "| `Pool` | Things. |\n"}, "is also declared"),
    (glossary, TWO | {GLOSSARY: MEANING[GLOSSARY].replace("Things. ", "")}, "is also declared"),
    (glossary, TWO | {"umcg/src/b/mod.rs": "trait A {\n    type Pool;\n}\n"} | MEANING, "not sev"),
    (glossary, NOT_SHARED | MEANING, "not several modules"),
    (glossary, NOT_SHARED | {"capi/src/c.rs": "mod m {\n    type Pool = A;\n}\n"}, "is also"),
    (
        excerpts,
        {"a.md": EXAMPLE, "a.rs": "//! ```\n//! let x = 1;\n//!\n//! f(x);\n//! ```\n"},
        None,
    ),
    (
        excerpts,
        {"a.md": EXAMPLE, "a.rs": "//! ```\n//! let x = 2;\n//!\n//! f(x);\n//! ```\n"},
        "not word for word",
    ),
    (excerpts, {"a.md": EXAMPLE}, "not word for word"),
    (layers, DOWNWARDS, None),
    (layers, UPWARDS, "not below it"),
    (layers, FAT, "may use only"),
    (layers, workspace(engine=crate("umcg-intercept", DECODER)), None),
    (layers, workspace(low=crate("umcg-core", DECODER)), "may use only"),
    (layers, BESIDE, "not below it"),
    (layers, workspace(new=crate("umcg-new")), "a new crate"),
    (rooms, HOUSE, None),
    (rooms, HOUSE | {"low/src/a.rs": "fn g() {\n    crate::b::f()\n}\n"}, "not below `a`"),
    (rooms, HOUSE | {"low/src/a.rs": "use crate::f;\n"}, "not below `a`"),
    (rooms, HOUSE | {"low/src/c.rs": "use super::b;\n"}, "not below `c`"),
    (rooms, HOUSE | {ROOMS: TABLE.replace("`b`, ", "")}, "no place"),
    (rooms, NESTED, None),
    (rooms, NESTED | {"low/src/a/x.rs": "use super::y::g;\n"}, "not below `a::x`"),
    (circles, HOUSE, None),
    (circles, circle("f", "g"), None),
    (circles, circle("f", "g", "h"), "a circle of imports: f, g, h"),
    (circles, CHILDREN, None),
]


def show_planted():
    for check, files, expected in PLANTED:
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            found = lint(root, [check])
        if expected is None and found:
            sys.exit(f"lint.py: {check.__name__} sees a fault where there is none: {found}")
        if expected and not any(expected in complaint for complaint in found):
            sys.exit(
                f"lint.py: {check.__name__} does not see a planted fault ({expected}): {found}"
            )
    print(f"lint.py: all {len(PLANTED)} samples judged rightly")


def main(arguments):
    if arguments == ["--planted"]:
        return show_planted()
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    complaints = lint(root)
    print("\n".join(complaints) or "lint.py: nothing to complain of")
    sys.exit(1 if complaints else 0)


main(sys.argv[1:])
