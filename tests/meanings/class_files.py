"""Files of class names, in the forms that people write."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.meanings.meaning import Meaning, Role

# Names of files, their first line, and the line of each class.
_LINES = (
    ("classes.txt labels.txt class_names.txt classes.names", "", "{name}\n"),
    ("classes.txt labels.txt", "# the classes, in the order of their numbers\n", "{name}\n"),
    ("classes.txt labels.txt", "", "{n} {name}\n"),
    ("labels.txt label_map.txt", "", "{n}:{name}\n"),
    ("classes.yaml names.yml", "names:\n", "  {n}: {json}\n"),
    ("classes.csv class_list.csv", "id,name\n", "{n},{name}\n"),
    ("classes.csv", "name,id\n", "{name},{n}\n"),
    ("label_map.pbtxt", "", "item {{\n  id: {n}\n  name: {json}\n}}\n"),
)


def add_class_file(draft: Meaning, texts: Mapping[str, str], *, share: float = 0) -> None:
    """Adds a file that says the name of each number; a share of the inputs name it."""
    names = list(texts.values())
    quoted = [(n, name, json.dumps(name, ensure_ascii=False)) for n, name in texts.items()]
    forms = [
        ("classes.json class_names.json names.json", json.dumps(names)),
        ("id2label.json class_names.json", json.dumps(texts, indent=1)),
        ("class_indices.json label2id.json classes.json", json.dumps({name: int(n) for n, name in texts.items()})),
        ("data.yaml classes.yaml", f"nc: {len(names)}\nnames: {json.dumps(names, ensure_ascii=False)}\n"),
    ]
    is_plain = not any(set(name) & set(",:#'\"\\") for name in names)
    for several, first, line in _LINES:
        if (is_plain or "csv" not in several) and ("0" not in texts or "pbtxt" not in several):
            lines = [line.format(n=n, name=name, json=text) for n, name, text in quoted]
            forms.append((several, first + "".join(lines)))
    several, content = draft.chance.choice(forms)
    name = draft.chance.choice(several.split())
    draft.files[name] = content.encode()
    draft.roles.append(Role("names", (name,)))
    draft.kinds.append(f"names:{name}")
    if draft.chance.random() < share:
        draft.settings["class_names"] = f"{{root}}/{name}"
        draft.kinds.append("names:stated")
