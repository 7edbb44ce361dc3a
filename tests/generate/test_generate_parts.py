"""The parts of the generator: names, docstrings, imports, and what the plugin answers."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trxds
from trxds.generate.comments import docstring
from trxds.generate.names import Names, method_name, module_of, path_of, relative
from trxds.generate.plugin import answer
from trxds.generate.rewrite import export_all_types, make_imports_relative

pytestmark = pytest.mark.slow

PROTOS = Path(__file__).parent / "protos"


@settings(deadline=None)
@given(st.text() | st.text('"\\ \n'))
@example('"""')
@example('\\"')
@example('ends with "')
@example('"""\\')
@example(" \\N{x} \\u12 \0 \x0c")
def test_a_comment_in_the_proto_becomes_a_docstring(text):
    doc = docstring(text, "    ")
    made = ast.parse(f"class Stub:\n{doc}    pass\n")
    said = ast.get_docstring(made.body[0], clean=False) or ""
    lines = [line.removeprefix(" ").rstrip().replace("\t", "    ") for line in text.strip("\n").split("\n")]
    assert inspect.cleandoc(said) == inspect.cleandoc("\n    ".join("\n".join(lines).strip("\n").split("\n")))


@pytest.mark.parametrize(
    "proto, module",
    [("a.proto", "a_pb2"), ("shop/v1/my-cart.proto", "shop.v1.my_cart_pb2"), ("lambda/f.proto", "lambda.f_pb2")],
)
def test_a_module_is_called_as_protoc_calls_it(proto, module):
    assert module_of(proto, "_pb2") == module


def test_a_module_has_its_text_where_python_looks_for_it():
    assert path_of("shop.v1.cart_trxds") == "shop/v1/cart_trxds.py"


@pytest.mark.parametrize(
    "name, expected", [("Add", "Add"), ("import", "import_"), ("_caller", "caller_"), ("__init__", "init___")]
)
def test_a_method_that_python_cannot_name_has_an_underscore_behind(name, expected):
    assert method_name(name) == expected


def test_a_name_that_is_taken_is_not_given_twice():
    names = Names(["trxds"])
    assert [names.free("trxds"), names.free("a"), names.free("a"), names.free("a", "b")] == ["trxds_", "a", "a_", "b"]


@pytest.mark.parametrize(
    "module, importer, said",
    [
        ("a_pb2", "b_trxds", (".", "a_pb2")),
        ("shop.a_pb2", "shop.b_trxds", (".", "a_pb2")),
        ("shop.v1.a_pb2", "shop.b_trxds", (".v1", "a_pb2")),
        ("other.a_pb2", "shop.v1.b_trxds", ("...other", "a_pb2")),
        ("a_pb2", "shop.v1.b_trxds", ("...", "a_pb2")),
    ],
)
def test_a_relative_import_goes_up_and_down_again(module, importer, said):
    assert relative(module, importer) == said


@pytest.mark.parametrize(
    "line, rewritten",
    [
        ("import a_pb2 as a__pb2", "from .. import a_pb2 as a__pb2"),
        ("from shop import b_pb2 as shop_dot_b__pb2", "from . import b_pb2 as shop_dot_b__pb2"),
        ("from shop.b_pb2 import *", "from .b_pb2 import *"),
        ("from shop.b_pb2 import Item as Item", "from .b_pb2 import Item as Item"),
        ("k = importlib.import_module('in.k_pb2')", "k = importlib.import_module('..in.k_pb2', __package__)"),
        ("from google.protobuf import empty_pb2 as e", "from google.protobuf import empty_pb2 as e"),
        ("from google.api.http_pb2 import *", "from google.api.http_pb2 import *"),
        ("import c_pb2 as c__pb2", "import c_pb2 as c__pb2"),
        ("_descriptor = 'import a_pb2'", "_descriptor = 'import a_pb2'"),
    ],
)
def test_protoc_s_imports_of_what_is_beside_become_relative(line, rewritten):
    beside = {"a_pb2", "shop.b_pb2", "in.k_pb2"}
    assert make_imports_relative(f"x\n{line}\ny\n", "shop.cart_pb2", beside) == f"x\n{rewritten}\ny\n"


def test_untyped_annotations_of_protoc_get_types():
    line = (
        "def __init__(self, a: _Optional[_Union[A, _Mapping]] = ..., b: _Mapping[str, A] = ..., **kwargs) -> None: ..."
    )
    assert export_all_types(line) == (
        "def __init__(self, a: _Optional[_Union[A, _Mapping[str, object]]] = ..., b: _Mapping[str, A] = ..., "
        "**kwargs: object) -> None: ..."
    )


def test_protoc_s_types_of_extensions_become_those_that_type_checkers_take():
    text = (
        "NOTE_FIELD_NUMBER: _ClassVar[int]\n"
        "class Item(_message.Message):\n"
        '    __slots__ = ("a",)\n'
        "    Extensions: _python_message._ExtensionDict\n"
        "    A_FIELD_NUMBER: _ClassVar[int]\n"
    )
    assert export_all_types(text) == (
        "NOTE_FIELD_NUMBER: int\n"
        "class Item(_message.Message):\n"
        '    __slots__ = ("a",)\n'
        "    A_FIELD_NUMBER: _ClassVar[int]\n"
    )


def test_the_plugin_names_an_option_that_it_does_not_know():
    response = answer(CodeGeneratorRequest(parameter="relative,asynch"))
    assert response.error == "--trxds_opt=asynch: no such option; there are relative, sync, servicers"


def test_protoc_writes_by_the_plugin_what_the_command_writes(plain, tmp_path):
    plugin = tmp_path / "protoc-gen-trxds"
    plugin.write_text(f"#!{sys.executable}\nfrom trxds.generate.plugin import main\nmain()\n", "utf-8")
    plugin.chmod(0o755)
    (tmp_path / "out").mkdir()
    protos = [str(path) for path in sorted(PROTOS.rglob("*.proto"))]
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}"),
            *(f"--plugin={plugin}", f"--trxds_out={tmp_path / 'out'}", "--trxds_opt=sync,servicers"),
            *protos,
        ],
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(trxds.__file__).parent.parent)},
        timeout=60,
    )
    by_plugin = {path.name: path.read_text("utf-8") for path in (tmp_path / "out").rglob("*.py")}
    assert by_plugin == {path.name: path.read_text("utf-8") for path in plain.rglob("*_trxds*.py")}
    assert len(by_plugin) == 6
