"""Files as a careless disk or a malicious sender leaves them, and what a command makes of one."""

import contextlib
import io
import json
import struct
import sys
import warnings
import zipfile

import numpy as np
from hypothesis import strategies as st

ODD_TEXTS = [
    *(
        "",
        "\0",
        "\ufeff",
        '"',
        '"a',
        "x" * 200_000,
        "nan",
        "-inf",
        "1e999",
        "1e-999",
        "0x10",
        "1_0",
        "\u0663",
    ),
    *("-1", "-0", "1e99999999999", "1/0", "9" * 5000, "../../x", "a\rb", "\x1b[2J", ";", "'", "true", "None"),
]
ODD_VALUES = [
    *(None, True, -1, 0, 1e308, 2**80, float("nan"), float("inf"), "x", "", [], {}, [[]], [None], {"a": 1}),
    *({"$array": "../../x"}, {"$array": 3}, {"$result": "Popen", "fields": {}}, {"$dict": 3}, {"$tuple": 1}),
    *({"$dict": [[{"$tuple": [[1]]}, 2]]}, {"$frozenset": [[]]}, {"$result": []}, "9" * 5000, ["a", ["b"]]),
]
ODD_NAMES = ["../../x", "/abs/x", "x\0y", "", ".npy", "..", "a" * 300, "x\ny", "\x1b[2J", "C:\\x"]
ODD_DTYPES = [
    *(
        "|O",
        "<c16",
        "<U3",
        "|S4",
        "<f2",
        ">f8",
        "<f4",
        "|b1",
        "<i8",
        ">u2",
        "<M8[s]",
        "<m8[D]",
        "|V8",
        "<f16",
    ),
    *("|S0", "<U0", "|V0", "nonsense", [("a", "<f8"), ("b", "|O")], [("a", "<i4")], ("<f8", (1000,))),
]
ODD_SHAPES = [
    *((), (0,), (10**12,), (-1,), (-2, -2), (1,) * 40, (1,) * 70, (2**63,), (10**30,), (True,), (0, 10**12)),
    *(3, None, "x", ("a",), (1.5,)),
]


def npy(shape, descr="<f8", body=b"", version=(1, 0), order=False):
    """Bytes of an npy file with any header at all."""
    head = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}\n".encode()
    return (
        b"\x93NUMPY"
        + bytes(version)
        + struct.pack("<H" if version[0] == 1 else "<I", len(head))
        + head
        + body
    )


def archive(members, kind=zipfile.ZIP_DEFLATED):
    """Bytes of a zip file with these (name, content), names as they are and twice where they come twice."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", kind) as made:
        warnings.simplefilter("ignore")  # that a name comes twice
        for name, content in members:
            info = zipfile.ZipInfo("placeholder")
            info.filename = name  # the constructor would mend it
            info.compress_type = kind
            made.writestr(info, content)
    return stream.getvalue()


def unzip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as stored:
        return [(name, stored.read(name)) for name in stored.namelist()]


def bomb(size):
    """An archive with an array of zeros, whose header is true, of so many bytes."""
    body = zipfile.ZipFile(stream := io.BytesIO(), "w", zipfile.ZIP_DEFLATED, compresslevel=9)
    with body, body.open("scores.npy", "w", force_zip64=True) as member:
        member.write(npy((size // 8,)))
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return stream.getvalue()


@st.composite
def damaged(draw, content):
    """Bytes with a piece cut off, changed, doubled or put in."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["cut", "flip", "zero", "insert", "double", "drop"]))
        if kind == "cut":
            del data[at:]
        elif kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "zero":
            data[at : at + 8] = bytes(len(data[at : at + 8]))
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=20))
        elif kind == "double":
            data += data[:at]
        else:
            del data[at : at + draw(st.integers(1, 20))]
    return bytes(data)


@st.composite
def odd_text(draw, content, separators=",\n"):
    """A text table with cells replaced, in other encodings, with lines of another kind."""
    text = content.decode()
    for _ in range(draw(st.integers(1, 2))):
        ends = [i for i, c in enumerate(text) if c in separators] or [0]
        at = draw(st.sampled_from(ends))
        start = max(text.rfind(c, 0, at) for c in separators) + 1
        text = text[:start] + draw(st.sampled_from(ODD_TEXTS)) + text[at:]
    kind = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1", "wide", "cr"]))
    if kind == "wide":
        return (text + "," * 100_000 + "\n").encode()
    if kind == "cr":
        return text.replace("\n", "\r").encode()
    return ("é" * (kind == "latin-1") + text).encode(kind, "replace")


