package filesystem

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// The offsets of the fields in a superblock of btrfs, see struct btrfs_super_block. The
// first is at btrfsAt; a filesystem that is large enough has copies.
const (
	btrfsBytes, sumBytes                        = 4096, 32
	uuidAt, uuidBytes, ownPlaceAt               = 0x20, 16, 0x30
	devicesAt, incompatAt, sumTypeAt, oldUUIDAt = 0x88, 0xbc, 0xc4, 0x23b
	// oldUUIDFlag (METADATA_UUID) says that the blocks of the tree go by
	// another uuid than the filesystem. Linux knows it since 5.0.
	oldUUIDFlag = 1 << 10
	sumIsCRC    = 0
)

var btrfsCopiesAt = []int64{btrfsAt, 64 * mebi, 256 << 30}

func newUUID() (uuid [uuidBytes]byte, err error) {
	_, err = io.ReadFull(rand.Reader, uuid[:])
	uuid[6], uuid[8] = uuid[6]&0x0f|0x40, uuid[8]&0x3f|0x80
	return uuid, err
}

// renameBtrfs gives a btrfs that is not mounted another uuid.
func renameBtrfs(file *os.File, uuid [uuidBytes]byte) error {
	for i, at := range btrfsCopiesAt {
		block := make([]byte, btrfsBytes)
		if _, err := file.ReadAt(block, at); errors.Is(err, io.EOF) && i > 0 {
			return nil // too small for this copy and for those behind it
		} else if err != nil {
			return err
		}
		if i > 0 && !isCopyAt(block, at) {
			continue // the filesystem ends before, and its image does not
		}
		if err := renameBlock(block, uuid); err != nil {
			return err
		}
		if _, err := file.WriteAt(block, at); err != nil {
			return err
		}
	}
	return nil
}

func isCopyAt(block []byte, at int64) bool {
	return bytes.HasPrefix(block[btrfsMagicAt:], []byte(btrfsMagic)) &&
		binary.LittleEndian.Uint64(block[ownPlaceAt:]) == uint64(at)
}

// renameBlock is pure.
func renameBlock(block []byte, uuid [uuidBytes]byte) error {
	le := binary.LittleEndian
	if kind := le.Uint16(block[sumTypeAt:]); kind != sumIsCRC {
		return fault.Unsupported.Errorf(
			"the btrfs has checksums of type %d, and only those of type %d (crc32c) can be written; copy it as a "+
				"block volume",
			kind,
			sumIsCRC,
		)
	}
	if devices := le.Uint64(block[devicesAt:]); devices != 1 {
		return fault.Unsupported.Errorf(
			"the btrfs has %d devices, and this is one of them; copy it as a block volume",
			devices,
		)
	}
	if le.Uint32(block) != sumOf(block) {
		return errors.New("the superblock of the btrfs is damaged: its checksum is wrong")
	}
	if flags := le.Uint64(block[incompatAt:]); flags&oldUUIDFlag == 0 {
		le.PutUint64(block[incompatAt:], flags|oldUUIDFlag)
		copy(block[oldUUIDAt:], block[uuidAt:uuidAt+uuidBytes])
	}
	copy(block[uuidAt:], uuid[:])
	clear(block[:sumBytes])
	le.PutUint32(block, sumOf(block))
	return nil
}

func sumOf(block []byte) uint32 {
	return crc32.Checksum(block[sumBytes:], crc32.MakeTable(crc32.Castagnoli))
}
