-- MRC (Multipath Reliable Connection) for Wireshark and tshark, over IPv6 in IPv6 or native IPv6.
--
--   tshark -X lua_script:docs/wireshark/mrc.lua -r capture.pcapng
--
-- or copy it to the plugin folder (Help, About, Folders).  UDP 4971, the specification's port, and
-- 4791, which MRC shares with RoCEv2: there, packets with opcodes that are not MRC's go on to the
-- dissector that had the port before.  Names of fields are those of hosts/wire.
--
-- Wireshark asks the owner of the lower of the two ports first.  The testbed's EVs put the source
-- port at 49152 or above; for others add `-d udp.port==4971,mrc`.  Of a trimmed packet Wireshark
-- itself says that its UDP length is wrong, which is so: the switch cut it.  A zero checksum is
-- what MRC sends: `-o udp.ignore_ipv6_zero_checksum:TRUE`.

local mrc = Proto("mrc", "Multipath Reliable Connection")

local OPCODES = {
    [0xC6] = "WRITE First", [0xC7] = "WRITE Middle", [0xC8] = "WRITE Last",
    [0xC9] = "WRITE Last with Immediate", [0xCA] = "WRITE Only",
    [0xCB] = "WRITE Only with Immediate", [0xD1] = "Acknowledge",
    [0xD8] = "Endpoint Request", [0xD9] = "Endpoint Response",
    [0xDC] = "Reliability SACK", [0xDD] = "Reliability NACK", [0xDE] = "Reliability Probe",
}
local EV_HINTS = { [0] = "none", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP", [3] = "reserved" }
local NACK_REASONS = {
    [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP",
    [0x07] = "NO_PKT_BUFFER", [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW",
    [0x19] = "UNEXP_EVENT",
}
local ENDPOINT_OPS = { [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE" }
local DSCP_TRIMMED, DSCP_TRIMMED_LASTHOP = 12, 16
local ICRC_LENGTH = 4

local f = {
    opcode = ProtoField.uint8("mrc.opcode", "Opcode", base.HEX, OPCODES),
    pad = ProtoField.uint8("mrc.pad", "Pad count", base.DEC, nil, 0x30),
    version = ProtoField.uint8("mrc.version", "Transport version", base.DEC, nil, 0x0F),
    p_key = ProtoField.uint16("mrc.p_key", "Partition key", base.HEX),
    dest_qpn = ProtoField.uint24("mrc.dest_qpn", "Destination QPN", base.DEC),
    ack_req = ProtoField.bool("mrc.ack_req", "AckReq", 8, nil, 0x80),
    rtx = ProtoField.bool("mrc.rtx", "Retransmission", 8, nil, 0x20),
    ts = ProtoField.bool("mrc.ts_present", "Timestamp header present", 8, nil, 0x10),
    psn = ProtoField.uint24("mrc.psn", "PSN", base.DEC),
    ev = ProtoField.uint32("mrc.ev", "Entropy value (flow label and source port)", base.HEX),
    trimmed = ProtoField.bool("mrc.trimmed", "Trimmed on the way"),
    rqmsn = ProtoField.uint16("mrc.rqmsn", "RQMSN", base.DEC),
    msn = ProtoField.uint24("mrc.msn", "MSN", base.DEC),
    tx_ticks = ProtoField.uint16("mrc.tx_ticks", "Transmit timestamp", base.DEC),
    tsr = ProtoField.uint16("mrc.tsr", "Timestamp resolution", base.DEC,
        { [0] = "128 ns", [1] = "implementation defined" }, 0x8000),
    ftype = ProtoField.uint16("mrc.ftype", "Timestamp format", base.DEC, nil, 0x000F),
    va = ProtoField.uint64("mrc.va", "Virtual address", base.HEX),
    rkey = ProtoField.uint32("mrc.rkey", "Remote key", base.HEX),
    dma_length = ProtoField.uint32("mrc.dma_length", "DMA length", base.DEC),
    imm = ProtoField.uint32("mrc.imm", "Immediate", base.HEX),
    payload = ProtoField.bytes("mrc.payload", "Payload"),
    payload_length = ProtoField.uint32("mrc.payload_length", "Payload bytes", base.DEC),
    padding = ProtoField.bytes("mrc.padding", "Padding"),
    icrc = ProtoField.uint32("mrc.icrc", "Invariant CRC", base.HEX),
    syndrome = ProtoField.uint8("mrc.aeth.syndrome", "Syndrome", base.HEX),
    hint = ProtoField.uint16("mrc.sack.m", "EV hint (m)", base.DEC, EV_HINTS, 0x0060),
    pr = ProtoField.bool("mrc.sack.pr", "Answers a probe", 16, nil, 0x0002),
    ack_psn_offset = ProtoField.int16("mrc.sack.ack_psn_offset", "Triggering PSN less cack_psn"),
    probe_id = ProtoField.uint16("mrc.probe_id", "Probe id", base.DEC),
    entropy = ProtoField.uint32("mrc.entropy", "Reflected entropy value", base.HEX),
    spdcid = ProtoField.uint16("mrc.spdcid", "Source QPN, low half", base.DEC),
    dpdcid = ProtoField.uint16("mrc.dpdcid", "Destination QPN, low half", base.DEC),
    cack_psn = ProtoField.uint24("mrc.sack.cack_psn", "Cumulative ACK PSN", base.DEC),
    cc_type = ProtoField.uint8("mrc.cc_type", "CC type", base.DEC, nil, 0xF0),
    cc_fl = ProtoField.uint8("mrc.cc_fl", "CC flags", base.HEX, nil, 0x0F),
    mpr = ProtoField.uint8("mrc.sack.mpr", "MPR in units of 128", base.DEC),
    sack_offset = ProtoField.int16("mrc.sack.sack_offset", "Bitmap base less cack_psn"),
    bitmap = ProtoField.uint64("mrc.sack.bitmap", "Bitmap", base.HEX),
    ooo_count = ProtoField.uint16("mrc.sack.ooo_count", "Out of order", base.DEC, nil, 0x7FFF),
    restore = ProtoField.bool("mrc.sack.restore_cwnd", "Restore the window", 8, nil, 0x80),
    penalty = ProtoField.uint8("mrc.sack.rcv_cwnd_pen", "Window penalty", base.DEC, nil, 0x7F),
    rcvd_units = ProtoField.uint24("mrc.sack.rcvd_units", "Received, units of 256 B", base.DEC),
    reason = ProtoField.uint8("mrc.nack.reason", "Reason", base.HEX, NACK_REASONS),
    vendor_info = ProtoField.uint8("mrc.vendor_info", "Vendor information", base.HEX),
    nack_psn = ProtoField.uint24("mrc.nack.psn", "NACK PSN", base.DEC),
    request_op = ProtoField.uint16("mrc.op", "Operation", base.DEC, ENDPOINT_OPS, 0x0003),
    response_op = ProtoField.uint16("mrc.op", "Operation", base.DEC, ENDPOINT_OPS, 0x000C),
    port_mask = ProtoField.uint32("mrc.erth.port_status_mask", "Reachable ports", base.HEX),
}
for _, field in pairs(f) do
    mrc.fields[#mrc.fields + 1] = field
end

local too_short = ProtoExpert.new("mrc.too_short", "Packet ends within its headers",
    expert.group.MALFORMED, expert.severity.ERROR)
mrc.experts = { too_short }

local dscp_of = Field.new("ipv6.tclass.dscp")
local flow_of = Field.new("ipv6.flow")
local sport_of = Field.new("udp.srcport")

-- Each takes (tree, buffer, offset) and returns the offset behind its header.

local function message(tree, buffer, at)
    tree:add(f.rqmsn, buffer(at, 2))
    tree:add(f.msn, buffer(at + 2, 2))
    return at + 4
end

local function timestamp(tree, buffer, at)
    tree:add(f.tx_ticks, buffer(at, 2))
    tree:add(f.tsr, buffer(at + 2, 2))
    tree:add(f.ftype, buffer(at + 2, 2))
    return at + 4
end

local function rdma(tree, buffer, at)
    tree:add(f.va, buffer(at, 8))
    tree:add(f.rkey, buffer(at + 8, 4))
    tree:add(f.dma_length, buffer(at + 12, 4))
    return at + 16
end

local function aeth(tree, buffer, at)
    tree:add(f.syndrome, buffer(at, 1))
    tree:add(f.msn, buffer(at + 1, 3))
    return at + 4
end

local function connection_ids(tree, buffer, at)
    tree:add(f.spdcid, buffer(at, 2))
    tree:add(f.dpdcid, buffer(at + 2, 2))
end

local function congestion_type(tree, buffer, at)
    tree:add(f.cc_type, buffer(at, 1))
    tree:add(f.cc_fl, buffer(at, 1))
end

local function sack(tree, buffer, at)
    tree:add(f.hint, buffer(at, 2))
    tree:add(f.pr, buffer(at, 2))
    if buffer(at + 1, 1):bitfield(6, 1) == 1 then
        tree:add(f.probe_id, buffer(at + 2, 2))
    else
        tree:add(f.ack_psn_offset, buffer(at + 2, 2))
    end
    tree:add(f.entropy, buffer(at + 4, 4))
    connection_ids(tree, buffer, at + 8)
    tree:add(f.cack_psn, buffer(at + 13, 3))
    congestion_type(tree, buffer, at + 16)
    tree:add(f.mpr, buffer(at + 17, 1))
    tree:add(f.sack_offset, buffer(at + 18, 2))
    tree:add(f.bitmap, buffer(at + 20, 8))
    tree:add(f.tx_ticks, buffer(at + 28, 2))
    tree:add(f.ooo_count, buffer(at + 30, 2))
    tree:add(f.restore, buffer(at + 32, 1))
    tree:add(f.penalty, buffer(at + 32, 1))
    tree:add(f.rcvd_units, buffer(at + 33, 3))
    return at + 36
end

local function nack(tree, buffer, at)
    tree:add(f.reason, buffer(at + 2, 1))
    tree:add(f.vendor_info, buffer(at + 3, 1))
    tree:add(f.entropy, buffer(at + 4, 4))
    connection_ids(tree, buffer, at + 8)
    tree:add(f.nack_psn, buffer(at + 13, 3))
    congestion_type(tree, buffer, at + 16)
    tree:add(f.tx_ticks, buffer(at + 18, 2))
    return at + 20
end

local function probe(tree, buffer, at)
    tree:add(f.vendor_info, buffer(at + 3, 1))
    tree:add(f.probe_id, buffer(at + 4, 2))
    connection_ids(tree, buffer, at + 8)
    return timestamp(tree, buffer, at + 12)
end

local function endpoint_request(tree, buffer, at)
    tree:add(f.request_op, buffer(at, 2))
    tree:add(f.vendor_info, buffer(at + 3, 1))
    tree:add(f.port_mask, buffer(at + 4, 4))
    return timestamp(tree, buffer, at + 12)
end

local function endpoint_response(tree, buffer, at)
    tree:add(f.response_op, buffer(at, 2))
    tree:add(f.tx_ticks, buffer(at + 28, 2))
    return at + 36
end

-- Opcode to {name of its header, length, function}; writes are put together from parts.
local CONTROL = {
    [0xD1] = { "AETH", 4, aeth }, [0xD8] = { "ERTH", 16, endpoint_request },
    [0xD9] = { "EETH", 36, endpoint_response }, [0xDC] = { "SETH, CC_STATE", 36, sack },
    [0xDD] = { "NETH", 20, nack }, [0xDE] = { "PETH", 16, probe },
}

local function has_immediate(opcode)
    return opcode == 0xC9 or opcode == 0xCB
end

local function is_write(opcode)
    return opcode >= 0xC6 and opcode <= 0xCB
end

-- Header by header as far as the buffer goes; false if it ends within one.
local function part(tree, buffer, at, length, name, dissect)
    if at + length > buffer:len() then
        return nil
    end
    dissect(tree:add(mrc, buffer(at, length), name), buffer, at)
    return at + length
end

local function write(tree, buffer, opcode, has_ts)
    local at = part(tree, buffer, 12, 4, "METH", message)
    if at and has_ts then
        at = part(tree, buffer, at, 4, "TSETH", timestamp)
    end
    if not at then
        return nil, false
    end
    local all = part(tree, buffer, at, 16, "RETH", rdma)
    if all and has_immediate(opcode) then
        all = part(tree, buffer, all, 4, "ImmDt", function(t, b, o) t:add(f.imm, b(o, 4)) end)
    end
    return all or at, all ~= nil
end

local function base_header(tree, buffer, is_trimmed)
    local bth = tree:add(mrc, buffer(0, 12), "BTH")
    bth:add(f.opcode, buffer(0, 1))
    bth:add(f.pad, buffer(1, 1))
    bth:add(f.version, buffer(1, 1))
    bth:add(f.p_key, buffer(2, 2))
    bth:add(f.dest_qpn, buffer(5, 3))
    bth:add(f.ack_req, buffer(8, 1))
    bth:add(f.rtx, buffer(8, 1))
    bth:add(f.ts, buffer(8, 1))
    bth:add(f.psn, buffer(9, 3))
    local flows, sport = { flow_of() }, sport_of()
    if #flows > 0 and sport then
        local ev = (flows[#flows].value % 65536) * 65536 + sport.value
        bth:add(f.ev, ev):set_generated()
    end
    bth:add(f.trimmed, is_trimmed):set_generated()
end

local function tail(tree, buffer, at, pad)
    local length = buffer:len() - at - pad - ICRC_LENGTH
    if length < 0 then
        return false
    end
    tree:add(f.payload_length, length):set_generated()
    if length > 0 then
        tree:add(f.payload, buffer(at, length))
    end
    if pad > 0 then
        tree:add(f.padding, buffer(at + length, pad))
    end
    tree:add_le(f.icrc, buffer(at + length + pad, ICRC_LENGTH))
    return true
end

local function dissect(buffer, pinfo, root)
    local opcode = buffer(0, 1):uint()
    local dscp = dscp_of()
    local is_trimmed = dscp ~= nil
        and (dscp.value == DSCP_TRIMMED or dscp.value == DSCP_TRIMMED_LASTHOP)
    local tree = root:add(mrc, buffer(), "Multipath Reliable Connection, " .. OPCODES[opcode])
    local has_ts = buffer(8, 1):bitfield(3, 1) == 1
    pinfo.cols.protocol = "MRC"
    pinfo.cols.info = string.format("%s%s QPN=%d PSN=%d", OPCODES[opcode],
        is_trimmed and " (trimmed)" or "", buffer(5, 3):uint(), buffer(9, 3):uint())
    base_header(tree, buffer, is_trimmed)
    local at, complete
    if is_write(opcode) then
        at, complete = write(tree, buffer, opcode, has_ts)
    else
        local name, length, header = table.unpack(CONTROL[opcode])
        at = part(tree, buffer, has_ts and 16 or 12, length, name, header)
        complete = at ~= nil
    end
    if is_trimmed and at then
        return
    end
    local pad = is_write(opcode) and buffer(1, 1):bitfield(2, 2) or 0
    if not (at and complete and tail(tree, buffer, at, pad)) then
        tree:add_proto_expert_info(too_short)
    end
end

local udp_ports = DissectorTable.get("udp.port")
local rocev2 = udp_ports:get_dissector(4791)

function mrc.dissector(buffer, pinfo, root)
    if buffer:len() < 12 or not OPCODES[buffer(0, 1):uint()] then
        if pinfo.dst_port == 4791 and rocev2 then
            return rocev2:call(buffer, pinfo, root)
        end
        return 0
    end
    dissect(buffer, pinfo, root)
    return buffer:len()
end

udp_ports:add(4971, mrc)
udp_ports:add(4791, mrc)
