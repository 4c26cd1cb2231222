//go:build linux && amd64

package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changing are the system calls that leave something behind. write(2) is not
// one of them: until it is synced nothing relies on it.
var changing = []uint32{
	unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT,
	unix.SYS_SYMLINK, unix.SYS_SYMLINKAT, unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_RMDIR,
	unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FALLOCATE, unix.SYS_COPY_FILE_RANGE, unix.SYS_MOUNT,
	unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_LCHOWN,
	unix.SYS_FCHOWNAT,
}

const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// changingIoctls are those of ioctl(2).
var changingIoctls = []uint32{
	unix.LOOP_CTL_GET_FREE, unix.LOOP_CTL_ADD, unix.LOOP_CTL_REMOVE, unix.LOOP_CONFIGURE, unix.LOOP_SET_FD,
	unix.LOOP_CLR_FD, unix.LOOP_SET_STATUS64, unix.LOOP_SET_CAPACITY, unix.LOOP_SET_DIRECT_IO,
	unix.BLKROSET, unix.FICLONE, fiFreeze, fiThaw,
}

// Where things are in struct seccomp_data.
const (
	offsetNumber   = 0
	offsetArgument = 16
	argument       = 8
)

// filter is a program for the kernel: calls that change something wait for the
// tracer, all others run as ever.
func filter() []unix.SockFilter {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	load := func(offset uint32) unix.SockFilter { return statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
	answer := func(k uint32) unix.SockFilter { return statement(unix.BPF_RET|unix.BPF_K, k) }
	// unless runs the statement behind it when the comparison holds, and
	// otherwise goes on behind that.
	when := func(code uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | code | unix.BPF_K, Jt: 0, Jf: 1, K: k}
	}
	program := []unix.SockFilter{load(offsetNumber)}
	for _, number := range changing {
		program = append(program, when(unix.BPF_JEQ, number), answer(unix.SECCOMP_RET_USER_NOTIF))
	}
	// openat(2) that can make a file.
	program = append(program,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 4, K: unix.SYS_OPENAT},
		load(offsetArgument+2*argument),
		when(unix.BPF_JSET, unix.O_CREAT), answer(unix.SECCOMP_RET_USER_NOTIF),
		answer(unix.SECCOMP_RET_ALLOW),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, Jf: 0, K: unix.SYS_IOCTL},
		answer(unix.SECCOMP_RET_ALLOW),
		load(offsetArgument+1*argument))
	for _, command := range changingIoctls {
		program = append(program, when(unix.BPF_JEQ, command), answer(unix.SECCOMP_RET_USER_NOTIF))
	}
	return append(program, answer(unix.SECCOMP_RET_ALLOW))
}

// childSocket is the descriptor by which a child hands over the listener.
const childSocket = 3

// Join puts this process and all that it will start under the filter. A child that Start started calls
// it first. From here on every call that changes something waits for the parent's answer.
func Join() error {
	program := filter()
	listening := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	flags := unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	listener, _, code := unix.Syscall(
		unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags), uintptr(unsafe.Pointer(&listening)),
	)
	if code != 0 {
		return fmt.Errorf("seccomp: %w", code)
	}
	if err := unix.Sendmsg(childSocket, []byte{0}, unix.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	// The copies of this process must not keep the tracer waiting.
	return errors.Join(unix.Close(int(listener)), unix.Close(childSocket))
}

// receiveListener is the other side of Join.
func receiveListener(socket *os.File) (int, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("the child sent no listener: %d messages, %w", len(messages), err)
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return files[0], nil
}

// notification is struct seccomp_notif; answer is struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	arguments  [6]uint64
}

type answer struct {
	id     uint64
	value  int64
	failed int32
	flags  uint32
}

// Tracer lets the calls of a child run until it is the turn of the last one.
type Tracer struct {
	listener int
	child    *os.Process
	last     int
	calls    int
	fatal    string
	traced   chan error
	seen     func(Call)
	// full is the error of calls that need room, from the call number last on; 0 kills the child
	// instead. relieved ends that.
	full     unix.Errno
	relieved atomic.Bool
}

// Start starts the command, whose process calls Join before anything else. It is killed before its
// call number last; 0 is none. seen is called before each system call, and may be nil.
func Start(command *exec.Cmd, last int, seen func(Call)) (*Tracer, error) {
	return start(command, &Tracer{last: last, seen: seen})
}

// StartFull starts the command as Start does, and fills its disk instead of killing it: from its
// call number first on, the child's own calls that need room on a disk fail, until Relieve.
func StartFull(command *exec.Cmd, first int, full unix.Errno) (*Tracer, error) {
	return start(command, &Tracer{last: first, full: full})
}

// Relieve makes room again.
func (t *Tracer) Relieve() { t.relieved.Store(true) }

func start(command *exec.Cmd, t *Tracer) (*Tracer, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	command.ExtraFiles = []*os.File{theirs}
	err = command.Start()
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	listener, err := receiveListener(ours)
	if err != nil {
		_ = command.Process.Kill()
		return nil, errors.Join(err, command.Wait())
	}
	t.listener, t.child, t.traced = listener, command.Process, make(chan error, 1)
	go func() { t.traced <- t.run() }()
	return t, nil
}

// Wait returns when no process under the filter is left: the number of calls, and the one that was not
// made, empty if none.
func (t *Tracer) Wait() (calls int, fatal string, err error) {
	err = <-t.traced
	return t.calls, t.fatal, err
}

