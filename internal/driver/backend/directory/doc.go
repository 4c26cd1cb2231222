// Package directory keeps every volume in a directory of its own, on whatever
// filesystem the state directory lies.
//
// It decides the layout on disk and how a volume is created and deleted, so that
// a crash leaves no half of one:
//
//	STATE/volumes/<id>/volume.json   what was asked for
//	STATE/volumes/<id>/data/         the content
//	STATE/temp/                      volumes under construction
//	STATE/trash/                     volumes under destruction
//	STATE/reserve/                   see package reserve
//
// A volume exists from the moment its directory is renamed from temp to
// volumes until the moment it is renamed to trash. STATE/volumes holds
// nothing else, so it is empty when there are no volumes.
//
// Limits: there is no quota, so the size of a volume is a number that is
// remembered and nothing more, and a volume can be read through the mount of
// its own filesystem only, so there is no block access, no filesystem type and
// there are no mount flags to choose. All access modes are accepted: every
// node that sees the state directory sees the same files.
//
// It must not know CSI messages, target paths or what is published.
package directory
