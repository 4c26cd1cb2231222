// Package scale compares what Purser's programs and upstream's need and do in an empty cluster with the
// same in a large one: the time from the start to the first served claim and attachment, memory, the
// requests of the start, the rate and the percentiles of new claims and attachments, and the time
// without service when the leader changes. Both clusters are one API server in one run, so the ratio of
// the two columns says how each figure grows with the number of objects.
package scale
