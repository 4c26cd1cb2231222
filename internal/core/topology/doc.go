// Package topology decides where a volume must be reachable from, and says where a created volume is.
//
// So far it knows the place of one selected node; the aggregation over nodes and allowed topologies comes with the full
// rules (docs/rows.md section 7). It must not know how nodes are found.
package topology
