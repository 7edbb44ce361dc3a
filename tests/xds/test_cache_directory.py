"""The directory of resource caches, and the form of its files: what is damaged or somebody else's is not read."""

from __future__ import annotations

import json
import os
import stat
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from trxds.xds import bootstrap, cache_directory
from trxds.xds.cache_directory import CacheDirectory, UnsafeCacheError
from trxds.xds.cache_file import CachedResource, DamagedCacheError, cache_key, decode_cache, encode_cache

RESOURCE = CachedResource("cart", "type.googleapis.com/x.Y", b"\x00\xff", "7", "10.0.0.5:18000", 1.5, 2.5)


def written(tmp_path: Path, data: bytes = b"data") -> tuple[CacheDirectory, Path]:
    directory = CacheDirectory(tmp_path / "of" / "the program")
    directory.replace("key", data)
    return directory, directory.file("key")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# -- the directory


def test_a_cache_is_for_its_own_user_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _, file = written(tmp_path)
    finally:
        os.umask(before)
    assert (mode(file), mode(file.parent), mode(file.parent.parent)) == (0o600, 0o700, 0o700)


def test_a_cache_is_replaced_as_a_whole_and_leaves_no_other_file(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    before = file.stat().st_ino
    directory.replace("key", b"more")
    assert directory.read("key") == b"more"
    assert file.stat().st_ino != before
    assert list(file.parent.iterdir()) == [file]


def test_a_write_that_fails_leaves_the_last_cache_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, file = written(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        directory.replace("key", b"more")
    assert file.read_bytes() == b"data"
    assert list(file.parent.iterdir()) == [file]


def test_two_writers_of_one_process_do_not_write_into_each_others_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two channels to one target are two writers; and in containers each process may have the id 1."""
    directory, write = CacheDirectory(tmp_path), cache_directory._write

    def write_between(*arguments: Any) -> None:
        monkeypatch.setattr(cache_directory, "_write", write)
        write(*arguments)
        directory.replace("key", b"another")
        assert directory.read("key") == b"another"

    monkeypatch.setattr(cache_directory, "_write", write_between)
    directory.replace("key", b"one")
    assert directory.read("key") == b"one"
    assert len(list(directory.path.iterdir())) == 1


def test_there_is_no_cache_before_the_first_write(tmp_path: Path) -> None:
    assert CacheDirectory(tmp_path).read("key") is None
    assert list(tmp_path.iterdir()) == []


def test_a_symbolic_link_is_no_cache(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        directory.read("key")
    directory.replace("key", b"more")  # it is the link that is replaced
    assert (elsewhere.read_bytes(), file.is_symlink()) == (b"data", False)


def test_a_symbolic_link_is_no_directory_of_caches(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    file.parent.rename(elsewhere)
    directory.path.symlink_to(elsewhere)
    for use in (lambda: directory.read("key"), lambda: directory.replace("key", b"more")):
        with pytest.raises(OSError, match="Not a directory"):
            use()
    assert (elsewhere / file.name).read_bytes() == b"data"


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_use_is_no_cache(tmp_path: Path, wide: int) -> None:
    directory, file = written(tmp_path)
    file.chmod(wide)
    with pytest.raises(UnsafeCacheError, match=rf"{file.name} can be used by other users \(mode {wide:o}\); delete it"):
        directory.read("key")


def test_a_directory_that_others_can_use_is_neither_read_nor_written(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    file.parent.chmod(0o770)
    for use in (lambda: directory.read("key"), lambda: directory.replace("key", b"more")):
        with pytest.raises(UnsafeCacheError, match=r"can be used by other users \(mode 770\); delete it, or chmod 700"):
            use()


def test_a_file_of_another_user_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, file = written(tmp_path)
    owner = file.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(UnsafeCacheError, match=f"belongs to user {owner} and not to this program's"):
        directory.read("key")


def test_a_fifo_is_no_cache_and_is_not_waited_for(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    file.unlink()
    os.mkfifo(file, 0o600)
    with pytest.raises(UnsafeCacheError, match="is no ordinary file"):
        directory.read("key")


def test_caches_that_nobody_writes_any_more_are_removed(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    day = 86_400.0
    for name, age in (("old.cache", 11 * day), ("new.cache", 9 * day), (".x.1.tmp", 4000.0), (".y.2.tmp", 200.0)):
        (file.parent / name).write_bytes(b"")
        os.utime(file.parent / name, (1e9 - age, 1e9 - age))
    os.utime(file, (1e9, 1e9))
    (file.parent / "a note").write_bytes(b"")
    os.utime(file.parent / "a note", (1.0, 1.0))
    directory.remove_old(1e9, 10 * day)
    assert {each.name for each in file.parent.iterdir()} == {file.name, "new.cache", ".y.2.tmp", "a note"}


def test_an_old_directory_among_the_caches_is_left_alone(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    (other := file.with_name("old.cache")).mkdir()
    directory.remove_old(other.stat().st_mtime + 1e9, 60.0)
    assert (other.exists(), file.exists()) == (True, False)


def test_a_short_max_age_does_not_remove_the_caches_of_other_programs(tmp_path: Path) -> None:
    directory, file = written(tmp_path)
    os.utime(file, (1e9 - 3600.0, 1e9 - 3600.0))
    directory.remove_old(1e9, 60.0)
    assert file.exists()


# -- the form


def as_row(**changes: object) -> bytes:
    row = json.loads(encode_cache([RESOURCE]).partition(b"\n")[2])
    return json.dumps(row | changes).encode()


def with_checksum(row: bytes) -> bytes:
    body = row + b"\n"
    return f"trxds xDS resource cache 1 {sha256(body).hexdigest()}\n".encode() + body


def test_a_cache_comes_back_as_it_was_written() -> None:
    assert decode_cache(encode_cache([RESOURCE, RESOURCE])) == [RESOURCE, RESOURCE]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", "it is no resource cache"),
        (lambda data: b"{}\n" + data, "it is no resource cache"),
        (lambda data: data[:-1], "its checksum is wrong"),
        (lambda data: data.replace(b"cart", b"cars"), "its checksum is wrong"),
        (lambda data: data.replace(b"cache 1 ", b"cache 2 "), "it has version 2 of the format"),
    ],
)
def test_a_damaged_cache_says_why_it_is_not_read(damage: object, reason: str) -> None:
    assert callable(damage)
    with pytest.raises(DamagedCacheError, match=reason):
        decode_cache(damage(encode_cache([RESOURCE])))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b'{"name": 1}', "ValidationError"),
        (b"[]", "ValidationError"),
        (b"{", "DecodeError"),
        (b'{"name": "\xff"}', "UnicodeDecodeError"),
        (b'{"other": ' + b"[" * 1_000_000, "RecursionError"),  # a stack of 8 MB is enough for the tenth, from 3.14 on
        (as_row(name=1), "ValidationError"),
        (as_row(value="?"), "ValidationError"),
        (as_row(value="AA"), "ValidationError"),
        (as_row(accepted_at=1e300), "ValidationError"),
        (as_row(accepted_at=-1), "ValidationError"),
        (as_row(current_at=float("nan")), "DecodeError"),
        (as_row(current_at=10**400), "ValidationError"),
        (as_row(version="\ud800"), "DecodeError"),
    ],
)
def test_a_cache_of_another_form_is_damaged_though_its_checksum_is_right(row: bytes, reason: str) -> None:
    with pytest.raises(DamagedCacheError, match=f"it has another form: {reason}"):
        decode_cache(with_checksum(row))


def test_a_cache_of_an_earlier_trxds_is_read() -> None:
    # It wrote the members in another order, other characters than ASCII with escapes, and one member more may come.
    row = (
        b'{"type":"type.googleapis.com/x.Y","name":"caf\\u00e9","version":"7","server":"10.0.0.5:18000",'
        b'"accepted_at":1.5,"current_at":2,"value":"AP8=","later":[1]}'
    )
    assert decode_cache(with_checksum(row)) == [structs.replace(RESOURCE, name="caf\u00e9", current_at=2.0)]


def test_each_target_node_and_set_of_servers_has_a_cache_of_its_own() -> None:
    def document(uri: str = "a:1", node: str = "n", cluster: str = "c", other: str = "b:1") -> bootstrap.Bootstrap:
        servers = [{"server_uri": uri, "channel_creds": [{"type": "insecure"}]}]
        others = {"x": {"xds_servers": [{"server_uri": other, "channel_creds": [{"type": "insecure"}]}]}}
        return bootstrap.parse(
            {"xds_servers": servers, "node": {"id": node, "cluster": cluster}, "authorities": others}
        )

    keys = [
        cache_key(document(), "xds:///shop"),
        cache_key(document(), "xds:///cart"),
        cache_key(document(uri="a:2"), "xds:///shop"),
        cache_key(document(node="m"), "xds:///shop"),
        cache_key(document(cluster="d"), "xds:///shop"),
        cache_key(document(other="b:2"), "xds:///shop"),
    ]
    assert len(set(keys)) == len(keys)
    assert cache_key(document(), "xds:///shop") == keys[0]
