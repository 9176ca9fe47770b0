"""A small program for tests of the control plane: its p4info, its stand-in for BMv2 JSON.

One table for every kind of match and every special case; nothing runs it.
"""

PROGRAM = b'{"program": "small.p4", "pipelines": []}'

P4INFO = """
pkg_info { arch: "v1model" }
tables {
  preamble { id: 0x02000001 name: "ingress.route" alias: "route" }
  match_fields { id: 1 name: "hdr.dst" bitwidth: 48 match_type: EXACT }
  match_fields { id: 2 name: "meta.plane" bitwidth: 3 match_type: EXACT }
  action_refs { id: 0x01000001 }
  action_refs { id: 0x01000002 }
  action_refs { id: 0x01000009 scope: DEFAULT_ONLY }
  initial_default_action { action_id: 0x01000002 }
  direct_resource_ids: 0x13000001
  size: 4
}
tables {
  preamble { id: 0x02000002 name: "ingress.acl" alias: "acl" }
  match_fields { id: 1 name: "hdr.src" bitwidth: 128 match_type: TERNARY }
  match_fields { id: 2 name: "hdr.sport" bitwidth: 16 match_type: RANGE }
  match_fields { id: 3 name: "hdr.proto" bitwidth: 8 match_type: OPTIONAL }
  action_refs { id: 0x01000002 }
  action_refs { id: 0x01000003 scope: TABLE_ONLY }
  action_refs { id: 0x01000009 }
  initial_default_action { action_id: 0x01000009 }
  size: 16
}
tables {
  preamble { id: 0x02000003 name: "ingress.fib" alias: "fib" }
  match_fields { id: 1 name: "hdr.ip" bitwidth: 32 match_type: LPM }
  action_refs { id: 0x01000001 }
  action_refs { id: 0x01000009 }
  initial_default_action {
    action_id: 0x01000001
    arguments { param_id: 1 value: "\\001\\377" }
    arguments { param_id: 2 value: "\\000" }
  }
  direct_resource_ids: 0x13000002
  size: 1024
}
tables {
  preamble { id: 0x02000004 name: "ingress.fixed" alias: "fixed" }
  match_fields { id: 1 name: "hdr.kind" bitwidth: 4 match_type: EXACT }
  action_refs { id: 0x01000002 }
  action_refs { id: 0x01000009 }
  initial_default_action { action_id: 0x01000009 }
  is_const_table: true
  has_initial_entries: true
  size: 1
}
tables {
  preamble { id: 0x02000005 name: "egress.settings" alias: "settings" }
  action_refs { id: 0x01000003 }
  action_refs { id: 0x01000009 }
  initial_default_action { action_id: 0x01000009 }
  size: 1
}
tables {
  preamble { id: 0x02000006 name: "egress.rewrite" alias: "rewrite" }
  match_fields { id: 1 name: "std.port" bitwidth: 9 match_type: EXACT }
  action_refs { id: 0x01000009 }
  const_default_action_id: 0x01000009
  size: 512
}
actions {
  preamble { id: 0x01000001 name: "ingress.forward" alias: "forward" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "mac" bitwidth: 48 }
}
actions { preamble { id: 0x01000002 name: "ingress.drop" alias: "drop" } }
actions {
  preamble { id: 0x01000003 name: "ingress.mark" alias: "mark" }
  params { id: 1 name: "level" bitwidth: 3 }
}
actions { preamble { id: 0x01000009 name: "NoAction" alias: "NoAction" } }
counters {
  preamble { id: 0x12000001 name: "ingress.drops" alias: "drops" }
  spec { unit: BOTH }
  size: 4
}
counters {
  preamble { id: 0x12000002 name: "egress.sent" alias: "sent" }
  spec { unit: BOTH }
  size: 2
}
direct_counters {
  preamble { id: 0x13000001 name: "ingress.route_hits" alias: "route_hits" }
  spec { unit: BOTH }
  direct_table_id: 0x02000001
}
direct_counters {
  preamble { id: 0x13000002 name: "ingress.fib_hits" alias: "fib_hits" }
  spec { unit: BOTH }
  direct_table_id: 0x02000003
}
registers {
  preamble { id: 0x16000001 name: "ingress.depth" alias: "depth" }
  type_spec { bitstring { bit { bitwidth: 19 } } }
  size: 8
}
registers {
  preamble { id: 0x16000002 name: "ingress.offset" alias: "offset" }
  type_spec { bitstring { int { bitwidth: 12 } } }
  size: 2
}
registers {
  preamble { id: 0x16000003 name: "ingress.seen" alias: "seen" }
  type_spec { bool { } }
  size: 2
}
"""
