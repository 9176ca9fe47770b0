"""P4Runtime's messages.  The only module that touches the p4runtime package.

The stubs that p4runtime ships were generated before protoc 3.19: importing them under a current
protobuf fails, unless the whole process is switched to protobuf's pure-Python implementation, which
costs about twenty times as much per message.  But each of those modules carries, as one bytes
literal, the serialised descriptor of its .proto file, and that is all protobuf needs.  So the
literals are read from the installed files and the message classes are made from them.  Nothing is
imported under the name `p4`, which a folder of this repository bears as well.

`p4runtime` and `p4info` are namespaces of message classes, as `p4.v1.p4runtime_pb2` and
`p4.config.v1.p4info_pb2` would be.
"""

import ast
import re
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

from google.protobuf import any_pb2, descriptor_pool, message_factory, text_format
from google.rpc import status_pb2

__all__ = [
    "STUB_FILES",
    "any_pb2",
    "p4data",
    "p4info",
    "p4runtime",
    "status_pb2",
    "text_format",
]

# In the order in which they depend on one another; any_pb2 and status_pb2 come before them all.
_PROTO_FILES = (
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
)
_BYTES_LITERAL = re.compile(
    r"""(?:serialized_pb=|AddSerializedFile\()(b'(?:[^'\\\n]|\\.)*'|b"(?:[^"\\\n]|\\.)*")"""
)


def _stub_file(proto_file: str) -> Path:
    module = proto_file.removesuffix(".proto") + "_pb2.py"
    return Path(str(distribution("p4runtime").locate_file(module)))


STUB_FILES = tuple(_stub_file(name) for name in _PROTO_FILES)


def _load_descriptors() -> None:
    for path in STUB_FILES:
        found = _BYTES_LITERAL.search(path.read_text(encoding="utf-8"))
        if found is None:
            raise ImportError(f"{path} holds no serialised descriptor; p4runtime 1.6 does")
        descriptor_pool.Default().AddSerializedFile(ast.literal_eval(found.group(1)))


def _messages(proto_file: str) -> SimpleNamespace:
    file = descriptor_pool.Default().FindFileByName(proto_file)
    return SimpleNamespace(
        **{
            name: message_factory.GetMessageClass(message)
            for name, message in file.message_types_by_name.items()
        }
    )


_load_descriptors()
p4info = _messages("p4/config/v1/p4info.proto")
p4data = _messages("p4/v1/p4data.proto")
p4runtime = _messages("p4/v1/p4runtime.proto")
