"""Files of class names, in the forms that people write."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from tests.meanings.drafts import Draft


def add_class_file(draft: Draft, texts: Mapping[str, str], *, folder: str = "") -> str:
    """Adds a file that says the name of each class; returns its name.

    Args:
      draft: the input.
      texts: number -> name, in their order.
      folder: folder of the file, with a slash at its end; or "".
    """
    form, name, data = _draw_class_file(draft.chance, texts)
    draft.files[f"{folder}{name}"] = data
    draft.kinds.append(f"names:{form}")
    return name


def may_state(draft: Draft, name: str, share: float) -> bool:
    """Sets `class_names` to a file in this share of the inputs; returns whether it did."""
    if draft.chance.random() >= share:
        return False
    draft.settings["class_names"] = f"{{root}}/{name}"
    draft.kinds.append("names:stated")
    return True


def _draw_class_file(chance: random.Random, texts: Mapping[str, str]) -> tuple[str, str, bytes]:
    """Returns form, name and content of a file of class names."""
    numbers, names = list(texts), list(texts.values())
    plain = not any(set(name) & set(",:#'\"\\") for name in names)
    forms = {
        "lines": (("classes.txt", "labels.txt", "class_names.txt", "classes.names"), "\n".join(names) + "\n"),
        "comments": (
            ("classes.txt", "labels.txt"),
            "# the classes, in the order of their numbers\n" + "\n".join(names) + "\n",
        ),
        "numbered": (("classes.txt", "labels.txt"), "".join(f"{n} {name}\n" for n, name in texts.items())),
        "colon": (("labels.txt", "label_map.txt"), "".join(f"{n}:{name}\n" for n, name in texts.items())),
        "list": (
            ("classes.json", "class_names.json", "names.json"),
            json.dumps(names, indent=chance.choice((None, 2))),
        ),
        "by_number": (("id2label.json", "class_names.json", "labels.json"), json.dumps(texts, indent=1)),
        "by_name": (
            ("class_indices.json", "label2id.json", "classes.json"),
            json.dumps({name: int(n) for n, name in texts.items()}, indent=1),
        ),
        "yaml_list": (
            ("data.yaml", "classes.yaml"),
            f"nc: {len(names)}\nnames: {json.dumps(names, ensure_ascii=False)}\n",
        ),
        "yaml_dict": (
            ("classes.yaml", "names.yml"),
            "names:\n" + "".join(f"  {n}: {json.dumps(name, ensure_ascii=False)}\n" for n, name in texts.items()),
        ),
    }
    if all(n != "0" for n in numbers):
        items = "".join(f"item {{\n  id: {n}\n  name: {json.dumps(name)}\n}}\n" for n, name in texts.items())
        forms["pbtxt"] = (("label_map.pbtxt",), items)
    if plain:
        forms["csv"] = (
            ("classes.csv", "class_list.csv"),
            "id,name\n" + "".join(f"{n},{name}\n" for n, name in texts.items()),
        )
        forms["csv_name"] = (("classes.csv",), "name,id\n" + "".join(f"{name},{n}\n" for n, name in texts.items()))
    form = chance.choice(list(forms))
    file_names, content = forms[form]
    return form, chance.choice(file_names), content.encode()
