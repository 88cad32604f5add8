import os
import pickle

import numpy as np
import pytest

from procrustean.base import DataError
from procrustean.data import restricted_pickle


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def load(thing, protocol=4):
    return restricted_pickle.load(pickle.dumps(thing, protocol), name="batch")


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4", "<f4", "?"])
def test_arrays_of_numbers_come_back(dtype, protocol):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    back = load({"data": array, "fortran": np.asfortranarray(array)}, protocol)
    assert np.array_equal(back["data"], array)
    assert np.array_equal(back["fortran"], array)
    assert back["data"].dtype == np.dtype(dtype).newbyteorder("=")


def test_plain_values_come_back():
    values = {
        "names": ["a", "b"],
        "labels": [1, 2, 2**40],
        "raw": b"x",
        "nested": [[1], {"k": [2]}],
        3: "three",
    }
    assert load(values) == values


def test_a_list_that_holds_itself_does_not_hang():
    loop: list = [1]
    loop.append(loop)
    assert load(loop)[1][0] == 1


def python2_batch():
    """What Python 2 wrote for {'labels': [3, 5], 'data': array([[0, 200]], dtype=uint8)}."""
    return (
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x03K\x05eU\x04dataq\x04"
        b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07"
        b"(K\x01K\x01K\x02\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x00\xc8tbu."
    )


def test_what_python_2_pickled():
    batch = restricted_pickle.load(python2_batch(), name="batch")
    assert batch["labels"] == [3, 5]
    assert batch["data"].tolist() == [[0, 200]]
    assert batch["data"].dtype == np.uint8


@pytest.mark.parametrize(
    ("thing", "named"),
    [
        (Calls(os.system, "touch proof"), r"(posix|nt)\.system"),
        (Calls(eval, "open('proof', 'w')"), r"builtins\.eval"),
        (Calls(getattr, "x", "y"), r"builtins\.getattr"),
        (Calls(np.load, "proof.npy"), r"numpy.*\.load"),
        (Calls(np.frombuffer, b"x"), r"numpy.*\.frombuffer"),
        ({"data": [Calls(os.system, "touch proof")]}, r"(posix|nt)\.system"),
        (np.array([Calls(os.system, "touch proof")], dtype=object), "type 'O8'|system"),
        (np.array([1, "x"], dtype=object), "array type 'O8' is refused"),
        (np.zeros(2, dtype=[("a", "i4")]), "array type 'V4' is refused"),
        (np.array(["text"]), "array type 'U4' is refused"),
        (range(3), r"builtins\.range"),
    ],
)
def test_everything_else_is_refused_by_name(thing, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"^batch: .*({named})"):
        load(thing)
    assert list(tmp_path.iterdir()) == []


def test_object_arrays_in_a_handmade_pickle_are_refused():
    state = python2_batch().replace(b"U\x02u1", b"U\x02O8")
    with pytest.raises(DataError, match="array type 'O8'"):
        restricted_pickle.load(state, name="batch")


def test_an_array_whose_type_hides_fields_is_refused():
    hidden = python2_batch().replace(b"U\x01|NNN", b"U\x01|N)}")
    with pytest.raises(DataError, match="array with fields is refused"):
        restricted_pickle.load(hidden, name="batch")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "not a readable pickle"),
        (b"\x80\x04\x8c\x0bnumpy.dtype\x8c\x04type\x93.", r"asks for numpy\.dtype\.type"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.", r"asks for numpy\.dtype\.__init__"),
        (b"\x80\x02U\x01xQ.", "not a readable pickle"),
        (b"(cos\nsystem\nU\x04true\x6f.", r"asks for os\.system"),
        (b"(U\x04trueios\nsystem\n.", r"asks for os\.system"),
        (b"", "not a readable pickle"),
        (b"hello, this is no pickle", "not a readable pickle"),
    ],
)
def test_handmade_pickles(data, message):
    with pytest.raises(DataError, match=message):
        restricted_pickle.load(data, name="batch")


def test_a_pickle_cannot_change_what_others_are_read_by():
    """BUILD sets attributes of whatever it is given, here of what stands for numpy's dtype."""
    changed = b"\x80\x02cnumpy\ndtype\nN}(U\x0c__defaults__K\x01\x85U\x08__name__U\x01xu\x86b."
    assert restricted_pickle.load(changed, name="batch").__name__ == "x"
    again = restricted_pickle.load(b"\x80\x02cnumpy\ndtype\n.", name="batch")
    assert (again.__name__, again.__defaults__) == ("<lambda>", None)


def test_a_pickle_cannot_change_the_number_types_of_the_program():
    changed = b"\x80\x02cnumpy\ndtype\nU\x02i8\x85R(K\x03U\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb."
    restricted_pickle.load(changed, name="batch")
    assert np.dtype("i8").str == np.arange(1).dtype.str


@pytest.mark.parametrize("keep", [0.2, 0.6, 0.95])
def test_truncated_pickles(keep):
    whole = pickle.dumps({"data": np.zeros(500, np.uint8)}, 4)
    with pytest.raises(DataError, match="not a readable pickle"):
        restricted_pickle.load(whole[: int(len(whole) * keep)], name="batch")


def test_an_array_with_too_few_bytes():
    short = python2_batch().replace(b"U\x02\x00\xc8", b"U\x01\x00")
    with pytest.raises(DataError, match="not a readable pickle"):
        restricted_pickle.load(short, name="batch")
