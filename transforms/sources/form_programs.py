"""Programs of a few lines that make images and tables of other forms; a shell runs each as `python3 -c`.

In all of them `p` is the path of the file. They write a folder or a file beside it whose name begins with `p`.
"""

from __future__ import annotations

# {load} gives name -> array, as the source `numpy` pairs them.
SAVE_ARRAYS = (
    "import sys, numpy; p = sys.argv[1]; {load}; "
    'numpy.savez(p + ".npz", **{{n: a[:] for n, a in d.items() if hasattr(a, "shape")}})'
)
TORCH = 'import torch; d = dict(zip("xy", map(numpy.asarray, torch.load(p)[:2])))'
HDF5 = "import h5py; d = h5py.File(p)"
LMDB = (
    'import os, sys; p = sys.argv[1]; o = p + ".images"; os.makedirs(o, exist_ok=True); '
    'import lmdb; [open(f"{o}/{i}", "wb").write(v) '
    "for i, (k, v) in enumerate(lmdb.open(p, readonly=True, subdir=False).begin().cursor())]"
)
LINES = 'import json, sys; print(*map(json.dumps, json.load(open(sys.argv[1]))), sep="\\n")'
ITEMS = (
    'import json, sys; [print(json.dumps({"image": k, "label": v})) for k, v in json.load(open(sys.argv[1])).items()]'
)
FRAME = 'import sys, pandas; p = sys.argv[1]; pandas.read_{}(p).to_csv(p + ".csv", index=False)'
# Arguments: table, column, delimiter, method of str, and pairs of a pattern and what takes its place.
REWRITE = (
    "import csv, functools, re, sys; p, c, d, m, *s = sys.argv[1:]; "
    "f = lambda x: getattr(functools.reduce(lambda x, i: re.sub(s[i], s[i + 1], x), range(0, len(s), 2), x), m)(); "
    'r = csv.DictReader(open(p, newline=""), delimiter=d); '
    'w = csv.DictWriter(open(p + ".csv", "w", newline=""), r.fieldnames, delimiter=d); w.writeheader(); '
    "w.writerows({**row, c: f(row[c])} for row in r)"
)
