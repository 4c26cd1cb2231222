// Package datasource decides whether a claim names a source that nothing serves: a kind that is neither a
// claim nor a VolumeSnapshot, and that no VolumePopulator names (DV-4). It knows kinds only; whether the
// source exists is for its populator, and it must not read objects or emit events.
package datasource
