// Package reserve keeps room in a pool for the calls that must succeed when the pool is full: the
// records of the driver, and the deletions that make room again.
//
// It decides how much room that is, when it is released and made again, whether something new may
// be made, and how a directory is removed without making anything. The reserve is a folder with
// allocated files, so that pods that fill the pool cannot take it:
//
//	STATE/reserve/blocks      allocated space
//	STATE/reserve/inode-NN    empty files, each of which holds an inode
//
// It must not know what the pool holds.
package reserve
