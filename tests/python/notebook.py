"""Runs the code cells of a notebook in one namespace, in order, as Jupyter does: notebook.py FILE. The file must be one without
outputs, so that a change of it is a change of its cells."""
import json
import sys


def code_of(path):
    with open(path, encoding="utf-8") as f:
        notebook = json.load(f)
    assert notebook["nbformat"] == 4, "another format"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids)), "two cells have one id"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None, f"cell {cell['id']} has outputs"
            yield cell["id"], "".join(cell["source"])


def main(path):
    cells = list(code_of(path))
    assert cells, "no cell has code"
    namespace = {"__name__": "__main__"}
    for name, source in cells:
        print(f"-- {name}", flush=True)
        exec(compile(source, f"{path}: {name}", "exec"), namespace)
    return namespace


if __name__ == "__main__":
    main(sys.argv[1])
