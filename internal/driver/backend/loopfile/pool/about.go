package pool

import "strconv"

// about is a size as people say it, with two digits. How much of a disk is
// free changes all the time; what people are told of it must not, or each
// attempt would tell them something new.
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
