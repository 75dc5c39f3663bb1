"""The imports between the modules of a Rust crate, for the lint of rooms (ci/lint.py).

They are read from the text: `use` trees and paths that begin with `crate`, `self`, `super` or with
an imported name, each followed through re-exports to the module that has the item. Tests within a
file do not count.
"""

import re

TEST_MODULE = re.compile(
    r"#\[cfg\((?:all\()?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod \w+\s*\{"
)
VISIBILITY = re.compile(r"\bpub\(in [^)]*\)")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:$])(\w+(?:::\w+)+)")
MODULE = re.compile(r"(?:#\[path = \"([^\"]*)\"\]\s*)?(?:pub(?:\([^)]*\))?\s+)?\bmod\s+(\w+)\s*;")
ITEM = r"\b(?:struct|enum|union|trait|fn|const|static|type|macro_rules!)\s+(?:mut\s+)?{}\b"


def code_of(text):
    """Without comments, the contents of strings (but of attributes), and tests."""
    text = re.sub(r"//[^\n]*", "", text)
    text = VISIBILITY.sub("pub", text)
    text = re.sub(r'(?<!path = )"(?:\\.|[^"\\])*"', '""', text)
    while match := TEST_MODULE.search(text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        text = text[: match.start()] + text[at:]
    return text


def leaves(tree, prefix=()):
    """Each path of a `use` tree, and the name that it has from there on."""
    tree = tree.strip()
    at = tree.find("{")
    if at < 0:
        path, _, alias = tree.partition(" as ")
        path = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
        path = path[:-1] if path[-1] == "self" and len(path) > 1 else path
        yield path, alias.strip() or path[-1]
        return
    head = tuple(part.strip() for part in tree[:at].split("::") if part.strip())
    depth, start = 0, at + 1
    for index in range(at + 1, len(tree)):
        last = depth == 0 and tree[index] == "}"
        if depth == 0 and tree[index] in ",}":
            if tree[start:index].strip():
                yield from leaves(tree[start:index], prefix + head)
            start = index + 1
        if last:
            return
        depth += {"{": 1, "}": -1}.get(tree[index], 0)


class Crate:
    """The modules of a crate by their paths, and which of them each one imports."""

    def __init__(self, texts, root):
        self.texts, self.files, self.code = texts, {}, {}
        self.load((), f"{root}/lib.rs", root)
        self.names = {module: self.names_in(module) for module in self.code}

    def load(self, module, file, folder):
        if file not in self.texts:
            return
        self.files[module], self.code[module] = file, code_of(self.texts[file])
        for path, name in MODULE.findall(self.code[module]):
            beside = f"{folder}/{name}.rs"
            nested = f"{folder}/{name}/mod.rs"
            here = f"{file.rpartition('/')[0]}/{path}" if path else None
            self.load(
                module + (name,),
                here or (beside if beside in self.texts else nested),
                f"{folder}/{name}",
            )

    def names_in(self, module):
        names = {}
        for tree in USE.findall(self.code[module]):
            for path, name in leaves(tree):
                names.setdefault(name, []).append(path)
        return names

    def absolute(self, module, path):
        """A path from the crate's root; None if it leads elsewhere."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module + path
        return module + path if module + path[:1] in self.code else None

    def home(self, path, seen=()):
        """The module that has the item an absolute path names."""
        depth = next(n for n in range(len(path), -1, -1) if path[:n] in self.code)
        module = path[:depth]
        if depth == len(path) or path in seen:
            return module
        if re.search(ITEM.format(re.escape(path[depth])), self.code[module]):
            return module
        for origin in self.names[module].get(path[depth], []):
            origin = self.absolute(module, origin)
            if origin is not None:
                return self.home(origin, seen + (path,))
        return module

    def imports(self, module):
        """The modules that this one names, each with a path by which it does."""
        found = {}
        paths = {path for tree in USE.findall(self.code[module]) for path, _ in leaves(tree)}
        for text in PATH.findall(USE.sub("", self.code[module])):
            path = tuple(text.split("::"))
            paths.add(path)
            paths.update(origin + path[1:] for origin in self.names[module].get(path[0], []))
        for path in sorted(paths):
            full = self.absolute(module, path)
            if full is not None:
                found.setdefault(self.home(full), "::".join(path))
        return found

    def circles(self):
        """The sets of modules that import each other in a circle; that a module and one within it
        do is no circle."""
        edges = {
            module: [
                other
                for other in self.imports(module)
                if other and other[: len(module)] != module and module[: len(other)] != other
            ]
            for module in self.code
            if module
        }
        # Tarjan's algorithm: the strongly connected components.
        numbers, lowest, stack, found = {}, {}, [], []

        def visit(module):
            numbers[module] = lowest[module] = len(numbers)
            stack.append(module)
            for other in edges[module]:
                if other not in numbers:
                    visit(other)
                    lowest[module] = min(lowest[module], lowest[other])
                elif other in stack:
                    lowest[module] = min(lowest[module], numbers[other])
            if lowest[module] == numbers[module]:
                at = stack.index(module)
                found.append(sorted(stack[at:]))
                del stack[at:]

        for module in edges:
            if module not in numbers:
                visit(module)
        return sorted(circle for circle in found if len(circle) > 1)