// run answers until no process under the filter is left.
func (t *Tracer) run() error {
	defer unix.Close(t.listener)
	for {
		poll := []unix.PollFd{{Fd: int32(t.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents&unix.POLLHUP != 0 {
				return nil
			}
			continue
		}
		if err := t.one(); err != nil {
			return err
		}
	}
}

func (t *Tracer) one() error {
	var n notification
	err := t.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
		return nil // it died while it waited
	}
	if err != nil {
		return fmt.Errorf("receive a call: %w", err)
	}
	t.calls++
	call := describe(n)
	if t.seen != nil {
		t.seen(call)
	}
	a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	switch {
	case t.full != 0:
		if t.fails(n) {
			if t.fatal == "" {
				t.fatal = call.String()
			}
			a.failed, a.flags = -int32(t.full), 0
		}
	case t.calls == t.last:
		t.fatal = call.String()
		own := t.isChild(n.pid)
		_ = t.child.Kill()
		if own {
			return nil // with an answer the call could be made before the signal arrives
		}
	}
	if err := t.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("answer a call: %w", err)
	}
	return nil
}

// needRoom are the calls that fail on a full disk. The sync of a file stands for its writes, which
// some filesystems allocate only then.
var needRoom = []int32{
	unix.SYS_OPENAT, unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK, unix.SYS_SYMLINKAT, unix.SYS_MKNODAT, unix.SYS_FALLOCATE,
	unix.SYS_COPY_FILE_RANGE, unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
}

// fails reports whether a call finds the disk full. A file that is there can be opened, although
// the call could make it.
func (t *Tracer) fails(n notification) bool {
	if t.calls < t.last || t.relieved.Load() || !slices.Contains(needRoom, n.number) || !t.isChild(n.pid) {
		return false
	}
	switch n.number {
	case unix.SYS_OPENAT:
		_, err := os.Stat(stringAt(n.pid, n.arguments[1]))
		return err != nil
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE:
		info, err := os.Stat(fmt.Sprintf("/proc/%d/fd/%d", n.pid, n.arguments[0]))
		isLonger := err == nil && (n.number != unix.SYS_FTRUNCATE || int64(n.arguments[1]) > info.Size())
		return isLonger && info.Mode().IsRegular()
	default:
		return true
	}
}

// isChild reports whether the thread is one of the child itself, and not of a program that it runs.
func (t *Tracer) isChild(thread uint32) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", t.child.Pid, thread))
	return err == nil
}

func (t *Tracer) control(request uint, argument unsafe.Pointer) error {
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(t.listener), uintptr(request), uintptr(argument)); code != 0 {
		return code
	}
	return nil
}

var names = map[int32]string{
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_UNLINKAT: "unlink", unix.SYS_MKDIRAT: "mkdir", unix.SYS_FSYNC: "fsync",
	unix.SYS_FTRUNCATE: "truncate", unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "unmount", unix.SYS_OPENAT: "create", unix.SYS_RMDIR: "rmdir",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_FCHMODAT: "chmod", unix.SYS_SYMLINKAT: "symlink",
	unix.SYS_LCHOWN: "chown",
}

// Call is a system call that changes something.
type Call struct {
	Name      string // as of a shell's command, or a number
	Path      string // what it changes; empty for a call on a descriptor
	Arguments [6]uint64
}

func (c Call) String() string {
	if c.Path == "" {
		return c.Name
	}
	return c.Name + " " + c.Path
}

// paths says which argument is the path that a call changes, where it is not the second.
var paths = map[int32]int{
	unix.SYS_IOCTL: -1, unix.SYS_FSYNC: -1, unix.SYS_FTRUNCATE: -1, unix.SYS_FALLOCATE: -1, unix.SYS_COPY_FILE_RANGE: -1,
	unix.SYS_UMOUNT2: 0, unix.SYS_RMDIR: 0, unix.SYS_LCHOWN: 0, unix.SYS_SYMLINKAT: 2,
}

// describe names the call and its path.
func describe(n notification) Call {
	call := Call{Name: names[n.number], Arguments: n.arguments}
	switch {
	case n.number == unix.SYS_IOCTL:
		call.Name = fmt.Sprintf("ioctl %#x", n.arguments[1])
	case call.Name == "":
		call.Name = fmt.Sprintf("system call %d", n.number)
		return call
	}
	at, other := paths[n.number]
	if !other {
		at = 1
	}
	if at >= 0 {
		call.Path = stringAt(n.pid, n.arguments[at])
	}
	return call
}

// stringAt reads a path out of the process, up to a zero.
func stringAt(pid uint32, at uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return "?"
	}
	defer memory.Close()
	text := make([]byte, 256)
	read, _ := memory.ReadAt(text, int64(at))
	for i, b := range text[:read] {
		if b == 0 {
			return string(text[:i])
		}
	}
	return string(text[:read])
}

// Usable returns why this process cannot trace on this kernel; nil when it can.
func Usable() error {
	var sizes [3]uint16
	_, _, code := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	if code != 0 {
		return fmt.Errorf("the kernel cannot stop a process at its system calls: %w", code)
	}
	if int(sizes[0]) != binary.Size(notification{}) || int(sizes[1]) != binary.Size(answer{}) {
		return fmt.Errorf("the kernel speaks of its system calls in another form: %v", sizes)
	}
	return nil
}
