package kube

import (
	"hash/fnv"
	"strconv"
)

// handleBuckets is the number of parts of an index of PersistentVolumes by their handles. One for each
// handle costs more memory than a volume's name and handle together.
const handleBuckets = 1024

// HandleBucket returns the part of a volume handle. The caller must leave out the volumes of that part
// with other handles: a hundred in a cluster of a hundred thousand.
func HandleBucket(handle string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(handle)) // it never fails
	return strconv.Itoa(int(hash.Sum32() % handleBuckets))
}
