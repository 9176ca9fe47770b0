// ECN by random early detection, on the data queue as a packet leaves it.
//
// With up to `ecn_low` packets left behind none is marked, from `ecn_high` on every one, and in
// between the probability rises in a straight line. A depth drawn evenly from low .. high - 1 is
// below the real one with just that probability, so one comparison does it, in integers.
//
// In MRC a mark says "not this path for now". All paths to a NIC share its last hop, so ports to
// hosts have ecn_high = 0: off.

#ifndef MARKING_P4
#define MARKING_P4

#include "headers.p4"

control Marking(inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {
    counter<PortId_t>(PORTS, CounterType.packets_and_bytes) ecn_marked;

    apply {
        bool capable = hdr.ipv6.ecn != ECN_NOT_ECT && hdr.ipv6.ecn != ECN_CE;
        if (capable && standard_metadata.priority == DATA_QUEUE && meta.ecn_high != 0
                && standard_metadata.deq_qdepth > meta.ecn_low) {
            depth_t draw;
            random(draw, meta.ecn_low, meta.ecn_high - 1);
            if (standard_metadata.deq_qdepth > draw) {
                hdr.ipv6.ecn = ECN_CE;
                ecn_marked.count(standard_metadata.egress_port);
            }
        }
    }
}

#endif
