"""`trxds generate`: what it writes, and what it says when it cannot."""

from importlib import import_module

import pytest
from click.testing import CliRunner

from trxds.cli.main import main

GOOD = """
syntax = "proto3";
service Greeter { rpc SayHello(Hello) returns (Hello); }
message Hello { string name = 1; }
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greeter.proto").write_text(GOOD, "utf-8")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(main, ["generate", *arguments])


def test_the_generate_command_writes_messages_and_stubs_and_prints_their_paths(here):
    done = run("greeter.proto", "--out", "made")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["made/greeter_pb2.py", "made/greeter_pb2.pyi", "made/greeter_trxds.py"]
    assert "class GreeterStub:" in (here / "made" / "greeter_trxds.py").read_text("utf-8")


def test_stubs_for_threads_are_written_if_asked_for(here):
    assert "made/greeter_trxds_sync.py" in run("greeter.proto", "--out", "made", "--sync").stdout.splitlines()


def test_a_proto_without_services_has_messages_only(here):
    (here / "plain.proto").write_text('syntax = "proto3";\nmessage M {}\n', "utf-8")
    assert run("plain.proto", "--out", ".").stdout.splitlines() == ["plain_pb2.py", "plain_pb2.pyi"]


def test_the_error_of_a_proto_without_a_syntax_stands_alone(here):
    (here / "bad.proto").write_text("mesage M {}\n", "utf-8")
    done = run("bad.proto", "--out", "made")
    assert done.stderr == 'Error: bad.proto:1:1: Expected top-level statement (e.g. "message").\n'


def test_a_bad_proto_is_told_by_line_and_nothing_is_written(here):
    (here / "bad.proto").write_text('syntax = "proto3";\nmessage M { strin name = 1; }\n', "utf-8")
    done = run("greeter.proto", "bad.proto", "--out", "made")
    assert done.exit_code == 1
    assert 'bad.proto:2:13: "strin" is not defined.' in done.stderr
    assert not (here / "made").exists()


def test_a_missing_import_is_named(here):
    (here / "lost.proto").write_text('syntax = "proto3";\nimport "nowhere.proto";\n', "utf-8")
    assert "nowhere.proto: File not found." in run("lost.proto", "--out", "made").stderr


def test_the_generate_command_names_the_missing_extra(here, monkeypatch):
    monkeypatch.setattr("trxds.generate.protoc.find_spec", lambda name: None)
    done = run("greeter.proto", "--out", "made")
    assert (done.exit_code, "pip install 'trxds[generate]'" in done.stderr) == (1, True)


def test_stubs_of_protoc_that_are_not_python_are_left_out_and_named(here):
    (here / "odd.proto").write_text('syntax = "proto3";\nmessage class {}\n', "utf-8")
    done = run("odd.proto", "--out", "made")
    assert done.stdout.splitlines() == ["made/odd_pb2.py"]
    assert "made/odd_pb2.pyi is left out" in done.stderr


def test_an_import_by_protoc_that_is_not_python_is_named_and_nothing_is_written(here):
    (here / "2fa.proto").write_text('syntax = "proto3";\nmessage Code {}\n', "utf-8")
    (here / "login.proto").write_text(
        'syntax = "proto3";\nimport "2fa.proto";\nmessage L { Code code = 1; }\n', "utf-8"
    )
    done = run("2fa.proto", "login.proto", "--out", "made")
    assert done.exit_code == 1
    assert "login_pb2.py is no Python: 'import 2fa_pb2 as 2fa__pb2'; rename the .proto" in done.stderr
    assert not (here / "made").exists()


def test_a_proto_whose_name_begins_with_a_digit_has_modules_that_can_be_imported(here, monkeypatch):
    (here / "2024").mkdir()
    (here / "2024" / "2fa.proto").write_text(GOOD, "utf-8")
    assert run("2024/2fa.proto", "--out", "made", "--servicers", "--relative").exit_code == 0
    monkeypatch.syspath_prepend(here)
    assert import_module("made.2024.2fa_trxds").GreeterStub
    assert import_module("made.2024.2fa_trxds_servicers").GreeterServicer


def test_a_comment_that_is_not_utf_8_becomes_a_docstring(here):
    text = GOOD.replace("service", "// Caf\xe9 greets.\nservice")
    (here / "old.proto").write_bytes(text.encode("latin-1"))
    assert run("old.proto", "--out", "made").exit_code == 0
    assert '"""Caf\N{REPLACEMENT CHARACTER} greets."""' in (here / "made" / "old_trxds.py").read_text("utf-8")


def test_a_folder_that_cannot_be_written_is_said(here):
    (here / "file").write_text("", "utf-8")
    done = run("greeter.proto", "--out", "file/made")
    assert (done.exit_code, "file/made" in done.stderr) == (1, True)
