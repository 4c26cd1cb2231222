// Package zone divides the volumes of one machine among named zones, for a development cluster whose
// nodes are all on that machine.
//
// It decides in which of the wanted zones a new volume is, and when a zone is full. The zone of a
// volume is on disk before the volume is made, so a repeated CreateVolume finds it again.
//
// It must not know what a volume is, which nodes exist, or how CSI spells a topology.
package zone
