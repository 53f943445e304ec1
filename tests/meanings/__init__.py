"""Small inputs that are made with a meaning, and an oracle that judges what the program makes of each.

    python -m tests.meanings --seed 1 --count 5000 [--form csv]

`draws` draws an input with a seed: files, and the meaning that their maker has in mind. `rows` and `folders` write what
people write by hand; `written` has `tests.writers` write annotations, arrays and the like. `program` converts the input
in this process. `oracle` compares the records, the notes and the offers with the meaning. An outcome is

- read: each record means what the input means, and every recognisable role that is not stored is named;
- asked: the request was refused, and each offer gives what it says;
- refused: the same without readings;
- stopped: nothing would be published, because samples without a value were rejected;
- wrong: anything else without an error;
- crash: any other exception.
"""
