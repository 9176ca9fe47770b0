// Faults that live in the switch: silent loss, as of a broken forwarding chip or a dirty optic.
//
// The table is empty in a healthy fabric. A row names what it hits by any of ingress port, egress
// port and entropy value, and the share of packets it takes; no key and 1 000 000 is a blackhole.

#ifndef FAULTS_P4
#define FAULTS_P4

#include "headers.p4"

const bit<32> PER_MILLION = 1000000;

control Faults(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    bit<32> drop_per_million = 0;

    direct_counter(CounterType.packets_and_bytes) fault_matched;

    action lose(bit<32> per_million) {
        fault_matched.count();
        drop_per_million = per_million;
    }

    table fault {
        key = {
            standard_metadata.ingress_port: optional @name("ingress_port");
            standard_metadata.egress_spec: optional @name("egress_port");
            meta.ev: ternary @name("ev");
        }
        actions = { lose; NoAction; }
        default_action = NoAction();
        counters = fault_matched;
        size = 64;
    }

    apply {
        if (fault.apply().hit) {
            bit<32> draw;
            random(draw, 0, PER_MILLION - 1);
            if (draw < drop_per_million) {
                meta.drop = drop_t.FAULT;
            }
        }
    }
}

#endif
