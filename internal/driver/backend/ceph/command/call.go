package command

import (
	"os"
	"strings"
	"time"
)

// Program is a tool of Ceph.
type Program string

// The programs.
const (
	RBD       Program = "rbd"
	Ceph      Program = "ceph"
	RBDNBD    Program = "rbd-nbd"
	RBDFuse   Program = "rbd-fuse"
	CephFuse  Program = "ceph-fuse"
	MountCeph Program = "mount.ceph"
)

// packaged says what to install where a program is missing.
var packaged = map[Program]string{
	RBD: "ceph-common", Ceph: "ceph-common", MountCeph: "ceph-common",
	RBDNBD: "rbd-nbd", RBDFuse: "rbd-fuse", CephFuse: "ceph-fuse",
}

// Call is one run of a tool.
type Call struct {
	Program Program
	// Access is empty for what is about this machine alone.
	Access Access
	// Arguments are those of the tool; how it reaches the cluster is added.
	Arguments []string
	// Patience bounds the call; the Runner's own when zero.
	Patience time.Duration
	// Target names what hangs when the call cannot even be killed.
	Target string
	// Doing is what an error says was tried; program and arguments when
	// empty.
	Doing string
}

const (
	// connecting is how many seconds a tool tries to reach the cluster by
	// itself. It ends before the call's own bound and says more.
	connecting = "15"
	keyringArg = "--keyring=" + inherited
)

// prepared is what a call needs to be started.
type prepared struct {
	arguments   []string
	environment []string
	file        *os.File
}

// prepare adds how the cluster is reached, in the words of each program.
func (c Call) prepare() (prepared, error) {
	var p prepared
	var err error
	p.environment = []string{
		"LC_ALL=C.UTF-8",
		"TZ=UTC",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	if c.Access.Conf == "" {
		// What is about this machine alone needs no cluster, and must not
		// look for one.
		p.arguments = append(append([]string{}, c.Arguments...), "--no-config-file")
		return p, nil
	}
	if c.Program == MountCeph {
		p.file, err = c.Access.secretFile()
	} else {
		p.file, err = c.Access.keyring()
	}
	if err != nil {
		return p, err
	}
	reach := []string{"--conf=" + c.Access.Conf, "--id=" + c.Access.User, keyringArg}
	switch c.Program {
	case RBDFuse:
		// It knows no option for the user, but as all clients does it read
		// this variable.
		p.environment = append(p.environment, "CEPH_ARGS=--id="+c.Access.User+" "+keyringArg)
		p.arguments = append([]string{"-c", c.Access.Conf}, c.Arguments...)
	case MountCeph:
		p.arguments = c.Arguments
	case Ceph:
		p.arguments = append(append(reach, "--connect-timeout="+connecting), c.Arguments...)
	default:
		p.arguments = append(append([]string{}, c.Arguments...), append(reach, "--client_mount_timeout="+connecting)...)
	}
	return p, nil
}

// MountOptions are what mount.ceph needs beside the options of the mount.
func MountOptions(a Access) string {
	return "name=" + a.User + ",secretfile=" + inherited + ",conf=" + a.Conf
}

func (c Call) doing() string {
	if c.Doing != "" {
		return c.Doing
	}
	return strings.Join(append([]string{string(c.Program)}, c.Arguments...), " ")
}
