// Package loopfile keeps every volume in an image file of its own, which the
// kernel's loop driver makes a block device. The file is as large as the
// volume, so that a volume that is full hurts only its own pod, and `df`
// tells the truth.
//
// It decides the layout on disk and the order of the steps, so that a crash of
// the program or of the machine leaves nothing half made:
//
//	STATE/volumes/<id>/volume.json     what was asked for
//	STATE/volumes/<id>/image           the content; its size is the volume's
//	STATE/volumes/<id>/formatting      mkfs was begun and not finished
//	STATE/volumes/<id>/undo            ext4 was being grown, and this undoes it
//	STATE/volumes/<id>/size            the size of an image in which that is undone
//	STATE/snapshots/<id>/snapshot.json
//	STATE/snapshots/<id>/image
//	STATE/groups/<id>/group.json
//	STATE/groups/<id>/<snapshot>/      as in snapshots
//	STATE/staged/<id>.json             where the volume is staged
//	STATE/frozen/<id>                  a freeze that must be undone
//	STATE/temp/                        under construction
//	STATE/trash/                       under destruction
//	STATE/reserve/                     see package reserve
//
// A volume, snapshot or group exists from the moment its directory is renamed from
// temp until it is renamed to trash. Nothing but the image says how large a
// volume is, and nothing but its superblock whether it has a filesystem.
//
// Work such as an mkfs goes on after its caller was cancelled ([Runner]), and the retried call gets the
// result; started again with each retry, it would never end.
//
// What is staged is kept open: a bind mount of a device node does not keep the
// loop device, and its number would be given to another image.
//
// How a loop device is made is decided in loopdev, what differs between
// filesystems in filesystem, how a file becomes a copy of another in image,
// and how much may be promised in pool.
//
// It must not know CSI messages, target paths or what is published.
package loopfile
