package loopfile

import "strconv"

// about returns a size with two digits, for messages. The free space of a disk changes all the
// time, but the message must not, or each attempt would emit a new event.
func about(bytes int64) string {
	const units = "KMGTPE"
	size, unit := float64(bytes), ""
	for i := 0; i < len(units) && size >= 1024; i++ {
		size, unit = size/1024, units[i:i+1]+"i"
	}
	switch {
	case size < 10:
		size = float64(int64(size*10)) / 10
	case size < 100:
		size = float64(int64(size))
	default:
		size = float64(int64(size/10)) * 10
	}
	return strconv.FormatFloat(size, 'f', -1, 64) + unit
}
