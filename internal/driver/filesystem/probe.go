package filesystem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Content is what the superblock of a file or device says.
type Content struct {
	// Type is Nothing when there is no superblock of ours.
	Type Type
	// Bytes is how large the filesystem is; the image can be larger.
	Bytes int64
	// BlockBytes is its unit.
	BlockBytes int64
	// Faulty says that the kernel found the filesystem damaged (ext4).
	Faulty bool
	// CheapIdentity says that the uuid of an ext4 can be changed in no time.
	CheapIdentity bool
}

// The offsets of the superblocks and of their fields. See the kernel's
// fs/ext4/ext4.h, fs/xfs/libxfs/xfs_format.h, include/uapi/linux/btrfs_tree.h.
const (
	extAt, extMagicAt                          = 1024, 0x38
	extBlocksLowAt, extLogBlockAt, extStateAt  = 0x04, 0x18, 0x3a
	extIncompatAt, extBlocksHighAt             = 0x60, 0x150
	extErrorState, ext64Bit, extSeed           = 0x2, 0x80, 0x2000
	xfsBlockAt, xfsBlocksAt                    = 4, 8
	btrfsAt, btrfsMagicAt                      = 64 << 10, 0x40
	btrfsSectorAt, btrfsDeviceAt, deviceSizeAt = 0x90, 0xc9, 8
	extMagic, xfsMagic, btrfsMagic             = "\x53\xef", "XFSB", "_BHRfS_M"
	probed                                     = btrfsAt + 4096
)

// Probe reads the superblock of a file or a device.
func Probe(path string) (Content, error) {
	file, err := os.Open(path)
	if err != nil {
		return Content{}, err
	}
	defer file.Close()
	head := make([]byte, probed)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return Content{}, err
	}
	clear(head[n:])
	return recognise(head), nil
}

// recognise is pure. Two superblocks at once can only be a remnant and a
// filesystem; btrfs wipes the others, so it comes last.
func recognise(head []byte) Content {
	le, be := binary.LittleEndian, binary.BigEndian
	ext, btrfs := head[extAt:], head[btrfsAt:]
	switch {
	case bytes.HasPrefix(head, []byte(xfsMagic)):
		block := int64(be.Uint32(head[xfsBlockAt:]))
		return Content{Type: XFS, BlockBytes: block, Bytes: block * int64(be.Uint64(head[xfsBlocksAt:]))}
	case bytes.HasPrefix(ext[extMagicAt:], []byte(extMagic)):
		incompat := le.Uint32(ext[extIncompatAt:])
		blocks := uint64(le.Uint32(ext[extBlocksLowAt:]))
		if incompat&ext64Bit != 0 {
			blocks |= uint64(le.Uint32(ext[extBlocksHighAt:])) << 32
		}
		block := int64(1024) << (le.Uint32(ext[extLogBlockAt:]) & 0xf)
		return Content{
			Type: Ext4, BlockBytes: block, Bytes: block * int64(blocks),
			Faulty:        le.Uint16(ext[extStateAt:])&extErrorState != 0,
			CheapIdentity: incompat&extSeed != 0,
		}
	case bytes.HasPrefix(btrfs[btrfsMagicAt:], []byte(btrfsMagic)):
		return Content{
			Type: Btrfs, BlockBytes: int64(le.Uint32(btrfs[btrfsSectorAt:])),
			Bytes: int64(le.Uint64(btrfs[btrfsDeviceAt+deviceSizeAt:])),
		}
	default:
		return Content{}
	}
}
