// The MRC switch: one program for every switch of the fabric; its table rows say which one it is.
//
//   ingress   Routing    own uSID off, next hop            include/routing.p4
//             Faults     injected loss                     include/faults.p4
//             Admission  data or control queue, trimming   include/queueing.p4
//   (queues)
//   egress    Departure  true depth back to ingress        include/queueing.p4
//             Marking    ECN                               include/marking.p4
//
// Target: v1model, with two queues a port (BMv2: --priority-queues 2).

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/routing.p4"
#include "include/faults.p4"
#include "include/queueing.p4"
#include "include/marking.p4"

control MrcIngress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    Routing() routing;
    Faults() faults;
    Admission() admission;

    // By ingress port: what came off the wire. What left is `sent`; what is neither sent nor in
    // `drops` waits in a queue, or the traffic manager had no room for it.
    counter<PortId_t>(PORTS, CounterType.packets) received;
    counter<bit<8>>(DROP_REASONS, CounterType.packets_and_bytes) drops;

    apply {
        received.count(standard_metadata.ingress_port);

        if (standard_metadata.parser_error != error.NoError) {
            meta.drop = drop_t.MALFORMED;
        } else if (!hdr.ipv6.isValid()) {
            meta.drop = drop_t.NOT_IPV6;
        } else {
            routing.apply(hdr, meta, standard_metadata);
            if (meta.drop == drop_t.NONE) {
                faults.apply(meta, standard_metadata);
            }
        }

        // The one place where this program drops: every loss has a reason.
        if (meta.drop == drop_t.NONE) {
            admission.apply(hdr, meta, standard_metadata);
        } else {
            drops.count((bit<8>)meta.drop);
            mark_to_drop(standard_metadata);
        }
    }
}

control MrcEgress(inout headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Departure() departure;
    Marking() marking;

    counter<PortId_t>(PORTS, CounterType.packets) sent;

    apply {
        departure.apply(meta, standard_metadata);
        marking.apply(hdr, meta, standard_metadata);
        sent.count(standard_metadata.egress_port);
    }
}

V1Switch(MrcParser(), NoChecksumToVerify(), MrcIngress(), MrcEgress(), NoChecksumToCompute(),
         MrcDeparser()) main;
