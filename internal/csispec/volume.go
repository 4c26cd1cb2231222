package csispec

// VolumeOf returns the handle of the volume that a request is about, or the name of one to create; empty
// for a request about none.
func VolumeOf(request any) string {
	switch r := request.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetSourceVolumeId() string }:
		return r.GetSourceVolumeId()
	case interface{ GetName() string }:
		return r.GetName()
	}
	return ""
}
