"""`protoc-gen-trxds`, a plugin that protoc runs: it reads a request from stdin and writes the response to stdout.

protoc --trxds_out=DIR --trxds_opt=relative,sync,servicers ...
"""

from __future__ import annotations

import sys

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import Edition

from .stubs import Options, stubs_of

_OPTIONS = Options.__struct_fields__


def main() -> None:
    request = CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(request).SerializeToString())


def answer(request: CodeGeneratorRequest) -> CodeGeneratorResponse:
    """Return the files to write, or in `error` what is wrong with the request."""
    response = CodeGeneratorResponse(
        supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL
        | CodeGeneratorResponse.FEATURE_SUPPORTS_EDITIONS,
        minimum_edition=Edition.EDITION_PROTO2,
        maximum_edition=Edition.EDITION_2024,
    )
    asked = [each.strip() for each in request.parameter.split(",") if each.strip()]
    unknown = [each for each in asked if each not in _OPTIONS]
    if unknown:
        response.error = f"--trxds_opt={unknown[0]}: no such option; there are {', '.join(_OPTIONS)}"
        return response
    options = Options(**{name: name in asked for name in _OPTIONS})
    for path, text in stubs_of(request.proto_file, request.file_to_generate, options).items():
        response.file.add(name=path, content=text)
    return response
