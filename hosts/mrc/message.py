"""Work requests and what becomes of them on the way."""

from dataclasses import dataclass
from enum import Enum

from hosts.errors import UsageError
from hosts.mrc.memory import MemoryRegion
from hosts.mrc.units import Ns

DMA_LENGTH_MAX = 1 << 30
"""1 GiB, the limit of one message here (the field itself has 32 bits)."""


class Status(Enum):
    SUCCESS = "success"
    FLUSHED = "flushed"
    """The QP went to ERROR with this request unfinished."""
    RETRY_EXCEEDED = "retry_exceeded"
    REMOTE_ACCESS_ERROR = "remote_access_error"
    REMOTE_INVALID_REQUEST = "remote_invalid_request"
    REMOTE_OPERATION_ERROR = "remote_operation_error"


class CompletionKind(Enum):
    SEND = "send"
    RECV_IMM = "recv_imm"


@dataclass(frozen=True, slots=True)
class Completion:
    """`wr_id` of a RECV_IMM is its place among the QP's immediates (0, 1, ...)."""

    qpn: int
    wr_id: int
    kind: CompletionKind
    status: Status
    imm: int | None
    byte_len: int
    t_ns: Ns


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """RDMA WRITE of `local.buffer[offset : offset + length]` to `remote_va`; with `imm` if not
    None.

    The bytes must not change until the completion.
    """

    wr_id: int
    local: MemoryRegion
    offset: int
    length: int
    remote_va: int
    rkey: int
    imm: int | None = None

    def check(self) -> None:
        """Raises UsageError."""
        if not 0 <= self.length <= DMA_LENGTH_MAX:
            raise UsageError(f"a write of {self.length} bytes")
        if self.offset < 0 or self.offset + self.length > self.local.length:
            raise UsageError("a write from outside its local memory region")
        if self.imm is not None and not 0 <= self.imm < 1 << 32:
            raise UsageError(f"immediate {self.imm} is not 32 bits")


class Message:
    """A posted write in packets: `packet_count` PSNs from `first_seq` on, numbered when sent first.

    `msn` counts messages, `rqmsn` the immediates before and including this one; both unwrapped.
    """

    __slots__ = (
        "first_seq", "imm", "length", "msn", "next_index", "packet_count", "remote_va", "rkey",
        "rqmsn", "view", "wr_id",
    )  # fmt: skip

    def __init__(self, request: WriteRequest, msn: int, rqmsn: int, pmtu: int) -> None:
        self.wr_id = request.wr_id
        self.view = memoryview(request.local.buffer)[
            request.offset : request.offset + request.length
        ]
        self.length = request.length
        self.remote_va = request.remote_va
        self.rkey = request.rkey
        self.imm = request.imm
        self.msn = msn
        self.rqmsn = rqmsn
        self.packet_count = max(1, -(-request.length // pmtu))
        self.next_index = 0
        self.first_seq = -1

    @property
    def last_seq(self) -> int:
        return self.first_seq + self.packet_count - 1
