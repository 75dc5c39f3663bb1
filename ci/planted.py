#!/usr/bin/env python3
"""Plants bugs in a copy of the sources, for the jobs that first show that they find some.

    ci/planted.py list TABLE             a line for each bug of the table: its fields, by tabs
    ci/planted.py plant TABLE NUMBER     plants that bug in the current folder, a copy
    ci/planted.py restore TABLE NUMBER ROOT    takes the file as it is in ROOT again
    ci/planted.py check                  shows that each bug of each table can be planted

A table is a file of TOML: rooms, which say where the bugs that follow are planted and what is to
find them, and their bugs.

    [[room]]
    source = "umcg/src/rt/wait/park.rs"  the file that is changed
    checker, package, tests              for the job, as its script says

    [[room.bug]]
    what = "an unpark that is lost"      what `list` says of it
    edits = [{ within = "fn unpark", old = "a(b)", new = "c" }]

An edit replaces `old` by `new` wherever it occurs: in the whole file, or in each item whose first
line has `within`. White space and a comma before a closing bracket make no difference, so that a
table outlives a change of format; `...` stands for anything, as short as can be. Every edit has to
change something.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = re.compile(r"\.\.\.|\w+|[^\w\s]|\s+")
FIELDS = ("checker", "package", "source", "tests", "what")


class Fault(Exception):
    """A table or a source that does not fit."""


def bugs(table):
    """The bugs of a table, each with the fields of its room."""
    try:
        import tomllib
    except ImportError:
        sys.exit("planted.py: needs Python 3.11 or later, which reads TOML")
    with open(table, "rb") as file:
        rooms = tomllib.load(file)["room"]
    return [{**room, **bug} for room in rooms for bug in room["bug"]]


def pattern(text):
    """Finds the text, however it is formatted."""
    parts = []
    last_word = gap = False
    for token in TOKEN.findall(text.strip()):
        if token.isspace():
            gap = True
            continue
        is_word = token[0].isalnum() or token[0] == "_"
        if parts:
            parts.append(r"\s+" if gap and last_word and is_word else r"\s*")
        if token in ")]}":
            parts.append(r",?\s*")
        parts.append(r"[\s\S]*?" if token == "..." else re.escape(token))
        last_word, gap = is_word, False
    return re.compile("".join(parts))


def scopes(text, within):
    """Where an edit may be: from and to."""
    if within is None:
        return [(0, len(text))]
    found = []
    for match in pattern(within).finditer(text):
        line = text.rfind("\n", 0, match.start()) + 1
        indent = re.match(r"[ \t]*", text[line:])[0]
        end = re.compile(rf"^{indent}\}}", re.MULTILINE).search(text, match.end())
        found.append((line, end.end() if end else len(text)))
    return found


def changed(text, edit):
    """The text after an edit."""
    old, new = pattern(edit["old"]), edit["new"]
    times = 0
    for start, end in reversed(scopes(text, edit.get("within"))):
        part, count = old.subn(lambda _: new, text[start:end])
        text = text[:start] + part + text[end:]
        times += count
    if times == 0:
        raise Fault(f"the sources have changed, so this bug was not planted: {edit['old']}")
    return text


def planted(text, bug):
    for edit in bug["edits"]:
        text = changed(text, edit)
    return text


def plant(table, number):
    bug = bugs(table)[int(number)]
    path = pathlib.Path(bug["source"])
    path.write_text(planted(path.read_text(encoding="utf-8"), bug), encoding="utf-8")


def restore(table, number, root):
    source = bugs(table)[int(number)]["source"]
    text = pathlib.Path(root, source).read_text(encoding="utf-8")
    pathlib.Path(source).write_text(text, encoding="utf-8")


def show(table):
    for bug in bugs(table):
        print("\t".join(str(bug.get(field) or "-") for field in FIELDS))


# An edit, a text, and the edited text: None where the edit is not to be found.
SAMPLES = [
    ({"old": "f(a, b)", "new": "g()"}, "x = f(\n    a,\n    b,\n);", "x = g();"),
    ({"old": "let a = ...;", "new": ""}, "let a = b(c)\n    .d(); e();", " e();"),
    ({"old": "if a {", "new": "if b {"}, "ifa {", None),
    ({"within": "fn g", "old": "a", "new": "b"}, "fn f() {\n    a\n}\nfn h() {}\n", None),
    (
        {"within": "fn g", "old": "a();", "new": "b();"},
        "fn f() {\n    a();\n}\nfn g() {\n    a();\n}\nfn h() {\n    a();\n}\n",
        "fn f() {\n    a();\n}\nfn g() {\n    b();\n}\nfn h() {\n    a();\n}\n",
    ),
]


def show_samples():
    """That edits are found wherever they are, and nowhere else."""
    for edit, text, expected in SAMPLES:
        try:
            found = changed(text, edit)
        except Fault:
            found = None
        if found != expected:
            sys.exit(f"planted.py: {edit} makes {found!r} of {text!r}")


def check():
    show_samples()
    faults = 0
    for table in sorted((HERE / "planted").glob("*.toml")):
        for bug in bugs(table):
            try:
                planted((HERE.parent / bug["source"]).read_text(encoding="utf-8"), bug)
            except (Fault, OSError) as fault:
                print(f"{table.name}: {bug['what']}: {fault}")
                faults += 1
    sys.exit(1 if faults else 0)


def main(arguments):
    commands = {"list": show, "plant": plant, "restore": restore, "check": check}
    try:
        commands[arguments[0]](*arguments[1:])
    except (IndexError, KeyError, TypeError):
        sys.exit(__doc__)
    except (Fault, OSError) as fault:
        sys.exit(f"planted.py: {fault}")


if __name__ == "__main__":
    main(sys.argv[1:])