@st.composite
def odd_value(draw, value):
    """A JSON value of which one part is something else."""
    if isinstance(value, (dict, list)) and value and draw(st.integers(0, 4)):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        copy = value.copy()
        if draw(st.integers(0, 6)):
            copy[key] = draw(odd_value(value[key]))
        else:
            del copy[key]
        return copy
    return draw(st.sampled_from(ODD_VALUES))


@st.composite
def odd_json(draw, content):
    kind = draw(st.sampled_from(["value", "value", "value", "deep", "twice", "digits"]))
    value = json.dumps(draw(odd_value(json.loads(content)))).encode()
    if kind == "deep":
        return b'{"scores":' * 3000 + b"[" * 100_000
    if kind == "digits":
        return value.replace(b"1", b"1" * 5000)
    return value * (1 + (kind == "twice"))


@st.composite
def odd_npy(draw, content):
    """An npy file with another header."""
    array = np.load(io.BytesIO(content))
    shape = draw(st.sampled_from([array.shape, array.shape[::-1], *ODD_SHAPES]))
    descr = draw(st.sampled_from([array.dtype.str, *ODD_DTYPES]))
    version = draw(st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 0)]))
    body = draw(
        st.sampled_from([array.tobytes(), array.tobytes()[:8], b"", array.tobytes() * 2, b"\xff" * 64])
    )
    if draw(st.booleans()):  # a true header of another type
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            dtype = np.dtype(descr)
            body = (body * 99)[: dtype.itemsize * array.size]
            shape = array.shape
    return npy(shape, descr, body, version, draw(st.sampled_from([False, True, 3])))


@st.composite
def odd_npz(draw, content):
    """An archive with members renamed, doubled, taken out, replaced, or packed in another way."""
    members = unzip(content)
    at = draw(st.integers(0, len(members) - 1))
    name, body = members[at]
    kind = draw(
        st.sampled_from(["rename", "double", "drop", "array", "array", "array", "nest", "add", "tree"])
    )
    if kind == "rename":
        members[at] = (draw(st.sampled_from(ODD_NAMES)), body)
    elif kind == "double":
        members.append((name.removesuffix(".npy") if draw(st.booleans()) else name, body))
    elif kind == "drop":
        del members[at]
    elif kind == "array":
        members[at] = (name, draw(odd_npy(body)))
    elif kind == "nest":
        members[at] = (name, content)
    elif kind == "add":
        members.append((draw(st.sampled_from(ODD_NAMES)), b"plain"))
    else:  # the JSON of a saved result, or whatever else is text
        text = np.load(io.BytesIO(body))
        if text.dtype.kind == "U" and text.ndim == 0 and str(text).startswith("{"):
            tree = draw(odd_json(str(text).encode()))
            np.save(stream := io.BytesIO(), np.array(tree.decode()))
            members[at] = (name, stream.getvalue())
        else:
            np.save(
                stream := io.BytesIO(), np.full(text.shape, draw(st.sampled_from([np.nan, 1e308, -1, 7])))
            )
            members[at] = (name, stream.getvalue())
    pack = draw(
        st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    )
    return archive(members, pack)


def hostile(name, content):
    """Strategy of damaged twins of a valid file, by its ending."""
    suffix = name.rpartition(".")[2]
    special = {"npz": odd_npz, "npy": odd_npy, "json": odd_json}.get(suffix)
    if special is None:
        special = odd_text if suffix != "mtx" else lambda text: odd_text(text, " \n")
    if suffix == "parquet":
        return damaged(content)
    return st.one_of(special(content), special(content), damaged(content))


def call(words, stdin=b""):
    """Exit code, stdout and stderr of the command line in this process."""
    from porism.cli import main

    out, err, old = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(word) for word in words])
    finally:
        sys.stdin = old
    return code, out.getvalue(), err.getvalue()


def verb(words):
    return " ".join(["porism", *words[: 2 if words[0] == "route" else 1]])


def check(words, code, out, err, refused=False):
    """Whatever a file holds: an answer, or exit 2 and one line that says which verb and why."""
    lines = err.splitlines()
    assert code == 2 if refused else code in (0, 1, 2, 3), err
    assert "Traceback" not in err
    assert all(line.isprintable() for line in lines)
    if code == 2:
        assert out == ""
        assert len(lines) == 1
        assert lines[0].startswith(f"{verb(words)}: ")
        assert len(lines[0]) < 1100
        assert "allow_pickle=True" not in err
        assert "allow_pickle=False" not in err
    elif words[:2] != ["route", "run"]:
        assert all(line.startswith(f"{verb(words)}: warning: ") for line in lines)


def tree(folder):
    """What is in a folder, all the way down."""
    return {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
