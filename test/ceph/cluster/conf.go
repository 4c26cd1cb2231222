package cluster

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
)

// settings are those of every daemon and client. One copy of everything, on
// one OSD; changes of the maps are not collected for a second first.
const settings = `
public network = 127.0.0.0/8
ms bind ipv6 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon warn on pool no redundancy = false
mon data avail warn = 2
mon data avail crit = 1
paxos propose interval = 0.05
paxos min wait = 0.02
`

// conf is the configuration file of the daemons and of the administrator.
func conf(dir, fsid, address string) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"[global]\nfsid = %s\nmon host = %s\nkeyring = %s/$name.keyring\nrun dir = %s/run\ncrash dir = %s/log\n",
		fsid,
		address,
		dir,
		dir,
		dir,
	)
	b.WriteString(settings)
	// Clients would fight over one admin socket.
	b.WriteString("[client]\nadmin socket =\nlog file =\n")
	// With the keyring of the other daemons the monitor would turn cephx off.
	fmt.Fprintf(
		&b,
		"[mon]\nmon data = %s/mon\nkeyring = %s/mon/keyring\nmon cluster log file = %s/log/cluster.log\n",
		dir,
		dir,
		dir,
	)
	fmt.Fprintf(&b, "[mgr]\nmgr data = %s/mgr\nmgr initial modules =\n", dir)
	fmt.Fprintf(&b, "[mds]\nmds data = %s/mds\n", dir)
	fmt.Fprintf(
		&b,
		"[osd]\nosd data = %s/osd\nosd objectstore = memstore\nmemstore device bytes = 8589934592\nosd memory target = 939524096\n",
		dir,
	)
	// What is in memory is counted without a lock. With several threads the count drifts, falls below
	// nothing, and is taken for a full disk: then every write waits for ever.
	b.WriteString("osd op num shards = 1\nosd op num threads per shard = 1\n")
	// The watch of a killed client ends sooner than after half a minute.
	b.WriteString("osd client watch timeout = 5\n")
	for _, section := range []string{"mon", "mgr", "mds", "osd"} {
		fmt.Fprintf(&b, "[%s]\nadmin socket = %s/run/$name.asok\nlog file = %s/log/$name.log\n", section, dir, dir)
	}
	return b.String()
}

// freePorts asks the kernel for two ports.
func freePorts() (first, second int, err error) {
	var ports [2]int
	for i := range ports {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		// Held until both are known, so that they differ.
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

// newUUID is a random one (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) //nolint:forbidigo // It never fails, and two clusters must differ.
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
