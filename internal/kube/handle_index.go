package kube

import (
	"hash/fnv"
	"strconv"
)

// handleBuckets is how many parts an index of PersistentVolumes by their handles has. One for each handle
// costs more memory than a volume's name and handle together.
const handleBuckets = 1024

// HandleBucket returns the value of such an index for a handle. Who lists by it leaves out the volumes with
// other handles: a hundred in a cluster of a hundred thousand.
func HandleBucket(handle string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(handle)) // it never fails
	return strconv.Itoa(int(hash.Sum32() % handleBuckets))
}
