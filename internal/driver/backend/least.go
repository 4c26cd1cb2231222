package backend

import "cmp"

// LeastRequest returns the required bytes from which a backend that rounds sizes up makes a volume of
// these bytes, where a request is known that has fewer: asked, for which the backend makes a volume of
// rounded bytes. It returns 0 if only a request for the whole size is known to be enough, as for a
// volume that was expanded since.
func LeastRequest(bytes, asked, rounded int64) int64 {
	if asked <= 0 || asked >= bytes || rounded < bytes {
		return 0
	}
	return asked
}

// LeastSource returns the required bytes that a request must have at least for a volume which begins
// with this one.
func (v Volume) LeastSource() int64 { return cmp.Or(v.LeastBytes, v.CapacityBytes) }

// LeastSource returns the same for a snapshot.
func (s Snapshot) LeastSource() int64 { return cmp.Or(s.LeastBytes, s.SizeBytes) }
