// Command krew packs the kubectl plugin: an archive for each system, their checksums, and the
// manifest for krew, kubectl's plugin manager.
//
//	krew -version v1.2.3 -created SECONDS -license FILE -out DIR BINARIES
//
// BINARIES is a folder with files named OS-ARCH. What is written depends on these files and the
// flags only, so that the same source yields the same bytes.
package main
