"""The descriptor sets in the package say what the .proto texts beside them say."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from protos.build import compiled, sources


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.stem)
def test_a_descriptor_set_is_as_new_as_its_text(source: Path) -> None:
    stored = FileDescriptorSet.FromString(source.with_suffix(".binpb").read_bytes())
    assert stored == compiled(source), f"run `make protos`: {source.name} has changed"
